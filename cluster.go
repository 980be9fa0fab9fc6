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
	"github.com/holdfast-go/holdfast/internal/env"
	"github.com/holdfast-go/holdfast/internal/membership"
	"github.com/holdfast-go/holdfast/transport"
)

// Cluster is this process's node and its view of the fleet. It is safe for concurrent use.
type Cluster struct {
	cfg   Config
	log   *slog.Logger
	clock clock.Clock
	self  fsm.SessionID // this process as the group knows it; Number is unused

	dir      datadir.Dir
	fleeting bool // the directory ends with the process
	endpoint transport.Endpoint
	gossip   *membership.Gossip

	proposer *proposer
	limits   fsm.Limits // of the group, where tests lower them
	// Of the group, where tests change them: see env.Env.
	snapshotEvery, snapshotKeep uint64
	keeper                      *keeper
	expirer                     *expirer
	elapser                     *elapser
	timekeeper                  *timekeeper
	feed                        *feed
	ages                        ages
	founder                     *founder
	pilot                       *pilot
	hooks                       *hooks

	ctx     context.Context // ends when the node stops
	cancel  context.CancelFunc
	opened  chan struct{} // closed when open is over: nothing is given back to the system before
	leaving atomic.Bool   // Leave has begun: no call may begin any more
	told    atomic.Uint64 // the last command whose events this process has been told, by whatever replica of it
	given   atomic.Bool   // the group knows that this process is gone
	placed  atomic.Bool   // Ready was answered once: this node has its place in the fleet
	closing chan struct{} // closed when the node ends: calls under way end too
	done    chan struct{} // closed when every lease has ended
	gone    chan struct{} // closed when nothing of the node is left

	mu      sync.Mutex
	replica *consensus.Group // that release closes; nil before there is one
	cause   error            // why it stops, once
	failure error
	running sync.WaitGroup
	tending sync.Once // begins the work that goes on whatever the group
}

// Open starts this process's node and returns as soon as the local node runs: data directory locked, port listening,
// gossip started. It does not wait for other nodes or a quorum; Ready does. Cancelling ctx after Open has returned does
// not close the node. After an error nothing of the node is left.
//
// Errors: ErrInvalid for a field of cfg, ErrDirInUse, ErrDamaged, ErrIncompatible, and what the system says
// of the directory or the port.
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
	e, _ := env.From(ctx)
	c := newCluster(cfg, e.Clock)
	c.hooks.start()
	if err := c.open(ctx, e); err != nil {
		c.hooks.Failed = nil // the caller hears it from here
		close(c.opened)
		c.shut(err)
		<-c.gone
		return nil, err
	}
	close(c.opened)
	c.start()
	return c, nil
}

