package consensus

import (
	"sync/atomic"
	"time"

	"github.com/lni/dragonboat/v4"
)

// The engine counts entries between two snapshots. An entry may have hundreds of commands, or a
// megabyte: twenty thousand of those keep a replica that starts busy for half a minute. So each
// replica counts what it has applied, too, and has a snapshot written when that is much.

const (
	// snapshotCommands is how many commands there are between snapshots at most, for each entry
	// that there may be. One that travels with others takes a replica that starts a fraction of the
	// time that one of its own takes.
	snapshotCommands = 5
	// snapshotBytes is how much of the log there is between snapshots at most.
	snapshotBytes = 64 << 20
	// snapshotPatience bounds the writing of one. A million locks take some seconds.
	snapshotPatience = 5 * time.Minute
)

// backlog is what a replica has applied since its last snapshot.
type backlog struct {
	commandsMax uint64
	commands    atomic.Uint64
	bytes       atomic.Uint64
	since       atomic.Uint64 // index of that snapshot, 0 if there was none
	due         chan struct{} // capacity 1: there is much
}

func newBacklog(entries uint64) *backlog {
	return &backlog{commandsMax: snapshotCommands * entries, due: make(chan struct{}, 1)}
}

// add notes what was applied.
func (c *backlog) add(commands, bytes uint64) {
	c.commands.Add(commands)
	c.bytes.Add(bytes)
	if c.isDue() {
		select {
		case c.due <- struct{}{}:
		default:
		}
	}
}

func (c *backlog) isDue() bool {
	return c.commands.Load() >= c.commandsMax || c.bytes.Load() >= snapshotBytes
}

// reset notes that there is a snapshot at an index.
func (c *backlog) reset(index uint64) {
	c.commands.Store(0)
	c.bytes.Store(0)
	c.since.Store(index)
}

// writeSnapshots has snapshots written when there is much since the last one, until the replica
// ends.
func (g *Group) writeSnapshots() {
	backlog := g.machine.backlog
	due, retry := backlog.due, (<-chan time.Time)(nil)
	for {
		select {
		case <-due:
			if backlog.isDue() && !g.snapshot() {
				due, retry = nil, time.After(g.cfg.Election) // the engine is about to write one itself
			}
		case <-retry:
			due, retry = backlog.due, nil
		case <-g.carrier.ended:
			return
		case <-g.failed:
			return
		}
	}
}

// snapshot has a snapshot written. The log is kept from the one before on, for replicas that lag.
func (g *Group) snapshot() bool {
	var option dragonboat.SnapshotOption
	if before := g.machine.backlog.since.Load(); before > 0 {
		option.OverrideCompactionOverhead, option.CompactionIndex = true, before
	}
	var state *dragonboat.RequestState
	err := g.call(func(host *dragonboat.NodeHost) (err error) {
		state, err = host.RequestSnapshot(shard, option, snapshotPatience)
		return err
	})
	if err != nil {
		return false
	}
	select {
	case result := <-state.ResultC():
		return result.Completed()
	case <-g.carrier.ended:
	case <-g.failed:
	}
	return false
}
