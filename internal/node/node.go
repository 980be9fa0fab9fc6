package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/consensus"
	"github.com/holdfast-go/holdfast/internal/datadir"
	"github.com/holdfast-go/holdfast/internal/expiry"
	"github.com/holdfast-go/holdfast/internal/membership"
	"github.com/holdfast-go/holdfast/internal/proposer"
	"github.com/holdfast-go/holdfast/internal/seam"
	"github.com/holdfast-go/holdfast/internal/serve"
	"github.com/holdfast-go/holdfast/internal/simenv"
	"github.com/holdfast-go/holdfast/internal/sparse"
	"github.com/holdfast-go/holdfast/transport"
)

// Config is what a node is made with. The API has validated the user's fields and filled in their
// defaults.
type Config struct {
	Cluster, Name, Zone string // of the fleet, and what the node tells of itself
	DataDir             string // "": in memory
	Bind, Advertise     string // Bind has its template filled in
	Join                []string
	Bootstrap, Voters   int
	Replicas            int // 0: every node has one
	Secrets             []string
	TLS                 *tls.Config

	Tick, Heartbeat, Election time.Duration
	Restore                   io.Reader     // a backup, for a node without DataDir; nil: none
	MaxTTL                    time.Duration // longest TTL that this process asks for
	HoldLevel                 uint64        // the group does not rise above it while this node is raft leader; 0: it may
	ReplaceAfter              time.Duration
	Moment                    time.Duration // in which a living replica is heard
	MaxClockDrift             float64       // of two nodes' clocks, as leases count with it

	TokenFloor func(context.Context) (fence.Token, error) // nil: none
	Logger     *slog.Logger
	Figures    *consensus.Figures
	Env        simenv.Env
	Listener   seam.Listener
}

// Node is this process's node: the seam.Node that stands on a replica of its own. It is safe for
// concurrent use.
type Node struct {
	lifecycle

	// Proposer brings commands to the group. It has the group that the node works on.
	Proposer *proposer.Proposer[*consensus.Group]

	cfg   Config
	log   *slog.Logger
	clock clock.Clock
	self  fsm.SessionID // this process as the group knows it; Number is unused

	// Open takes these from the system, and release gives them back.
	dir      datadir.Dir
	fleeting bool // the directory ends with the process
	unopened bool // Open has failed
	endpoint transport.Endpoint
	gossip   *membership.Gossip
	others   atomic.Pointer[others]          // where clients of this replica go when it is gone
	telling  sync.Mutex                      // one tells at a time which node is raft leader
	reach    *reach                          // who is where it says it is
	known    *known                          // where other nodes were last
	replica  atomic.Pointer[consensus.Group] // nil before there is one

	// The node's place in a group.
	founder   *founder
	pilot     *pilot
	quorum    *quorum
	clients   *serve.Server
	asClient  *asClient
	illness   *illness
	takesOver atomic.Bool  // an order to become raft leader is under way
	behind    sparse.Lines // of clockBehind

	// Timers of the sessions of the group.
	times      *expiry.Table
	timekeeper *expiry.Timekeeper
}

// New puts the parts together. It starts no goroutine, and takes nothing from the system.
func New(cfg Config) *Node {
	n := &Node{lifecycle: newLifecycle(), cfg: cfg, log: cfg.Logger, clock: cfg.Env.Clock}
	if n.clock == nil {
		n.clock = clock.System()
	}
	n.founder = newFounder(n)
	n.Proposer = proposer.New(cfg.Election/2, n.closing, n.founder.removedFrom)
	n.times = expiry.New(cfg.Election, cfg.Listener.Expired)
	n.timekeeper = expiry.NewTimekeeper(n.times, n.clock.Now, n.voter, n.Go)
	n.pilot = newPilot(n)
	n.quorum = newQuorum(n)
	n.illness = newIllness(n)
	n.asClient = newAsClient(n)
	n.known = &known{n: n}
	n.reach = newReach(n)
	n.behind = sparse.Lines{Most: 1, Period: illPeriod}
	return n
}

// Open takes what the node needs from the system: directory, port, gossip. When it returns, the
// node runs, and looks for its group. After an error nothing of it is left.
func (n *Node) Open(ctx context.Context) error {
	if err := n.open(ctx); err != nil {
		n.unopened = true
		close(n.opened)
		n.beginShutdown(err)
		<-n.gone
		return err
	}
	close(n.opened)
	n.answerProbes()
	n.serveClients()
	n.Go(n.runMembership)
	n.Go(n.illness.Run)
	n.Go(n.reach.Run)
	n.Go(n.quorum.Run)
	return nil
}

