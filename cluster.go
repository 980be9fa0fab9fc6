package holdfast

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/client"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/feed"
	"github.com/holdfast-go/holdfast/internal/seam"
	"github.com/holdfast-go/holdfast/internal/simenv"
	"github.com/holdfast-go/holdfast/transport"
)

// Cluster is this process's node and its view of the fleet. It is safe for concurrent use.
type Cluster struct {
	cfg   Config
	log   *slog.Logger
	clock clock.Clock
	node  seam.Node
	self  fsm.SessionID // this process as the group knows it; Number is unused

	closing <-chan struct{} // of the node: closed when calls under way end
	group   seam.Group      // of the node: all calls talk to it

	keeper   *keeper // of this node's leases
	feed     *feed.Feed
	hooks    *hooks
	counters counters
}

// Open starts this process's node and returns as soon as the local node runs: data directory
// locked, port listening, gossip started; with Config.ClientOnly it has none of these. It does not
// wait for other nodes or a quorum; Ready does.
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
	env, _ := simenv.From(ctx)
	c, err := newCluster(cfg, env)
	if err != nil {
		return nil, err
	}
	c.hooks.start()
	if err := c.node.Open(ctx); err != nil {
		return nil, c.apiError(err)
	}
	c.node.Go(c.keeper.Run)
	if cfg.BackupEvery > 0 {
		c.node.Go(c.backUp)
	}
	return c, nil
}

// newCluster puts the parts together. It starts no goroutine, and takes nothing from the system.
func newCluster(cfg Config, env simenv.Env) (*Cluster, error) {
	if env.Clock == nil {
		env.Clock = clock.System()
	}
	c := &Cluster{cfg: cfg, log: cfg.Logger, clock: env.Clock, hooks: newHooks(cfg.Events, cfg.Logger)}
	c.keeper = newKeeper(c)
	var err error
	switch {
	case env.Node != nil:
		c.node = env.Node(listener{c})
	case cfg.ClientOnly:
		c.node, err = c.newClient(env)
	default:
		c.node, err = c.newNode(env)
	}
	if err != nil {
		return nil, err
	}
	c.closing, c.group = c.node.Closing(), c.node.Group()
	c.feed = feed.New(c.closing, c.group.Watch)
	c.group.Follow(0, c.keeper)
	return c, nil
}

func (c *Cluster) newClient(env simenv.Env) (seam.Node, error) {
	cfg := &c.cfg
	bind, err := cfg.bind()
	if err != nil {
		return nil, err
	}
	security, _, err := transport.Security(cfg.Cluster, cfg.Secrets, cfg.TLS)
	if err != nil {
		return nil, err
	}
	if env.Network == nil {
		env.Network = transport.Dialer()
	}
	if env.Names == nil {
		env.Names = net.DefaultResolver
	}
	return client.New(client.Config{
		Cluster: cfg.Cluster, Name: cfg.Name, Zone: cfg.Zone, Bind: bind, Join: cfg.Join, TLS: security, MaxTTL: cfg.MaxTTL,
		Network: env.Network, Resolver: env.Names, Logger: cfg.Logger, Listener: listener{c}, Level: env.Level,
	})
}

// stopped is nil while calls may begin, then the error that they return.
func (c *Cluster) stopped() error { return c.apiError(c.node.Stopped()) }

// joined waits until the group has accepted this process.
func (c *Cluster) joined(ctx context.Context) error { return c.explain(c.node.Joined(ctx)) }

// met is joined for a call that takes no lock: a client may make it whatever its MaxTTL is.
func (c *Cluster) met(ctx context.Context) error {
	err := c.node.Joined(ctx)
	if _, longer := errors.AsType[*client.TTLError](err); longer {
		return nil
	}
	return c.explain(err)
}

// Ready waits until this node can serve: it belongs to a group that has its voters, the local
// replica has caught up, and a raft leader answers. Calls need not wait for Ready; they wait
// themselves.
//
// Where nodes are replaced one by one, wait for Ready of each new node before the next old node
// stops. The first Ready of a new node means that the fleet can spare another node: the new node
// votes, or the voters are complete without it. A node that replaces a voter that left is ready
// within seconds. A node that replaces a dead voter is ready some seconds after Config.ReplaceAfter,
// which counts from the last message of that voter. Without a majority no node is ready. A node
// whose group is about to yield to another of its name is ready when it belongs to the other. A
// client is ready when a replica serves it that is, and for the first time when the voters are complete
// as well; one with Config.ClientOnly takes no voter's place, and does not wait for those.
//
// If ctx ends by its deadline, the error is also ErrNoQuorum, and its text says what is missing.
func (c *Cluster) Ready(ctx context.Context) error {
	if ctx == nil {
		return invalid("context", "is nil")
	}
	return c.explain(c.node.Ready(ctx))
}

