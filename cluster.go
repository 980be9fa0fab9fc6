package holdfast

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/consensus"
	"github.com/holdfast-go/holdfast/internal/datadir"
	"github.com/holdfast-go/holdfast/internal/expiry"
	"github.com/holdfast-go/holdfast/internal/feed"
	"github.com/holdfast-go/holdfast/internal/membership"
	"github.com/holdfast-go/holdfast/internal/proposer"
	"github.com/holdfast-go/holdfast/internal/simenv"
	"github.com/holdfast-go/holdfast/transport"
)

// Cluster is this process's node and its view of the fleet. It is safe for concurrent use.
type Cluster struct {
	lifecycle

	cfg   Config
	log   *slog.Logger
	clock clock.Clock
	self  fsm.SessionID // this process as the group knows it; Number is unused

	// What open takes from the system, and release gives back.
	dir      datadir.Dir
	fleeting bool // the directory ends with the process
	endpoint transport.Endpoint
	gossip   *membership.Gossip
	replica  atomic.Pointer[consensus.Group] // nil before there is one

	// The node's place in a group.
	founder  *founder
	pilot    *pilot
	proposer *proposer.Proposer[*consensus.Group]

	// What is done with time: this node's leases, and what every replica times.
	keeper     *keeper
	times      *expiry.Table
	timekeeper *expiry.Timekeeper
	indexTimes expiry.IndexTimes

	// Who is told what happens.
	told     atomic.Uint64 // the last command whose events this process has been told, by whatever replica of it
	feed     *feed.Feed
	hooks    *hooks
	counters counters

	// Of the group, where tests change them: see simenv.Env.
	limits                      fsm.Limits
	snapshotEvery, snapshotKeep uint64
}

// Open starts this process's node and returns as soon as the local node runs: data directory
// locked, port listening, gossip started. It does not wait for other nodes or a quorum; Ready does.
// Cancelling ctx after Open has returned does not close the node. After an error nothing of the
// node is left.
//
// Errors: ErrInvalid for a field of cfg, ErrDirInUse, ErrDamaged, ErrIncompatible, and the
// operating system's error about the directory or the port.
func Open(ctx context.Context, cfg Config) (*Cluster, error) {
	if ctx == nil {
		return nil, invalid("context", "is nil")
	}
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	e, _ := simenv.From(ctx)
	c := newCluster(cfg, e.Clock)
	c.hooks.start()
	if err := c.open(ctx, e); err != nil {
		c.hooks.Failed = nil // the caller hears it from here
		c.openingOver()
		c.shut(err)
		<-c.gone
		return nil, err
	}
	c.openingOver()
	c.start()
	return c, nil
}

// newCluster puts the parts together. Nothing runs yet, and nothing was asked of the system.
func newCluster(cfg Config, own clock.Clock) *Cluster {
	if own == nil {
		own = clock.System()
	}
	c := &Cluster{
		lifecycle: newLifecycle(),
		cfg:       cfg,
		log:       cfg.Logger,
		clock:     own,
	}
	c.hooks = newHooks(cfg.Events, cfg.Logger)
	c.proposer = proposer.New(cfg.Timing.Election/2, c.closing, func(g *consensus.Group) { c.founder.removedFrom(g) })
	c.keeper = newKeeper(c)
	c.times = expiry.New(cfg.Timing.Election, c.expired)
	c.timekeeper = expiry.NewTimekeeper(c.times, c.clock.Now, c.voter, c.goRun)
	c.feed = feed.New(c.closing, func(e *fsm.Event) bool { return kindOf(e) != 0 })
	c.founder = newFounder(c)
	c.pilot = newPilot(c)
	return c
}

