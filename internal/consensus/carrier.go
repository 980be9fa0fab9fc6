package consensus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/raftio"

	"github.com/holdfast-go/holdfast/internal/tally"
	"github.com/holdfast-go/holdfast/transport"
)

// carrier brings the engine's messages from replica to replica, over streams of the node's
// endpoint. It is the engine's transport (raftio.ITransport) and the factory of itself.
//
// It never delivers a message twice: a stream delivers once, and what was under way when a stream
// broke is not sent again.
type carrier struct {
	endpoint  transport.Endpoint
	validator validator
	nodes     *registry
	known     *knownReplicas
	clocks    *clocks
	opening   *opening
	log       *slog.Logger
	traffic   *tally.Traffic
	depth     *depth // of this replica's log
	muting    sync.Once
	muted     chan struct{} // closed by mute
	expelled  func(error)   // told when another replica refuses to hear this one
	self      greeting      // set before anything is sent
	ready     chan struct{} // closed when the replica knows its past: nobody is let in before
	ended     chan struct{} // closed by Close

	messages raftio.MessageHandler
	chunks   raftio.ChunkHandler

	mu       sync.Mutex
	closed   bool
	listener net.Listener
	conns    map[net.Conn]struct{}
	greeted  map[string]struct{} // addresses, until something is promised
	running  sync.WaitGroup
	refused  atomic.Uint64 // frames that were not let in
	promised atomic.Bool   // something was sent, or is about to be, that others may rely on
	warnings warnings
	reach    reach
	memory   memoryBudget
}

const (
	dialTimeout  = 2 * time.Second
	batchTimeout = 2 * time.Second
	chunkTimeout = 10 * time.Second
	frameTimeout = 10 * time.Second // for a connection's first frame, and for each that has begun
)

var errCarrierClosed = errors.New("holdfast: raft connections are closed")

// Create takes the engine's handlers.
func (c *carrier) Create(_ config.NodeHostConfig, messages raftio.MessageHandler, chunks raftio.ChunkHandler) raftio.ITransport {
	c.messages, c.chunks = messages, chunks
	c.memory.max = framesBytesMax
	return c
}

// Validate accepts any address: they come from gossip.
func (c *carrier) Validate(string) bool { return true }

// Name is for the engine's log.
func (c *carrier) Name() string { return "holdfast" }

// Start begins to accept connections.
func (c *carrier) Start() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errCarrierClosed
	}
	c.listener = c.endpoint.Listener(transport.KindRaft)
	c.running.Go(func() { c.accept(c.listener) })
	return nil
}

// Close ends all connections and returns when no handler runs any more.
func (c *carrier) Close() error {
	c.mu.Lock()
	if !c.closed {
		close(c.ended)
	}
	c.closed = true
	if c.listener != nil {
		c.listener.Close()
	}
	for conn := range c.conns {
		conn.Close()
	}
	c.mu.Unlock()
	c.running.Wait()
	return nil
}

func (c *carrier) accept(l net.Listener) {
	unlabelled()
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		conn = c.traffic.Conn(conn)
		if !c.keep(conn, func() { c.receive(conn) }) { // the endpoint bounds their number
			conn.Close()
		}
	}
}

// keep runs f for a connection that Close will close; false if the carrier is closed.
func (c *carrier) keep(conn net.Conn, f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	if c.conns == nil {
		c.conns = make(map[net.Conn]struct{})
	}
	c.conns[conn] = struct{}{}
	c.running.Go(func() {
		defer c.forget(conn)
		unlabelled()
		f()
	})
	return true
}

// run runs f unless the carrier is closed; Close waits for it. f ends when ended is closed.
func (c *carrier) run(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.running.Go(func() {
		unlabelled()
		f()
	})
	return true
}

func (c *carrier) forget(conn net.Conn) {
	conn.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.conns, conn)
}

// mute ends all sending and delivering: the replica has failed, or is about to.
func (c *carrier) mute() { c.muting.Do(func() { close(c.muted) }) }

// silent reports whether nothing may be sent or delivered any more.
func (c *carrier) silent() bool {
	select {
	case <-c.muted:
		return true
	default:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// GetConnection connects to a replica for messages.
func (c *carrier) GetConnection(ctx context.Context, addr string) (raftio.IConnection, error) {
	s, err := c.dial(ctx, addr)
	if err != nil {
		c.lost(addr, err)
		return nil, err
	}
	return s, nil
}

// lost notes that a replica could not be told something, unless that is this one's doing.
func (c *carrier) lost(addr string, err error) {
	if !c.silent() {
		c.reach.failed(addr, err, time.Now())
	}
}

// GetSnapshotConnection connects to a replica for a snapshot.
func (c *carrier) GetSnapshotConnection(ctx context.Context, addr string) (raftio.ISnapshotConnection, error) {
	s, err := c.dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (c *carrier) dial(ctx context.Context, addr string) (*sender, error) {
	s := &sender{carrier: c, ctx: ctx, addr: addr}
	return s, c.connect(s)
}

// connect gives s a new connection, and greets.
func (c *carrier) connect(s *sender) error {
	if c.silent() {
		return errCarrierClosed
	}
	dialing, cancel := context.WithTimeout(s.ctx, dialTimeout)
	defer cancel()
	conn, err := c.endpoint.Dial(dialing, s.addr, transport.KindRaft)
	if err != nil {
		return fmt.Errorf("holdfast: connecting to replica at %s: %w", s.addr, err)
	}
	conn = c.traffic.Conn(conn)
	s.conn, s.gone, s.size = conn, make(chan struct{}), 0
	s.acked.Store(time.Now().UnixNano())
	if !c.keep(conn, s.listen) {
		conn.Close()
		close(s.gone) // nobody listens
		return errCarrierClosed
	}
	s.unhook = context.AfterFunc(s.ctx, func() { conn.Close() }) // the engine waits for its senders to return
	c.greets(s.addr)
	if err := s.send(frameGreeting, c.greeting(), batchTimeout); err != nil {
		s.Close()
		return err
	}
	return nil
}

// greeting is what a connection of this moment begins with.
func (c *carrier) greeting() greeting {
	g := c.self
	g.addr, g.wall = c.nodes.address(g.node.String()), c.clocks.now()
	return g
}