func (n *Node) open(ctx context.Context) error {
	if err := n.openDir(ctx); err != nil {
		return err
	}
	if err := n.tooOld(); err != nil {
		return err
	}
	n.known.load()
	id := n.dir.Identity()
	n.log = n.cfg.Logger.With("node", id.NodeID, "name", n.cfg.Name)
	node, err := fsm.ParseNode(id.NodeID)
	if err != nil {
		return err
	}
	n.self = fsm.SessionID{Node: node, Incarnation: id.Incarnation<<consensus.RunBits | uint64(rand.Uint32()>>(32-consensus.RunBits))}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := n.openNetwork(ctx); err != nil {
		return err
	}
	if id.ClusterID != "" && !n.asClient.waits() {
		if err := n.founder.startReplica(); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (n *Node) openDir(ctx context.Context) (err error) {
	switch {
	case n.cfg.Restore != nil:
		return n.restore(ctx)
	case n.cfg.Env.Dir != nil:
		n.dir, n.fleeting = n.cfg.Env.Dir.(datadir.Dir), n.cfg.Env.Fleeting
	case n.cfg.DataDir == "":
		n.dir, n.fleeting = datadir.Memory(), true
	default:
		n.dir, err = datadir.Open(n.cfg.DataDir, n.cfg.Cluster)
	}
	return err
}

// openNetwork opens the port, and starts gossip at it.
func (n *Node) openNetwork(ctx context.Context) error {
	for i, secret := range n.cfg.Secrets {
		if len(secret) < transport.SecretAdvised {
			n.log.Warn("a secret of this node is short enough to be guessed: use random ones", "number", i, "advised bytes", transport.SecretAdvised)
		}
	}
	security, keys, err := transport.Security(n.cfg.Cluster, n.cfg.Secrets, n.cfg.TLS)
	if err != nil {
		return err
	}
	network := n.cfg.Env.Network
	if network == nil {
		network = transport.TCP()
	}
	n.endpoint, err = network.Listen(ctx, n.cfg.Bind, transport.Options{TLS: security, Logger: n.log})
	switch {
	case errors.Is(err, transport.ErrInvalid): // the user's TLS, and no port
		return err
	case err != nil:
		return fmt.Errorf("holdfast: listening at %s: %w", n.cfg.Bind, err)
	}
	n.clients = serve.New(serve.Config{
		Cluster: n.cfg.Cluster, Self: n.self.Process(), Group: n.Proposer, Node: n, Complete: n.Complete, Peers: n.addresses, GroupID: n.groupID, Well: n.well, Led: n.led, Logger: n.log,
		Times: new(expiry.IndexTimes), Now: n.clock.Now,
	})
	address := n.endpoint.Addr()
	if n.cfg.Advertise != "" && !strings.HasSuffix(n.cfg.Advertise, ":0") {
		address = n.cfg.Advertise
	}
	n.log = n.log.With("address", address)
	n.cfg.Listener.Identified(n.self, n.log)
	if err := ctx.Err(); err != nil {
		return err
	}
	n.gossip, err = membership.Open(ctx, membership.Config{
		Cluster: n.cfg.Cluster, Meta: n.meta(n.firstPhase()), Endpoint: n.endpoint,
		Advertise: n.cfg.Advertise, Keys: keys, Join: n.cfg.Join, Known: n.known.addresses, Streams: security != nil && len(keys) == 0,
		Resolver: n.cfg.Env.Names, Logger: n.log, OnMessage: n.founder.message, OnChange: n.gossipChanged,
	})
	if err != nil {
		return fmt.Errorf("holdfast: starting gossip: %w", err)
	}
	n.asClient.configure()
	return nil
}

// clockBehind ends all leases, because this node's clock has lost time by the clock of another node.
func (n *Node) clockBehind(lost time.Duration, by string) {
	held := n.cfg.Listener.EndLeases(fmt.Errorf("%w for %v, or are slower than MaxClockDrift allows, by the clock of node %s",
		seam.ErrClockStopped, lost.Round(time.Millisecond), n.described(by)))
	if unreported, ok := n.behind.Take(time.Now()); ok {
		n.log.Error("the clocks of this machine have lost time: its leases end", "lost", lost.String(), "by", n.described(by),
			"leases", held, "unreported", unreported)
	}
}

// gossipChanged is called, coalesced, when gossip has news of a member.
func (n *Node) gossipChanged() {
	n.founder.wake()
	n.pilot.Wake()
}

// insist proposes a command of the node's own, which waits behind no caller.
func (n *Node) insist(ctx context.Context, cmd fsm.Command) (fsm.Outcome, error) {
	out, _, err := n.Proposer.Insist(ctx, fsm.Encode(cmd))
	return out, err
}