// newCluster puts the parts together. Nothing runs yet, and nothing was asked of the system.
func newCluster(cfg Config, own clock.Clock) *Cluster {
	if own == nil {
		own = clock.System()
	}
	c := &Cluster{
		cfg:     cfg,
		log:     cfg.Logger,
		clock:   own,
		opened:  make(chan struct{}),
		closing: make(chan struct{}),
		done:    make(chan struct{}),
		gone:    make(chan struct{}),
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.hooks = newHooks(cfg.Events, cfg.Logger)
	c.proposer = newProposer(cfg.Timing.Election/2, c.closing, c.stopped, func(g *consensus.Group) { c.founder.removedFrom(g) })
	c.keeper = newKeeper(c)
	c.expirer = newExpirer(c)
	c.timekeeper = newTimekeeper(c)
	c.elapser = newElapser(c, c.timekeeper.wake)
	c.timekeeper.tables = []timetable{c.expirer.ends, c.elapser.ends}
	c.feed = newFeed(c.closing, c.stopped)
	c.founder = newFounder(c)
	c.pilot = newPilot(c)
	return c
}

// open takes what the node needs from the system: directory, port, gossip.
func (c *Cluster) open(ctx context.Context, e env.Env) error {
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

// firstPhase is what the node is when gossip starts, and when it begins another life: fresh only if it may take part in
// forming a group.
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
	c.goRun(c.keeper.run)
	c.goRun(c.live)
}

// live brings the node into a group and keeps it there: in another if the first yields, and as another replica if that
// removes it.
func (c *Cluster) live(ctx context.Context) {
	for ctx.Err() == nil {
		err := c.founder.enter(ctx)
		if err == nil {
			err = c.founder.rivals.watch(ctx, c.serve)
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

// serve is one life of the node with a group. It returns when ctx ends, or with what ends the node.
func (c *Cluster) serve(ctx context.Context) error {
	if err := c.founder.begin(ctx); err != nil {
		return err
	}
	c.tending.Do(func() {
		c.goRun(c.timekeeper.run)
		c.goRun(c.pilot.run)
		c.goRun(c.founder.raise)
	})
	if err := c.hello(ctx); err != nil {
		return err
	}
	if err := c.founder.taken(); err != nil {
		return err
	}
	c.proposer.greet()
	c.founder.tell(ctx, c.meta(membership.PhaseRunning))
	<-ctx.Done()
	return ctx.Err()
}

// hello makes this process known to the group. What an earlier process of this node held ends at once if it is proved
// to be dead, and else with its TTL.
func (c *Cluster) hello(ctx context.Context) error {
	out, _, err := c.proposer.insist(ctx, fsm.Encode(fsm.Hello{
		Node: c.self.Node, Incarnation: c.self.Incarnation, Name: c.cfg.Name, Place: c.dir.Place(),
	}))
	switch {
	case err != nil:
		return err
	case out.Code == fsm.CodeOK:
		return nil
	case out.Code == fsm.CodeStaleIncarnation && c.leaving.Load():
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
		view := c.proposer.view.Load()
		if view.greeted {
			if c.leaving.Load() {
				return ErrClosed
			}
			return nil
		}
		select {
		case <-view.changed:
		case <-c.closing:
			return c.stopped()
		case <-ctx.Done():
			return c.explain(unreached(ctx, attempts{}))
		}
	}
}

// Ready waits until this node can serve: it belongs to a group that has its voters, the local replica has caught up, and
// a raft leader answers. Calls need not wait for Ready; they wait themselves.
//
// Where nodes are replaced one by one, wait for Ready of each new node before the next old one is stopped. The first
// Ready of a new node means that the fleet can spare another one: the new node votes, or the voters are complete without
// it. A node that replaces a voter that left is ready within seconds. One that replaces a voter that died is ready some
// seconds after that voter was given up, which is Config.ReplaceAfter after it was last heard. Without a majority no node
// is ready. A node whose group is about to yield to another of its name is ready when it belongs to that one.
//
// If ctx ends by its deadline, the error is also ErrNoQuorum, and its text says what is missing.
func (c *Cluster) Ready(ctx context.Context) error {
	if ctx == nil {
		return invalid("context", "is nil")
	}
	if err := c.joined(ctx); err != nil {
		return err
	}
	for n := 0; ; n++ {
		group, err := c.barrier(ctx)
		if err != nil {
			return err
		}
		if c.serves(group) && (c.placed.Load() || c.answered(ctx, group)) {
			c.placed.Store(true)
			return nil
		}
		_, changed := c.proposer.current()
		if err := c.proposer.pause(ctx, min(n, 5), changed, attempts{}); err != nil {
			return c.explain(err)
		}
	}
}

// goRun runs f with the node's context until the node stops; it does nothing once that has begun, and reports so.
func (c *Cluster) goRun(f func(context.Context)) (runs bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return false
	}
	c.running.Go(func() { f(c.ctx) })
	return true
}

// stopped is nil while the node runs, then the error that its calls answer.
func (c *Cluster) stopped() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause == nil && c.leaving.Load() {
		return ErrClosed
	}
	return c.cause
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
	c.pilot.wake()
}
