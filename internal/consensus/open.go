package consensus

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/lni/dragonboat/v4"
	"github.com/lni/dragonboat/v4/raftpb"
	"github.com/lni/dragonboat/v4/statemachine"
	"github.com/lni/vfs"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/consensus/engine"
	"github.com/holdfast-go/holdfast/internal/consensus/preinit"
	"github.com/holdfast-go/holdfast/internal/consensus/store"
	"github.com/holdfast-go/holdfast/internal/consensus/wire"
	"github.com/holdfast-go/holdfast/internal/fdreserve"
	"github.com/holdfast-go/holdfast/internal/tally"
)

// sparesMax is how many descriptors are set aside for files. The log store keeps its tables open:
// 13 were lent at a time while 58 MB were written in half a minute.
const sparesMax = 24

// Open starts the replica. It returns when the last snapshot has been read, before the log has been
// applied and before there is a raft leader: Barrier waits for both. Once ctx has ended it returns within
// five seconds: a start that ends in good order until then is a success.
//
// Errors: ErrInvalid, ErrNoReplica, ErrOtherStart, ErrForeign, ErrDamaged, ErrSuperseded,
// ErrUnsupported, a *FailedError when the disk fails, and errors of the system. After an error no
// part of it runs any more, except that after a *FailedError this process must not open the
// directory again.
func Open(ctx context.Context, cfg Config, how Start) (*Group, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(how); err != nil {
		return nil, err
	}
	hostname, err := os.Hostname()
	if err != nil || hostname == "" {
		return nil, fmt.Errorf("holdfast: the raft engine needs the machine to have a host name: %w", err)
	}
	if cfg.Dir, err = filepath.Abs(cfg.Dir); err != nil {
		return nil, fmt.Errorf("holdfast: raft directory: %w", err)
	}
	if files := preinit.IgnoredFiles(); len(files) > 0 {
		cfg.Logger.Warn("files in the working directory that would change the raft engine are ignored", "files", files)
	}
	node, err := fsm.ParseNode(cfg.Node)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	g := newGroup(cfg, fsm.Process{Node: node, Incarnation: cfg.Incarnation})
	g.leave = engine.Enter(cfg.Replica, cfg.Logger, g.fail)
	prepared, started := make(chan error, 1), make(chan error, 1)
	go func() { // the disk may hang
		prepared <- engine.Guard(func() error { return store.Prepare(cfg.FS, cfg.Dir, cfg.Node, wire.Deployment(cfg.Cluster)) })
	}()
	await := g.awaiting(ctx)
	if err := await(prepared); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	d := store.NewDisk(cfg.FS, cfg.Dir, hostname, g.fail, g.broken, g.spares)
	go engine.Labelled(cfg.Replica, func() {
		started <- engine.Guard(func() error { return g.startReplica(d, how) })
	})
	if err := await(started); err != nil {
		return nil, errors.Join(fmt.Errorf("holdfast: starting the replica: %w", diagnose(err)), g.Close())
	}
	return g, nil
}

func newGroup(cfg Config, self fsm.Process) *Group {
	g := &Group{
		cfg: cfg, self: self, gate: gate{closed: make(chan struct{})},
		failed: make(chan struct{}), broken: make(chan struct{}), closed: make(chan struct{}),
		writing: tally.NewWaiting(), answers: tally.NewWaiting(), introduced: time.Now(),
	}
	run := func(f func()) bool { return g.carrier.Run(f) }
	g.snapshots = chore{start: run, do: g.writeSnapshot}
	g.renewal = chore{start: run, do: g.renew}
	g.greetings = chore{start: run, do: g.greet}
	g.machine = newMachine(cfg.Observer, g.fail)
	g.machine.state, g.machine.self, g.machine.backlog = fsm.NewLimited(cfg.Limits), self, newBacklog(cfg.SnapshotEntries, g.snapshots.Call)
	if cfg.state != nil {
		g.machine.state = cfg.state
	}
	g.machine.figures, g.machine.known = cfg.Figures, cfg.Level
	g.failover = failover{alarm: alarm{self: cfg.Replica}, news: make(chan struct{}, 1)}
	g.clocks, g.opening = newClocks(cfg.Wall), newOpening()
	g.carrier = wire.New(wire.Config{
		Node: self.Node, Incarnation: self.Incarnation, Life: cfg.Life, Cluster: cfg.Cluster,
		Endpoint: cfg.Endpoint, Resolve: cfg.Resolve, Traffic: &cfg.Figures.Traffic, Logger: cfg.Logger,
		Disk: &g.reached, Recorded: g.machine.incarnation, Expelled: g.expel,
		Clock: cfg.Clock, Drift: cfg.Drift, Behind: func(lost time.Duration, by fsm.Node) { cfg.Behind(lost, by.String()) },
		Wall: g.clocks.now, Told: g.clocks.tell, Hold: g.opening.hold,
		Ended: g.ended, Risen: g.risen, Word: g.word, Yields: g.yields, Shuns: g.shuns, Chosen: g.chosen, Removed: g.renewal.Call,
	})
	g.nodes = g.carrier.Nodes
	g.machine.restored = g.nodes.Reset
	if cfg.FS == vfs.Default { // others have no descriptors
		g.spares = fdreserve.NewSet(sparesMax, fdreserve.Null)
	}
	g.leaders = newLeaders(cfg.Observer, func(view *leaderView) {
		g.settle(view)
		g.reachStandbys(view)
	})
	return g
}

