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

// Node is this process's node, without a replica. It implements seam.Node, in part by its Roamer.
type Node struct {
	*Roamer
	cfg      Config
	log      *slog.Logger
	key      ed25519.PrivateKey
	process  fsm.Process
	endpoint transport.Endpoint
	files    member.Files // of Config.Join

	ctx                 context.Context
	cancel              context.CancelFunc
	closing, done, gone chan struct{}
	greeting            chan struct{} // has a value while a Hello is under way

	mu      sync.Mutex
	stopped error // what calls return: set when the node leaves or closes
	closes  bool
	hellos  int // that the group has answered
	known   bool
	running sync.WaitGroup
}

// New puts the parts together, with a key and so an id of its own. It takes nothing from the system.
func New(cfg Config) (*Node, error) {
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("holdfast: drawing the key of a client: %w", err)
	}
	cfg.Level = cmp.Or(cfg.Level, fsm.LevelKnown)
	n := &Node{
		cfg: cfg, log: cfg.Logger, key: key, process: fsm.Process{Node: fsm.KeyNode(public), Incarnation: 1},
		closing: make(chan struct{}), done: make(chan struct{}), gone: make(chan struct{}), greeting: make(chan struct{}, 1),
	}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.Roamer = NewRoamer(n.closing)
	return n, nil
}

// Group implements seam.Node.
func (n *Node) Group() seam.Group { return n.group }

// Open implements seam.Node. It waits for no replica.
func (n *Node) Open(ctx context.Context) (err error) {
	n.endpoint, err = n.cfg.Network.Listen(ctx, n.cfg.Bind, transport.Options{TLS: n.cfg.TLS, Logger: n.cfg.Logger})
	if err != nil {
		n.cancel()
		n.cfg.Listener.Stopping(nil)
		n.cfg.Listener.Stopped()
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
	case <-n.closing:
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
		case <-n.closing:
		case <-ctx.Done():
			return &seam.UnreachedError{Ended: ctx.Err()}
		}
	}
}

// Ready implements seam.Node: the replica that serves this node is ready.
func (n *Node) Ready(ctx context.Context) error { return n.Roamer.Ready(ctx, n.Stopped) }

// Go implements seam.Node.
func (n *Node) Go(f func(context.Context)) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ctx.Err() != nil {
		return false
	}
	n.running.Go(func() { f(n.ctx) })
	return true
}

// Stopped implements seam.Node.
func (n *Node) Stopped() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.stopped
}

// Closing implements seam.Node.
func (n *Node) Closing() <-chan struct{} { return n.closing }

// Done implements seam.Node.
func (n *Node) Done() <-chan struct{} { return n.done }

// Close implements seam.Node. The leases end first; the group has them back if it is reached within
// a second.
func (n *Node) Close() {
	n.mu.Lock()
	first := !n.closes
	n.closes, n.stopped = true, seam.ErrEnded
	n.mu.Unlock()
	if !first {
		<-n.gone
		return
	}
	close(n.closing)
	held := n.cfg.Listener.EndLeases(seam.ErrEnded)
	close(n.done)
	if !n.giveBack() && held > 0 {
		n.log.Warn("this client closed before the group had its leases back: they end with their TTL", "leases", held)
	}
	n.mu.Lock()
	n.cancel()
	n.mu.Unlock()
	n.cfg.Listener.Stopping(nil)
	if err := n.endpoint.Close(); err != nil {
		n.log.Warn("closing a part of this node failed", "what", "port", "error", err)
	}
	n.running.Wait()
	n.cfg.Listener.Stopped()
	close(n.gone)
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
func (n *Node) Leave(ctx context.Context) error {
	n.mu.Lock()
	err := n.stopped
	n.stopped = seam.ErrEnded
	n.mu.Unlock()
	if err == nil {
		n.Close()
	}
	return err
}

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