// Done is closed when the node has stopped or has failed for good; its leases have ended by then.
func (c *Cluster) Done() <-chan struct{} { return c.node.Done() }

// Err is nil until Done is closed, then ErrClosed or the failure.
func (c *Cluster) Err() error {
	select {
	case <-c.node.Done():
		return c.stopped()
	default:
		return nil
	}
}

// ID returns the node's id, a UUID that was minted with its data directory; without one, or with
// Config.ClientOnly, each Open mints another.
func (c *Cluster) ID() string { return c.self.Node.String() }

// Addr returns the address that other nodes reach this one at, "" with Config.ClientOnly.
func (c *Cluster) Addr() string { return c.node.Status().Addr }

// Close stops the node: its leases end at once with ErrLost and ErrClosed, and the node gives them
// back to the group if it reaches the group within a second. A voter without a data directory never
// comes back: Close then waits until the group has removed it and another replica votes in its
// place, for five seconds at most. Close returns nil when nothing of the node is left: no
// goroutine, descriptor or port. It is idempotent, safe at any time and from several goroutines,
// and bounded in time even after a disk failure.
func (c *Cluster) Close() error {
	c.node.Close()
	return nil
}

// Leave is the planned departure of a node that does not come back. It gives the leases back, hands
// raft leadership over, waits until the group has removed this node's replica (and promoted another
// in its place if there is one), says good-bye in gossip, and closes. The next process that opens the
// data directory is a new node. Any number of nodes may leave at once; the group removes them one by
// one. If all nodes leave, none is removed: they keep their data and form the same group when
// restarted.
//
// Leave takes a second or two where a majority answers, and a minute at most. Where all nodes leave,
// and another replica died a moment before, it takes up to Config.ReplaceAfter.
//
// If ctx or the minute ends first, the node closes all the same, and the group removes it later. The
// error is then that of the context, and ErrNoQuorum for a deadline. A second call, or one after
// Close, returns ErrClosed. With Config.ClientOnly, Leave is Close.
func (c *Cluster) Leave(ctx context.Context) error {
	if ctx == nil {
		return invalid("context", "is nil")
	}
	return c.apiError(c.node.Leave(ctx))
}

// listener takes what the node tells to whatever of the API is concerned: sessions, watches, hooks
// and counters. See seam.Listener.
type listener struct{ c *Cluster }

// Identified gives the sessions and the log their node.
func (l listener) Identified(self fsm.SessionID, log *slog.Logger) {
	l.c.self, l.c.log = self, log
	l.c.keeper.table.Identify(self.Process())
}

// LeaderChanged counts and reports another raft leader.
func (l listener) LeaderChanged(leader string) {
	if l.c.hooks.raftLeader(leader) && leader != "" {
		l.c.counters.leaderChanges.Add(1)
	}
}

// Expired counts and reports the end of a session that was not renewed.
func (l listener) Expired(id fsm.SessionID, late time.Duration) {
	l.c.counters.expiries.Observe(late)
	l.c.hooks.sessionExpired(id.Node.String(), late)
}

// Quorum reports the loss of the majority, or its return.
func (l listener) Quorum(ok bool, missing []string) { l.c.hooks.quorum(ok, missing) }

// Ill counts and reports illnesses.
func (l listener) Ill(ill bool, why string) {
	if ill {
		l.c.counters.illnesses.Add(1)
	}
	l.c.hooks.ill(ill, why)
}

// Foreign reports a change in another group of this name.
func (l listener) Foreign(cluster string, nodes []string) { l.c.hooks.foreign(cluster, nodes) }

// GroupYielded ends the leases with their group.
func (l listener) GroupYielded() {
	l.c.keeper.table.Forsake(ErrYielded)
	l.c.keeper.times.Forget() // of commands that another group has, too, by their numbers
}

// ReplicaReplaced lets every session go on by itself.
func (l listener) ReplicaReplaced() { l.c.keeper.table.UnshareAll() }

// EndLeases ends all leases.
func (l listener) EndLeases(cause error) (held int) {
	held, _ = l.c.keeper.table.Counts()
	l.c.keeper.loseAll(l.c.apiError(cause))
	return held
}

// Empty reports whether no session is left.
func (l listener) Empty() bool { return l.c.keeper.table.Empty() }

// Stopping has the hooks that wait called, and Failed if the node has failed.
func (l listener) Stopping(failure error) {
	failure = l.c.apiError(failure)
	if failure != nil {
		l.c.log.Error("the node has stopped serving", "error", failure)
	}
	l.c.hooks.end(failure)
}

// Stopped waits for the hooks. One that does not return is left behind, and those behind it are not called.
func (l listener) Stopped() {
	select {
	case <-l.c.hooks.ended:
	case <-time.After(hooksLast):
		l.c.hooks.abandoned.Store(true)
		l.c.log.Warn("this node closed while an event hook was still running")
	}
}