// startReplica starts the engine and the replica.
func (g *Group) startReplica(d vfs.FS, how Start) error {
	g.store = store.New(store.Config{
		FS: d, Dir: g.cfg.Dir, Replica: g.cfg.Replica, Reached: &g.reached, Turns: &g.turns,
		Committed: &g.cfg.Figures.Committed, Fsync: &g.cfg.Figures.Fsync, Writing: g.writing, Fail: g.fail,
	})
	host, err := dragonboat.NewNodeHost(g.cfg.hostConfig(d, g.carrier, g.nodes, g.store, g.leaders))
	if err != nil {
		return err
	}
	if host == nil {
		return fmt.Errorf("%w while starting", ErrInvariant)
	}
	g.session = host.GetNoOPSession(engine.Shard)
	g.host.Store(host)
	fresh, join, err := g.began(how)
	if err != nil {
		return err
	}
	alone, err := g.recall()
	if err != nil {
		return err
	}
	var members map[uint64]dragonboat.Target
	if fresh && !join {
		members = map[uint64]dragonboat.Target{g.cfg.Replica: g.cfg.Node}
	}
	create := func(uint64, uint64) statemachine.IConcurrentStateMachine { return g.machine }
	if err := host.StartConcurrentReplica(members, fresh && join, create, g.cfg.replicaConfig(join)); err != nil {
		return err
	}
	if err := g.carrier.Ready(); err != nil {
		return err
	}
	g.carrier.Run(g.raise)
	if alone && !join {
		g.carrier.Run(func() { g.campaignNow(0) })
	}
	return nil
}

// began reports whether the replica is new here, and whether it was or is to be started to join. It
// refuses a directory that does not fit.
func (g *Group) began(how Start) (fresh, join bool, err error) {
	past, err := g.store.Past()
	switch {
	case err != nil:
		return false, false, err
	case past.Lost, past.Fresh && how == StartRestart:
		return false, false, ErrNoReplica
	case past.Fresh:
		return true, how == StartJoin, nil
	case how != StartRestart && past.Joined != (how == StartJoin):
		return false, false, fmt.Errorf("%w, not by %v", ErrOtherStart, how)
	}
	return false, past.Joined, nil
}

// recall reads from the log how far this replica has come, which processes of other nodes there
// were, and whether it knows no voter but itself.
func (g *Group) recall() (alone bool, err error) {
	find, voters := wire.Hellos(), otherVoters{replica: g.cfg.Replica}
	begin := func(s raftpb.Snapshot) {
		voters.snapshot(s.Membership)
		g.cfg.tail.snapshot(s)
	}
	at, err := g.store.Audit(begin, func(e *raftpb.Entry) {
		g.machine.pulse.step()
		voters.entry(e)
		g.cfg.tail.entry(e)
		if hello, ok := find(e); ok {
			g.nodes.Note(hello.Node, hello.Incarnation)
		}
	})
	if err != nil {
		return false, err
	}
	g.carrier.Began(at)
	return !voters.others, nil
}

// diagnose adds ErrDamaged to an error of a start that is neither this package's nor the system's:
// the engine and its log store return those for what they read.
func diagnose(err error) error {
	for _, plain := range []error{ErrNoReplica, ErrOtherStart, ErrForeign, ErrDamaged, ErrSuperseded, ErrUnsupported, store.ErrDisk, errSlowStart, errStopped} {
		if errors.Is(err, plain) {
			return err
		}
	}
	var errno syscall.Errno
	if errors.As(err, &errno) && errno != syscall.ENOENT {
		return err
	}
	return fmt.Errorf("%w: %w", ErrDamaged, err)
}
