package wire

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/raftio"
	"github.com/lni/dragonboat/v4/raftpb"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/consensus/engine"
	"github.com/holdfast-go/holdfast/internal/consensus/store"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/sparse"
	"github.com/holdfast-go/holdfast/internal/tally"
	"github.com/holdfast-go/holdfast/transport"
)

// Config configures the connections of a replica. All is required.
type Config struct {
	Node        fsm.Node
	Incarnation uint64
	Life        uint64
	Cluster     string                                   // the group's id
	Endpoint    transport.Endpoint                       // the Carrier uses its KindRaft; the owner closes it afterwards
	Resolve     func(node string) (addr string, ok bool) // by gossip
	Traffic     *tally.Traffic
	Logger      *slog.Logger
	Disk        diskLog
	Recorded    func(fsm.Node) (incarnation uint64, ok bool)        // of a node's last process, in the replicated state
	Expelled    func(error)                                         // called when another replica refuses to hear this one
	Wall        func() time.Duration                                // the node's clock, since 1970
	Told        func(node string, wall time.Duration, at time.Time) // reports another node's clock at a time
	Hold        func([]raftpb.Message) (rest []raftpb.Message)      // keeps messages that are not for the engine yet
	Clock       func() lease.Instant                                // the node's clock
	Drift       float64                                             // bound of the rates of two nodes' clocks
	Ended       func(Ending)                                        // reports that a process has no connection here any more; must not block
	Risen       func(replica uint64)                                // reports that the process of Await was heard; must not block
	Word        func(from uint64, w Word)                           // brings the word of a replica; must not block
	Yields      func() bool                                         // whether this replica does not ask to be raft leader now
	Shuns       func(from fsm.Node) bool                            // whether a node that asks for a pre-vote gets no answer yet
	Chosen      func(term uint64)                                   // reports that the raft leader of a term wants this replica to succeed it; must not block
	Removed     func()                                              // reports that the group has removed a replica, Nodes.Removed; must not block
	// Behind reports that the node's clock has lost time, by the clock of a node, before the engine
	// has the messages that came with that.
	Behind func(lost time.Duration, by fsm.Node)
}

// diskLog is the part of this replica's log that is on the disk.
type diskLog interface {
	Last() (index uint64)
	// Reaches returns nil if the disk has the entry at index, and otherwise a channel that is
	// closed when the disk has more.
	Reaches(index uint64) <-chan struct{}
}

// Carrier is the engine's transport (raftio.ITransport), over streams of the node's endpoint, and
// the factory of itself. It never delivers a message twice: messages under way on a broken stream
// are not sent again.
type Carrier struct {
	cfg       Config
	validator validator
	Nodes     *Registry
	ctx       context.Context // done when no message may be sent or delivered any more
	mute      context.CancelFunc
	self      greeting      // complete before the first message
	ready     chan struct{} // closed when the replica has read its log: no sender is admitted before

	messages raftio.MessageHandler
	chunks   raftio.ChunkHandler

	mu       sync.Mutex
	closed   bool
	stop     func() // takes no further connection; nil before Start
	conns    map[net.Conn]struct{}
	greeted  map[string]struct{} // addresses, until the first promise
	running  sync.WaitGroup
	refused  atomic.Uint64 // frames that were refused
	promised atomic.Bool   // a message was sent, or is about to be, that others may rely on
	warnings sparse.Lines  // about strangers, which must not fill the log
	reach    reach
	memory   memoryBudget
	awaited  atomic.Pointer[process] // nil: none
}

// New makes the connections of a replica, which the engine starts.
func New(cfg Config) *Carrier {
	node := cfg.Node.String()
	replica, group := ReplicaOf(node, cfg.Life), Deployment(cfg.Cluster)
	c := &Carrier{
		cfg: cfg, Nodes: newRegistry(replica, cfg.Resolve, cfg.Recorded, cfg.Removed),
		ready: make(chan struct{}), conns: make(map[net.Conn]struct{}), greeted: make(map[string]struct{}),
		validator: validator{node: node, replica: replica, deployment: group, disk: cfg.Disk},
		self:      greeting{deployment: group, node: cfg.Node, incarnation: cfg.Incarnation, life: cfg.Life},
		reach:     reach{log: cfg.Logger}, memory: memoryBudget{max: framesBytesMax},
		warnings: sparse.Lines{Most: 1, Period: 10 * time.Second},
	}
	c.ctx, c.mute = context.WithCancel(context.Background())
	return c
}