// open takes what the node needs from the system: directory, port, gossip.
func (c *Cluster) open(ctx context.Context, e simenv.Env) error {
	if e.Network == nil {
		e.Network = transport.TCP()
	}
	c.limits, c.snapshotEvery, c.snapshotKeep = e.Limits, e.SnapshotEvery, e.SnapshotKeep
	if err := c.openDir(e.Dir); err != nil {
		return err
	}
	id := c.dir.Identity()
	c.log = c.cfg.Logger.With("node", id.NodeID)
	node, err := fsm.ParseNode(id.NodeID)
	if err != nil {
		return err
	}
	c.self = fsm.SessionID{Node: node, Incarnation: id.Incarnation<<consensus.RunBits | uint64(rand.Uint32()>>(32-consensus.RunBits))}
	c.keeper.table.Identify(fsm.Process{Node: c.self.Node, Incarnation: c.self.Incarnation})
	if err := ctx.Err(); err != nil {
		return err
	}
	for i, secret := range c.cfg.Secrets {
		if len(secret) < transport.SecretAdvised {
			c.log.Warn("a secret is short enough to be guessed: use random ones", "number", i, "advised bytes", transport.SecretAdvised)
		}
	}
	tlsConfig, keys, err := c.cfg.security()
	if err != nil {
		return err
	}
	if err := c.listen(ctx, e.Network, tlsConfig); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	c.gossip, err = membership.Open(ctx, membership.Config{
		Cluster: c.cfg.Cluster, Meta: c.meta(c.firstPhase()), Endpoint: c.endpoint,
		Advertise: c.cfg.Advertise, Keys: keys, Join: c.cfg.Join, Streams: tlsConfig != nil && len(keys) == 0, Resolver: e.Names, Logger: c.log,
		OnMessage: c.founder.message, OnChange: c.gossipChanged,
	})
	if err != nil {
		return fmt.Errorf("holdfast: starting gossip: %w", err)
	}
	if id.ClusterID != "" {
		if err := c.founder.startReplica(); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (c *Cluster) listen(ctx context.Context, network transport.Network, security *tls.Config) error {
	bind, err := c.cfg.bind()
	if err != nil {
		return err
	}
	c.endpoint, err = network.Listen(ctx, bind, transport.Options{TLS: security, Logger: c.log})
	switch {
	case errors.Is(err, transport.ErrInvalid): // bind was validated before
		return invalid("Config.TLS", "%v", err)
	case err != nil:
		return fmt.Errorf("holdfast: listening at %s: %w", bind, err)
	}
	return nil
}

// firstPhase is what the node is when gossip starts, and when it begins another life: fresh only if
// it may take part in forming a group.
func (c *Cluster) firstPhase() membership.Phase {
	id := c.dir.Identity()
	switch {
	case id.Asks:
		return membership.PhaseJoining
	case id.ClusterID != "":
		return membership.PhaseStarting
	case c.founder.bootstrap() < 0:
		return membership.PhaseJoining
	}
	return membership.PhaseFresh
}

func (c *Cluster) openDir(given datadir.Dir) (err error) {
	switch {
	case given != nil:
		c.dir = given
	case c.cfg.DataDir == "":
		c.dir, c.fleeting = datadir.Memory(), true
	default:
		c.dir, err = datadir.Open(c.cfg.DataDir, c.cfg.Cluster)
	}
	return dirError(err)
}

// start begins the node's own work.
func (c *Cluster) start() {
	c.answerProbes()
	c.goRun(c.keeper.Run)
	c.goRun(c.live)
}

// live brings the node into a group and keeps it there: in another if the first yields, and as
// another replica if that removes it.
func (c *Cluster) live(ctx context.Context) {
	tend := sync.OnceFunc(c.tend)
	for ctx.Err() == nil {
		err := c.founder.enter(ctx)
		if err == nil {
			err = c.founder.rivals.watch(ctx, func(ctx context.Context) error { return c.serve(ctx, tend) })
		}
		switch {
		case errors.Is(err, ErrYielded):
			err = c.founder.yield(ctx)
		case errors.Is(err, errOut):
			err = c.founder.comeBack(ctx)
		}
		if err != nil && ctx.Err() == nil {
			c.fail(err)
			return
		}
	}
}

// tend begins the work that goes on whatever the group.
func (c *Cluster) tend() {
	c.goRun(c.timekeeper.Run)
	c.goRun(c.pilot.Run)
	c.goRun(c.founder.raise)
}

// serve is one life of the node with a group. It returns when ctx ends, or with what ends the node.
// It calls tend as soon as the group may be served.
func (c *Cluster) serve(ctx context.Context, tend func()) error {
	if err := c.founder.begin(ctx); err != nil {
		return err
	}
	tend()
	if err := c.hello(ctx); err != nil {
		return err
	}
	if err := c.founder.taken(); err != nil {
		return err
	}
	c.proposer.Greet()
	c.founder.tell(ctx, c.meta(membership.PhaseRunning))
	<-ctx.Done()
	return ctx.Err()
}

// hello makes this process known to the group. What an earlier process of this node held ends at
// once if it is proved to be dead, and else with its TTL.
func (c *Cluster) hello(ctx context.Context) error {
	out, err := c.insist(ctx, fsm.Hello{
		Node: c.self.Node, Incarnation: c.self.Incarnation, Name: c.cfg.Name, Place: c.dir.Place(),
	})
	switch {
	case err != nil:
		return err
	case out.Code == fsm.CodeOK:
		return nil
	case out.Code == fsm.CodeStaleIncarnation && c.leaving():
		select { // its own good-bye was carried out first: Leave ends it
		case <-ctx.Done():
			return ctx.Err()
		case <-c.closing:
			return c.stopped()
		}
	case out.Code == fsm.CodeStaleIncarnation:
		err := fmt.Errorf("%w: another process runs or ran later as node %s: its data directory was copied or restored; "+
			"delete this one, and the node comes back as a new one", ErrIncompatible, c.ID())
		c.fail(err)
		return err
	}
	return refused(out)
}

// joined waits until the group has accepted this process.
func (c *Cluster) joined(ctx context.Context) error {
	for {
		greeted, changed := c.proposer.Greeted()
		if greeted {
			if c.leaving() {
				return ErrClosed
			}
			return nil
		}
		select {
		case <-changed:
		case <-c.closing:
			return c.stopped()
		case <-ctx.Done():
			return c.explain(c.unreached(ctx))
		}
	}
}

// Ready waits until this node can serve: it belongs to a group that has its voters, the local
// replica has caught up, and a raft leader answers. Calls need not wait for Ready; they wait
// themselves.
//
// Where nodes are replaced one by one, wait for Ready of each new node before the next old one is
// stopped. The first Ready of a new node means that the fleet can spare another one: the new node
// votes, or the voters are complete without it. A node that replaces a voter that left is ready
// within seconds. One that replaces a voter that died is ready some seconds after that voter was
// given up, which is Config.ReplaceAfter after it was last heard. Without a majority no node is
// ready. A node whose group is about to yield to another of its name is ready when it belongs to
// that one.
//
// If ctx ends by its deadline, the error is also ErrNoQuorum, and its text says what is missing.
func (c *Cluster) Ready(ctx context.Context) error {
	if ctx == nil {
		return invalid("context", "is nil")
	}
	if err := c.joined(ctx); err != nil {
		return err
	}
	for n := 1; ; n++ {
		group, err := c.current(ctx)
		if err != nil {
			return err
		}
		if c.serves(group) && (c.founder.placed.Load() || c.answered(ctx, group)) {
			c.founder.placed.Store(true)
			return nil
		}
		_, changed := c.proposer.Current()
		if err := c.pause(ctx, min(n, 6), changed); err != nil {
			return c.explain(err)
		}
	}
}

// Done is closed when the node has stopped or has failed for good; its leases have ended by then.
func (c *Cluster) Done() <-chan struct{} { return c.done }

// Err is nil until Done is closed, then ErrClosed or the failure.
func (c *Cluster) Err() error {
	select {
	case <-c.done:
		return c.stopped()
	default:
		return nil
	}
}

// ID returns the node's id, a UUID that was minted with its data directory.
func (c *Cluster) ID() string { return c.self.Node.String() }

// Addr returns the address that other nodes reach this one at.
func (c *Cluster) Addr() string {
	if m, ok := c.gossip.Member(c.ID()); ok {
		return m.Addr
	}
	return c.endpoint.Addr()
}

// gossipChanged is called, coalesced, when gossip has news of a member.
func (c *Cluster) gossipChanged() {
	c.founder.wake()
	c.pilot.Wake()
}
