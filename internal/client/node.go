package client

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/member"
	"github.com/holdfast-go/holdfast/internal/retry"
	"github.com/holdfast-go/holdfast/internal/seam"
	"github.com/holdfast-go/holdfast/transport"
)

const (
	giveBackTime = time.Second // of Close, to give the leases back
	drainTime    = giveBackTime / 2
)

// Config is what a Node is made with.
type Config struct {
	Cluster, Name string
	Zone          string   // a replica there is preferred
	Bind          string   // of the endpoint that it dials from
	Join          []string // as that of any node
	Resolver      member.Resolver
	TLS           *tls.Config
	Network       transport.Network
	MaxTTL        time.Duration // longest TTL that this process asks for
	Logger        *slog.Logger
	Listener      seam.Listener
	Level         uint64 // highest feature level that this version knows, for tests. Default: fsm.LevelKnown
}

// Node is this process's node, without a replica. It implements seam.Node, in part by its Roamer and
// its Life.
type Node struct {
	*Roamer
	*seam.Life
	cfg      Config
	log      *slog.Logger
	key      ed25519.PrivateKey
	process  fsm.Process
	endpoint transport.Endpoint
	files    member.Files // of Config.Join

	greeting chan struct{} // has a value while a Hello is under way

	mu     sync.Mutex
	hellos int // that the group has answered
	known  bool
}

// New puts the parts together, with a key and so an id of its own. It takes nothing from the system.
func New(cfg Config) (*Node, error) {
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("holdfast: drawing the key of a client: %w", err)
	}
	cfg.Level = cmp.Or(cfg.Level, fsm.LevelKnown)
	life := seam.NewLife()
	return &Node{
		Roamer: NewRoamer(life.Closing()), Life: life,
		cfg: cfg, log: cfg.Logger, key: key, process: fsm.Process{Node: fsm.KeyNode(public), Incarnation: 1},
		greeting: make(chan struct{}, 1),
	}, nil
}

// Group implements seam.Node.
func (n *Node) Group() seam.Group { return n.group }

// Open implements seam.Node. It waits for no replica.
func (n *Node) Open(ctx context.Context) (err error) {
	n.endpoint, err = n.cfg.Network.Listen(ctx, n.cfg.Bind, transport.Options{TLS: n.cfg.TLS, Logger: n.cfg.Logger})
	if err != nil {
		n.Abort(n.cfg.Listener)
		return err
	}
	id := n.process
	n.log = n.cfg.Logger.With("node", id.Node.String(), "name", n.cfg.Name)
	n.cfg.Listener.Identified(fsm.SessionID{Node: id.Node, Incarnation: id.Incarnation}, n.log)
	n.Configure(Roaming{
		Cluster: n.cfg.Cluster, Key: n.key, Process: n.process, Zone: n.cfg.Zone, Logger: n.log, Go: n.Go,
		Dial: func(ctx context.Context, addr string) (net.Conn, error) {
			return n.endpoint.Dial(ctx, addr, transport.KindClient)
		},
		Find: func(ctx context.Context) ([]string, error) {
			return member.Resolve(ctx, n.cfg.Resolver, &n.files, n.cfg.Join)
		},
		Idle: n.cfg.Listener.Empty, Yielded: n.cfg.Listener.GroupYielded,
	})
	n.Go(n.Run)
	n.Go(n.watchService)
	return nil
}

// Hello implements seam.Node. A client says it when the group asks for it, by refusing a call that
// opens a session: one that only asks questions leaves no record. Of many calls at a time one says it.
func (n *Node) Hello(ctx context.Context) error {
	before := n.answeredHellos()
	select {
	case n.greeting <- struct{}{}:
		defer func() { <-n.greeting }()
	case <-ctx.Done():
		return &seam.UnreachedError{Ended: ctx.Err()}
	case <-n.Closing():
		return n.Stopped()
	}
	if n.answeredHellos() != before {
		return nil
	}
	id := n.process
	out, unknown, err := n.group.Propose(ctx, seam.Urgent, fsm.Encode(fsm.Hello{Node: id.Node, Incarnation: id.Incarnation, Name: n.cfg.Name, Level: n.cfg.Level}))
	n.mu.Lock()
	defer n.mu.Unlock()
	n.known = n.known || unknown || err == nil
	switch {
	case err != nil:
		return err
	case out.Code != fsm.CodeOK:
		return &seam.RefusedError{Outcome: out}
	}
	n.hellos++
	return nil
}

func (n *Node) answeredHellos() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.hellos
}

// Joined implements seam.Node: a replica has taken this node in.
func (n *Node) Joined(ctx context.Context) error {
	for {
		if err := n.Stopped(); err != nil {
			return err
		}
		longest, changed := n.group.bound()
		switch {
		case longest >= n.cfg.MaxTTL:
			return nil
		case longest > 0:
			return &TTLError{Group: longest}
		}
		select {
		case <-changed:
		case <-n.Closing():
		case <-ctx.Done():
			return &seam.UnreachedError{Ended: ctx.Err()}
		}
	}
}

// Ready implements seam.Node: the replica that serves this node is ready.
func (n *Node) Ready(ctx context.Context) error { return n.Roamer.Ready(ctx, n.Stopped) }

// Close implements seam.Node. The leases end first; the group has them back if it is reached within
// a second.
func (n *Node) Close() {
	n.End(n.cfg.Listener, func(held int) {
		if !n.giveBack() && held > 0 {
			n.log.Warn("this client closed before the group had its leases back: they end with their TTL", "leases", held)
		}
	}, func() {
		if err := n.endpoint.Close(); err != nil {
			n.log.Warn("closing a part of this node failed", "what", "port", "error", err)
		}
	})
}

// giveBack says good-bye to the group, which ends the sessions of this process.
func (n *Node) giveBack() bool {
	ctx, cancel := context.WithTimeout(context.Background(), giveBackTime)
	defer cancel()
	short, done := context.WithTimeout(ctx, drainTime)
	n.group.drain(short)
	done()
	n.mu.Lock()
	known := n.known
	n.mu.Unlock()
	if !known {
		return true
	}
	id := n.process
	cmd := fsm.Encode(fsm.Goodbye{Node: id.Node, Incarnation: id.Incarnation, Departure: fsm.Gone})
	for attempt := 1; ctx.Err() == nil; attempt++ {
		c, changed := n.group.now()
		if c != nil {
			if _, result, _ := n.group.attempt(ctx, c, seam.Urgent, cmd); result == retry.Answered {
				return true
			}
		}
		select {
		case <-changed:
		case <-time.After(retry.Pause(attempt, 0)):
		case <-ctx.Done():
		}
	}
	return false
}

// Leave implements seam.Node. A client never comes back, so it is Close.
func (n *Node) Leave(context.Context) error { return n.Life.Leave(n.Close) }

// TTLError says that this process may ask for longer TTLs than the group knows of. A client does not
// raise that bound: a group that is recovered waits for the leases of the former one by it.
type TTLError struct {
	Group time.Duration // its longest
}

func (e *TTLError) Error() string {
	return fmt.Sprintf("holdfast: the longest TTL of the group is %v, and this client may ask for more", e.Group)
}

// A client implements all that the API asks of its node.
var (
	_ seam.Node  = (*Node)(nil)
	_ seam.Group = (*Group)(nil)
)
