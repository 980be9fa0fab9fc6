package consensus

import (
	"sync/atomic"
	"time"

	"github.com/lni/dragonboat/v4"

	"github.com/holdfast-go/holdfast/internal/consensus/engine"
	"github.com/holdfast-go/holdfast/internal/loop"
)

// The engine counts entries between two snapshots. But an entry may have hundreds of commands, or a
// megabyte: a replica would apply twenty thousand of those for half a minute at a start. So each
// replica also counts commands and bytes, and requests a snapshot when they are many.

const (
	// snapshotCommands bounds the commands between snapshots, for each entry of SnapshotEntries. A
	// command in a shared entry takes a fraction of the time of one in its own.
	snapshotCommands = 5
	// snapshotBytes bounds the bytes of the log between snapshots.
	snapshotBytes = 64 << 20
	// snapshotPatience bounds the writing of a snapshot. A million locks take some seconds.
	snapshotPatience = 5 * time.Minute
)

// backlog counts what a replica has applied since its last snapshot.
type backlog struct {
	commandsMax uint64
	commands    atomic.Uint64
	bytes       atomic.Uint64
	since       atomic.Uint64 // index of that snapshot, 0 if there was none
	due         func()        // has a snapshot written; it never blocks
}

// newBacklog returns a backlog that calls due when a snapshot is, after each entry until there is one.
func newBacklog(entries uint64, due func()) *backlog {
	return &backlog{commandsMax: snapshotCommands * entries, due: due}
}

// add counts applied commands.
func (c *backlog) add(commands, bytes uint64) {
	c.commands.Add(commands)
	c.bytes.Add(bytes)
	if c.isDue() {
		c.due()
	}
}

func (c *backlog) isDue() bool {
	return c.commands.Load() >= c.commandsMax || c.bytes.Load() >= snapshotBytes
}

// reset starts again, from a snapshot at an index.
func (c *backlog) reset(index uint64) {
	c.commands.Store(0)
	c.bytes.Store(0)
	c.since.Store(index)
}

// writeSnapshot requests a snapshot that is due, until there is one or the replica ends.
func (g *Group) writeSnapshot() {
	for g.machine.backlog.isDue() && !g.snapshot() {
		if loop.Sleep(g.carrier.Context(), g.cfg.Election) != nil { // the engine is about to write one itself
			return
		}
	}
}

// snapshot requests a snapshot. The log since the one before is kept, for replicas that lag.
func (g *Group) snapshot() bool {
	var option dragonboat.SnapshotOption
	if before := g.machine.backlog.since.Load(); before > 0 {
		option.OverrideCompactionOverhead, option.CompactionIndex = true, before
	}
	var state *dragonboat.RequestState
	err := g.call(func(host *dragonboat.NodeHost) (err error) {
		state, err = host.RequestSnapshot(engine.Shard, option, snapshotPatience)
		return err
	})
	if err != nil {
		return false
	}
	select {
	case result := <-state.ResultC():
		return result.Completed()
	case <-g.carrier.Context().Done():
	}
	return false
}
