package consensus

import (
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
	"github.com/holdfast-go/holdfast/internal/consensus/settings"
	"github.com/holdfast-go/holdfast/internal/fdreserve"
)

// startMax bounds the start of the engine, the reading of a snapshot of a million locks included.
const startMax = time.Minute

// sparesMax is how many descriptors are set aside for files. The log store keeps its tables open:
// while 58 MB were written in half a minute, 13 were lent at a time.
const sparesMax = 24

// Open starts the replica. It returns when the last snapshot has been read, which is before the log
// has been applied and before there is a raft leader: Barrier waits for both.
//
// Errors: ErrInvalid, ErrNoReplica, ErrOtherStart, ErrForeign, ErrDamaged, ErrSuperseded,
// ErrUnsupported, a *FailedError when the disk fails, and what the system says. After an error
// nothing runs any more, except that after a *FailedError the directory must not be opened again by
// this process.
func Open(cfg Config, how Start) (*Group, error) {
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
	if err := guard(func() error { return prepareDir(cfg.FS, cfg) }); err != nil {
		return nil, err
	}
	if files := settings.Ignored(); len(files) > 0 {
		cfg.Logger.Warn("files in the working directory that would change the raft engine are ignored", "files", files)
	}
	node, err := fsm.ParseNode(cfg.Node)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	g := newGroup(cfg, fsm.Process{Node: node, Incarnation: cfg.Incarnation})
	process.enter(cfg.Replica, g.entry)
	d := newDisk(cfg.FS, cfg.Dir, hostname, g.fail, g.broken, g.spares)
	started := make(chan error, 1)
	go labelled(cfg.Replica, func() {
		started <- guard(func() error { return g.start(d, how) })
	})
	patience := time.NewTimer(startMax)
	defer patience.Stop()
	select {
	case err = <-started:
	case <-g.failed: // the goroutine that starts the engine may be parked
		err = g.Failure()
	case <-patience.C: // seen on a damaged directory, when the machine was very busy
		g.fail(fmt.Errorf("%w: the engine has not started within %v", ErrDamaged, startMax))
		err = g.Failure()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("holdfast: starting the replica: %w", diagnose(err)), g.Close())
	}
	return g, nil
}

func newGroup(cfg Config, self fsm.Process) *Group {
	g := &Group{
		cfg: cfg, self: self,
		failed: make(chan struct{}), broken: make(chan struct{}), closed: make(chan struct{}),
	}
	g.nodes = newRegistry(cfg.Resolve)
	g.machine = newMachine(cfg.Observer, g.nodes.reset, g.fail)
	g.machine.state, g.machine.self, g.machine.backlog = fsm.NewLimited(cfg.Limits), self, newBacklog(cfg.SnapshotEntries)
	g.machine.figures = cfg.Figures
	g.clocks, g.opening = newClocks(cfg.Wall), newOpening()
	g.carrier = &carrier{
		clocks: g.clocks, opening: g.opening, traffic: &cfg.Figures.Traffic,
		endpoint: cfg.Endpoint, nodes: g.nodes, log: cfg.Logger, reach: reach{log: cfg.Logger}, muted: make(chan struct{}), depth: &g.reached,
		validator: validator{node: cfg.Node, replica: cfg.Replica, deployment: deployment(cfg.Cluster), last: &g.reached.index}, expelled: g.expel,
		known: newKnownReplicas(cfg.Replica, g.machine.incarnation, g.nodes.belongs), ready: make(chan struct{}), ended: make(chan struct{}),
	}
	g.nodes.present = g.carrier.known.present
	if cfg.FS == vfs.Default { // others have no descriptors
		g.spares = fdreserve.NewSet(sparesMax, fdreserve.Null)
	}
	g.leaders = newLeaders(cfg.Observer)
	g.entry = &member{log: cfg.Logger, fail: g.fail}
	return g
}

// start runs the engine and the replica in it.
func (g *Group) start(d *disk, how Start) error {
	g.store = &logStoreFactory{
		replica: g.cfg.Replica, mark: newHighWaterMark(d, g.cfg.Dir, g.cfg.Replica), reached: &g.reached,
		figures: g.cfg.Figures, fail: g.fail, kind: g.cfg.store,
	}
	host, err := dragonboat.NewNodeHost(g.cfg.hostConfig(d, g.carrier, g.nodes, g.store, g.leaders))
	if err != nil {
		return err
	}
	if host == nil {
		return fmt.Errorf("%w while starting", ErrInvariant)
	}
	g.session = host.GetNoOPSession(shard)
	g.host.Store(host)
	fresh, join, err := g.store.store.began(how)
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
	if err := g.carrier.known.current(g.carrier.self.node, g.cfg.Incarnation); err != nil {
		return err
	}
	close(g.carrier.ready)
	g.carrier.run(g.raise)
	g.carrier.run(g.renew)
	g.carrier.run(g.introduce)
	g.carrier.run(g.writeSnapshots)
	if alone && !join {
		g.carrier.run(func() { g.campaignNow(0) })
	}
	return nil
}

// recall finds out from the log how far this replica has come, which processes of other nodes there
// were, and whether it knows of no voter but itself.
func (g *Group) recall() (alone bool, err error) {
	node, err := fsm.ParseNode(g.cfg.Node)
	if err != nil {
		return false, err
	}
	find, voters := hellos(), otherVoters{replica: g.cfg.Replica}
	at, err := g.store.store.audit(voters.snapshot, func(e *raftpb.Entry) {
		voters.entry(e)
		if hello, ok := find(e); ok {
			g.carrier.known.heard(hello.Node, hello.Incarnation)
		}
	})
	if err != nil {
		return false, err
	}
	g.carrier.self = greeting{
		deployment: deployment(g.cfg.Cluster), node: node, incarnation: g.cfg.Incarnation, life: g.cfg.Life, began: at,
	}
	return !voters.others, g.store.mark.open(at)
}

// diagnose says of an error of a start whether it is the directory that is damaged. What this
// package and the system say stands; what is left are answers of the engine and its log store to
// what they read.
func diagnose(err error) error {
	for _, plain := range []error{ErrNoReplica, ErrOtherStart, ErrForeign, ErrDamaged, ErrSuperseded, ErrUnsupported, errDisk} {
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
