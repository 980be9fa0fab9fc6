package client

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/link"
	"github.com/holdfast-go/holdfast/internal/membership"
	"github.com/holdfast-go/holdfast/internal/node"
	"github.com/holdfast-go/holdfast/internal/retry"
	"github.com/holdfast-go/holdfast/internal/seam"
	"github.com/holdfast-go/holdfast/transport"
)

const (
	giveBackTime = time.Second // of Close, to give the leases back
	drainTime    = giveBackTime / 2
	greetPause   = time.Second // between two Hellos of a client that the group does not accept
)

// Config is what a Node is made with.
type Config struct {
	Cluster, Name string
	Bind          string   // of the endpoint that it dials from
	Join          []string // addresses of replicas, one at least
	TLS           *tls.Config
	Network       transport.Network
	Logger        *slog.Logger
	Listener      seam.Listener
}

// Node is this process's node, without a replica. It implements seam.Node.
type Node struct {
	cfg      Config
	log      *slog.Logger
	identity identity
	group    *Group
	endpoint transport.Endpoint

	ctx                         context.Context
	cancel                      context.CancelFunc
	closing, done, gone, joined chan struct{}

	mu      sync.Mutex
	stopped error // what calls return: set when the node leaves or closes
	closes  bool
	peers   []string
	waits   string
	running sync.WaitGroup
}

// New puts the parts together, with a key and so an id of its own. It takes nothing from the system.
func New(cfg Config) (*Node, error) {
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("holdfast: drawing the key of a client: %w", err)
	}
	n := &Node{
		cfg: cfg, log: cfg.Logger, waits: "no replica was reached yet",
		identity: identity{cluster: cfg.Cluster, key: key, process: fsm.Process{Node: fsm.KeyNode(public), Incarnation: 1}},
		closing:  make(chan struct{}), done: make(chan struct{}), gone: make(chan struct{}), joined: make(chan struct{}),
	}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.group = newGroup(n.closing)
	return n, nil
}

// Group implements seam.Node.
func (n *Node) Group() seam.Group { return n.group }

// Open implements seam.Node. It waits for no replica.
func (n *Node) Open(ctx context.Context) (err error) {
	n.endpoint, err = n.cfg.Network.Listen(ctx, n.cfg.Bind, transport.Options{TLS: n.cfg.TLS, Logger: n.cfg.Logger})
	if err != nil {
		n.cancel()
		return err
	}
	id := n.identity.process
	n.log = n.cfg.Logger.With("node", id.Node.String(), "name", n.cfg.Name)
	n.cfg.Listener.Identified(fsm.SessionID{Node: id.Node, Incarnation: id.Incarnation}, n.log)
	n.Go(n.group.news.run)
	n.Go(n.roam)
	n.Go(n.greet)
	return nil
}

// greet makes this process known to the group, for as long as that takes.
func (n *Node) greet(ctx context.Context) {
	for ctx.Err() == nil {
		err := n.Hello(ctx)
		if err == nil {
			close(n.joined)
			return
		}
		if ctx.Err() == nil {
			n.log.Warn("the group does not accept this client yet", "error", err)
		}
		select {
		case <-time.After(greetPause):
		case <-ctx.Done():
		}
	}
}

// Hello implements seam.Node.
func (n *Node) Hello(ctx context.Context) error {
	id := n.identity.process
	out, _, err := n.group.Propose(ctx, seam.Urgent, fsm.Encode(fsm.Hello{Node: id.Node, Incarnation: id.Incarnation, Name: n.cfg.Name, Level: fsm.LevelKnown}))
	if err == nil && out.Code != fsm.CodeOK {
		err = &node.RefusedError{Outcome: out}
	}
	return err
}

// Joined implements seam.Node.
func (n *Node) Joined(ctx context.Context) error {
	select {
	case <-n.joined:
		return n.Stopped()
	case <-n.closing:
		return n.Stopped()
	case <-ctx.Done():
		return &seam.UnreachedError{Ended: ctx.Err()}
	}
}

// Ready implements seam.Node: the replica that serves this node is ready.
func (n *Node) Ready(ctx context.Context) error {
	if err := n.Joined(ctx); err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		c, changed := n.group.now()
		if c != nil {
			if r, _, err := c.call(ctx, link.KindReady, link.Call{}); err == nil && r.Code == link.ReplyOK {
				return n.Stopped()
			}
		}
		if err := n.group.again(ctx, seam.Committed, seam.ErrNoGroup, attempt, changed); err != nil {
			return err
		}
	}
}

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
	n.closes, n.stopped = true, node.ErrClosed
	n.mu.Unlock()
	if !first {
		<-n.gone
		return
	}
	close(n.closing)
	held := n.cfg.Listener.EndLeases(node.ErrClosed)
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
	select {
	case <-n.joined:
	default:
		return n.cfg.Listener.Empty()
	}
	ctx, cancel := context.WithTimeout(context.Background(), giveBackTime)
	defer cancel()
	short, done := context.WithTimeout(ctx, drainTime)
	n.group.drain(short)
	done()
	id := n.identity.process
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
	n.stopped = node.ErrClosed
	n.mu.Unlock()
	if err == nil {
		n.Close()
	}
	return err
}

// ErrNeedsReplica: a node with a replica takes this call, and a client does not.
var ErrNeedsReplica = errors.New("holdfast: this node is a client: a node with a replica takes this call")

// RemoveNode implements seam.Node. No client may say what is about the members of the group.
func (n *Node) RemoveNode(context.Context, fsm.Node, string) error { return ErrNeedsReplica }

// Backup implements seam.Node. A client has no state to write.
func (n *Node) Backup(context.Context, io.Writer) error { return ErrNeedsReplica }

// Status implements seam.Node.
func (n *Node) Status() seam.Status {
	own := membership.Member{Meta: membership.Meta{Node: n.identity.process.Node.String(), Name: n.cfg.Name}, Local: true}
	c, _ := n.group.now()
	waits := n.Missing()
	st := seam.Status{Members: []membership.Member{own}, Admission: n.group.Waiting(), Serves: c != nil && waits == "", Waits: waits, Knows: fsm.LevelKnown}
	if id := n.group.id(); id != [16]byte{} {
		st.ClusterID = fsm.Node(id).String()
	}
	return st
}

// Missing implements seam.Node.
func (n *Node) Missing() string {
	c, _ := n.group.now()
	select {
	case <-n.joined:
		if c != nil {
			return ""
		}
	default:
		if c != nil {
			return "the group has not accepted this client yet"
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.waits
}

// A client implements all that the API asks of its node.
var (
	_ seam.Node  = (*Node)(nil)
	_ seam.Group = (*Group)(nil)
)
