package consensus

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/lni/dragonboat/v4"
	"github.com/lni/dragonboat/v4/raftio"
	"github.com/lni/dragonboat/v4/statemachine"

	"github.com/holdfast-go/holdfast/internal/consensus/settings"
)

// Open starts the replica. It returns when the last snapshot has been read, which is before the log has
// been applied and before there is a raft leader: Barrier waits for both.
//
// Errors: ErrInvalid, ErrNoReplica, ErrOtherStart, a *FailedError when the disk fails, and what the engine
// says. After an error nothing runs any more, except that after a *FailedError the directory must not be
// opened again by this process.
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
	if err := guard(func() error { return prepareDir(cfg.FS, cfg.Dir) }); err != nil {
		return nil, err
	}
	if files := settings.Ignored(); len(files) > 0 {
		cfg.Logger.Warn("files in the working directory that would change the raft engine are ignored", "files", files)
	}
	g := newGroup(cfg)
	process.enter(cfg.Replica, g.entry)
	d := newDisk(cfg.FS, cfg.Dir, hostname, g.fail, g.failed)
	started := make(chan error, 1)
	go labelled(cfg.Replica, func() {
		started <- guard(func() error { return g.start(d, how) })
	})
	select {
	case err = <-started:
	case <-g.failed: // the goroutine that starts the engine may be parked
		err = g.Failure()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("holdfast: starting the replica: %w", err), g.Close())
	}
	return g, nil
}

func newGroup(cfg Config) *Group {
	g := &Group{cfg: cfg, failed: make(chan struct{}), closed: make(chan struct{})}
	g.nodes = newRegistry(cfg.Resolve)
	g.machine = newMachine(cfg.Observer, g.nodes.reset, g.fail)
	g.carrier = &carrier{
		endpoint: cfg.Endpoint, nodes: g.nodes, log: cfg.Logger, failed: g.failed,
		vet: vetter{replica: cfg.Replica, deployment: deployment(cfg.Cluster)},
	}
	g.store = &logStoreFactory{replica: cfg.Replica}
	g.leaders = &leaders{observer: cfg.Observer, changed: make(chan struct{})}
	g.entry = &member{log: cfg.Logger, fail: g.fail}
	return g
}

// start runs the engine and the replica in it.
func (g *Group) start(d *disk, how Start) error {
	host, err := dragonboat.NewNodeHost(g.cfg.hostConfig(d, g.carrier, g.nodes, g.store, g.leaders))
	if err != nil {
		return err
	}
	if host == nil {
		return fmt.Errorf("%w while starting", ErrInvariant)
	}
	g.session = host.GetNoOPSession(shard)
	g.host.Store(host)
	began, err := g.store.store.GetBootstrapInfo(shard, g.cfg.Replica)
	fresh := errors.Is(err, raftio.ErrNoBootstrapInfo)
	switch {
	case err != nil && !fresh:
		return err
	case fresh && how == StartRestart:
		return ErrNoReplica
	case fresh:
		began.Join = how == StartJoin
	case how != StartRestart && began.Join != (how == StartJoin):
		return fmt.Errorf("%w, not by %v", ErrOtherStart, how)
	}
	var members map[uint64]dragonboat.Target
	if fresh && !began.Join {
		members = map[uint64]dragonboat.Target{g.cfg.Replica: g.cfg.Node}
	}
	create := func(uint64, uint64) statemachine.IConcurrentStateMachine { return g.machine }
	return host.StartConcurrentReplica(members, fresh && began.Join, create, g.cfg.replicaConfig(began.Join))
}