// Began sets how far the replica had come when this process started it, before the first message.
func (c *Carrier) Began(at store.Position) { c.self.began = at }

// Ready admits senders, unless the log knows a later process of this node.
func (c *Carrier) Ready() error {
	if err := c.Nodes.current(c.self.node, c.self.incarnation); err != nil {
		return err
	}
	close(c.ready)
	return nil
}

// Context is done after Mute or Close, when no message may be sent or delivered any more.
func (c *Carrier) Context() context.Context { return c.ctx }

// Refused counts the frames that were refused.
func (c *Carrier) Refused() uint64 { return c.refused.Load() }

const (
	dialTimeout  = 2 * time.Second
	batchTimeout = 2 * time.Second
	chunkTimeout = 10 * time.Second
	frameTimeout = 10 * time.Second // for the first frame, and for each that has begun
)

var errCarrierClosed = errors.New("holdfast: raft connections are closed")

// Create sets the engine's handlers.
func (c *Carrier) Create(_ config.NodeHostConfig, messages raftio.MessageHandler, chunks raftio.ChunkHandler) raftio.ITransport {
	c.messages, c.chunks = messages, chunks
	return c
}

// Validate accepts any address: they come from gossip.
func (c *Carrier) Validate(string) bool { return true }

// Name is for the engine's log.
func (c *Carrier) Name() string { return "holdfast" }

// Start begins to accept connections.
func (c *Carrier) Start() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errCarrierClosed
	}
	c.stop = c.cfg.Endpoint.Handle(transport.KindRaft, c.accept)
	return nil
}

// Close ends all connections and waits for their handlers.
func (c *Carrier) Close() error {
	c.mu.Lock()
	c.mute()
	c.closed = true
	for conn := range c.conns {
		conn.Close()
	}
	stop := c.stop
	c.mu.Unlock()
	if stop != nil {
		stop()
	}
	c.running.Wait()
	return nil
}

// accept receives what comes over a connection. The endpoint bounds their number.
func (c *Carrier) accept(conn net.Conn) {
	conn = c.cfg.Traffic.Conn(conn)
	defer c.forget(conn)
	c.mu.Lock()
	open := c.note(conn)
	c.mu.Unlock()
	if open {
		c.receive(conn)
	}
}

// keep runs f, on a goroutine of its own, for a connection, if it is not nil, that Close will close. It
// returns false if the carrier is closed.
func (c *Carrier) keep(conn net.Conn, f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.note(conn) {
		return false
	}
	c.running.Go(func() {
		defer c.forget(conn)
		engine.Unlabelled()
		f()
	})
	return true
}

// note makes Close close the connection, if it is not nil. It returns false if the carrier is closed. It
// is called under mu.
func (c *Carrier) note(conn net.Conn) bool {
	if conn != nil && !c.closed {
		c.conns[conn] = struct{}{}
	}
	return !c.closed
}

// Inject delivers messages to the engine as if another replica had sent them.
func (c *Carrier) Inject(messages ...raftpb.Message) error {
	batch := raftpb.MessageBatch{DeploymentId: c.validator.deployment, BinVer: raftio.TransportBinVersion, Requests: messages}
	return engine.Guard(func() error { c.messages(batch); return nil })
}

// Run runs f unless the carrier is closed; Close waits for it. f ends with Context.
func (c *Carrier) Run(f func()) bool { return c.keep(nil, f) }

func (c *Carrier) forget(conn net.Conn) {
	if conn == nil {
		return
	}
	conn.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.conns, conn)
}

// Mute ends all sending and delivering, when the replica fails.
func (c *Carrier) Mute() { c.mute() }

// silent reports whether the carrier is muted or closed.
func (c *Carrier) silent() bool { return c.ctx.Err() != nil }
