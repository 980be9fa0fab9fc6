// Package membership finds the other nodes by gossip and tells what it thinks
// of them. It is the only importer of memberlist, and adds what memberlist
// lacks: members by the node's identity instead of by name and address, last
// known addresses that outlive their members, joining that goes on for ever
// and so heals partitions, and a Close that waits.
//
// Nothing here can take or give a lock. Gossip says where nodes are, and asks
// the group's raft leader for attention; what is true is in the group's log.
package membership

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/holdfast-go/holdfast/transport"
)

const (
	// Gossip sends news every 200 ms, to three members each time. Who leaves does not wait for all
	// repetitions.
	leaveLimit    = time.Second
	noticeLimit   = 600 * time.Millisecond // for telling that we are about to leave
	exchangeLimit = 2 * time.Second
)

// Config says who a node is and how it finds the others.
type Config struct {
	Cluster   string             // label: nodes with another one never meet; 1 to 255 bytes
	Meta      Meta               // Node and Incarnation never change afterwards
	Endpoint  transport.Endpoint // stays open when the Gossip closes
	Advertise string             // host:port, host or empty for what the endpoint is bound to
	Keys      [][]byte           // 16, 24 or 32 bytes each; the first seals, all open; empty: no sealing
	Streams   bool               // over streams alone, where TLS protects these and no Keys the packets
	Join      []string           // see ParseJoin; may be empty
	Logger    *slog.Logger       // default: discards
	Resolver  Resolver           // default: net.DefaultResolver

	// OnMessage gets what other nodes Send, OnChange is called after something
	// changed in Members (calls merge). Both are called by one goroutine, so one
	// that is slow delays the other, and up to 256 messages wait before more are
	// dropped. Neither may call Close or Leave. nil: not wanted.
	OnMessage func(from string, b []byte)
	OnChange  func()
}

// Gossip is a node's part in the gossip. Its methods are safe for concurrent use.
type Gossip struct {
	self     Meta
	entries  []string
	resolver Resolver
	table    *table
	delegate *delegate
	log      *logFilter
	carrier  *carrier
	list     *memberlist.Memberlist
	label    string // of memberlist's goroutines

	inbox     chan envelope
	sends     chan struct{}
	tried     chan struct{}
	triedOnce sync.Once

	ctx       context.Context // ends with Close
	stop      context.CancelFunc
	rejoining context.Context // ends with Leave and Close
	quit      context.CancelFunc

	// turn holds a value while someone changes what we advertise. It is no mutex
	// because its holder waits, and virtual time does not pass while anybody
	// waits for a mutex.
	turn chan struct{}
	left bool // belongs to turn

	mu       sync.Mutex
	joinErr  error
	closed   bool
	wg       sync.WaitGroup // Add only while not closed
	finished chan struct{}  // Close is over
	closeErr error          // set before finished
}

// Open starts the gossip. It does not wait for peers: see Tried. ctx bounds
// only Open itself.
func Open(ctx context.Context, cfg Config) (*Gossip, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Resolver == nil {
		cfg.Resolver = net.DefaultResolver
	}
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	ip, port, err := advertised(ctx, cfg)
	if err != nil {
		return nil, err
	}
	g := &Gossip{
		self:     cfg.Meta,
		entries:  cfg.Join,
		resolver: cfg.Resolver,
		table:    newTable(cfg.Meta),
		log:      newLogFilter(cfg.Logger),
		inbox:    make(chan envelope, inboxMax),
		sends:    make(chan struct{}, sendsMax),
		tried:    make(chan struct{}),
		turn:     make(chan struct{}, 1),
		finished: make(chan struct{}),
	}
	g.log.saidUDP = cfg.Streams
	g.label = fmt.Sprintf("%p", g)
	g.ctx, g.stop = context.WithCancel(context.WithoutCancel(ctx))
	g.rejoining, g.quit = context.WithCancel(g.ctx)
	g.delegate = &delegate{table: g.table, log: g.log, inbox: g.receive, meta: cfg.Meta}
	g.log.suspect = func(name string) { g.delegate.named(name, g.table.suspect) }
	g.log.noUDP = func(name string) bool {
		g.delegate.named(name, g.table.answered)
		return g.delegate.unheard(name)
	}
	if err := g.create(cfg, ip, port); err != nil {
		g.stop()
		return nil, err
	}
	g.start(g.rejoin)
	g.start(g.gossipByStream)
	g.start(func() { g.deliver(cfg.OnMessage, cfg.OnChange) })
	return g, nil
}

func (c Config) validate() error {
	if c.Cluster == "" || len(c.Cluster) > memberlist.LabelMaxSize {
		return fmt.Errorf("holdfast: gossip: Cluster must have 1 to %d bytes", memberlist.LabelMaxSize)
	}
	if c.Endpoint == nil {
		return errors.New("holdfast: gossip: Endpoint is missing")
	}
	for _, entry := range c.Join {
		if err := ParseJoin(entry); err != nil {
			return err
		}
	}
	for _, key := range c.Keys {
		if memberlist.ValidateKey(key) != nil {
			return errors.New("holdfast: gossip: each of Keys must have 16, 24 or 32 bytes")
		}
	}
	return c.Meta.validate()
}

// create starts memberlist over the endpoint.
func (g *Gossip) create(cfg Config, ip net.IP, port int) error {
	conf := memberlist.DefaultLANConfig() // probes each second, gossips each 200 ms
	conf.Name = cfg.Meta.listName()
	conf.Label = cfg.Cluster
	conf.BindPort, conf.AdvertisePort = port, port
	conf.PushPullInterval = 15 * time.Second
	conf.RetransmitMult = 12        // default 4: in a small fleet somebody would miss the news now and then, until the next push/pull
	conf.AwarenessMaxMultiplier = 3 // a probe takes 3 s at most, and Close waits for it
	conf.DeadNodeReclaimTime = 30 * time.Second
	conf.EnableCompression = false // costs more than it saves on packets of this size
	conf.Delegate, conf.Events, conf.Alive, conf.Ping = g.delegate, g.delegate, g.delegate, g.delegate
	conf.Logger = log.New(g.log, "", 0)
	if len(cfg.Keys) > 0 {
		keyring, err := memberlist.NewKeyring(cfg.Keys, cfg.Keys[0])
		if err != nil {
			return fmt.Errorf("holdfast: gossip: %w", err)
		}
		conf.Keyring = keyring
	}
	g.carrier = newCarrier(cfg.Endpoint, ip, port, validator{cfg.Cluster, len(cfg.Keys) > 0}, cfg.Streams, g.log)
	conf.Transport = g.carrier
	var err error
	labelled(g.label, func() { g.list, err = memberlist.Create(conf) })
	if err != nil {
		return errors.Join(fmt.Errorf("holdfast: gossip: %w", err), g.carrier.Shutdown(), awaitGoroutines(g.label))
	}
	return nil
}

// start runs call in a goroutine that Close waits for; false after Close.
func (g *Gossip) start(call func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.wg.Go(call)
	return true
}

// deliver calls the owner's functions, so that memberlist never waits for them.
func (g *Gossip) deliver(onMessage func(string, []byte), onChange func()) {
	for {
		select {
		case e := <-g.inbox:
			if onMessage != nil {
				onMessage(e.from, e.body)
			}
		case <-g.table.changed:
			if onChange != nil {
				onChange()
			}
		case <-g.ctx.Done():
			return
		}
	}
}

// Traffic returns the bytes that were sent and received, packets and streams together.
func (g *Gossip) Traffic() (sent, received uint64) {
	return g.carrier.traffic.Sent.Load(), g.carrier.traffic.Received.Load()
}

// Members returns all members that are remembered, this node included, ordered
// by node id. It does no I/O.
func (g *Gossip) Members() []Member { return g.table.list() }

// Member returns the member of a node.
func (g *Gossip) Member(node string) (Member, bool) { return g.table.get(node) }

// Address returns the last known host:port of a node, also after it has gone.
// It is quick enough for the path of each message.
func (g *Gossip) Address(node string) (string, bool) {
	m, ok := g.table.get(node)
	return m.Addr, ok
}

// Forget drops a node that has gone for good, so that it is no longer sought.
// A node that is here stays.
func (g *Gossip) Forget(node string) { g.table.forget(node) }

// Tried is closed after the first round of joining, whether or not it found
// anybody; at once if there was nobody to try.
func (g *Gossip) Tried() <-chan struct{} { return g.tried }

// JoinError tells why the last round of joining was in vain. It is nil while
// other members are here, and if there was nobody to try.
func (g *Gossip) JoinError() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.table.alone() {
		return nil
	}
	return g.joinErr
}

// SetMeta makes the others see a new Meta, within about a second. Node and
// Incarnation must stay the same. After Leave or Close it returns ErrClosed.
func (g *Gossip) SetMeta(m Meta) error {
	return g.ChangeMeta(func(Meta) Meta { return m })
}

// ChangeMeta is SetMeta for who knows only what is to be different.
func (g *Gossip) ChangeMeta(change func(Meta) Meta) error {
	select {
	case g.turn <- struct{}{}:
		defer func() { <-g.turn }()
	case <-g.rejoining.Done():
	}
	if g.rejoining.Err() != nil {
		return ErrClosed
	}
	old := g.delegate.getMeta()
	m := change(old)
	if err := m.validate(); err != nil {
		return err
	}
	if m.Node != g.self.Node || m.Incarnation != g.self.Incarnation {
		return errors.New("holdfast: gossip: a node's identity cannot change")
	}
	if m != old {
		g.delegate.setMeta(m)
		_ = g.list.UpdateNode(1) // fails when it did not wait until somebody heard it
	}
	return nil
}

// Leave says good-bye, so that the others see this node as Left, and ends the
// search for members; messages still arrive. It waits until the good-bye is on
// its way, at most 4 s; when ctx ends first, it goes on behind the caller's
// back. Without Leave the others see a closed node as Failed. A second Leave
// does nothing.
func (g *Gossip) Leave(ctx context.Context) error {
	g.quit()
	return g.await(ctx, func() error {
		g.turn <- struct{}{}
		defer func() { <-g.turn }()
		if g.left {
			return nil // memberlist may have dropped its record of us
		}
		g.left = true
		// memberlist does not tell the others whether a member left or failed:
		// they go by the phase they heard of last.
		meta := g.delegate.getMeta()
		meta.Phase = PhaseLeaving
		g.delegate.setMeta(meta)
		_ = g.list.UpdateNode(noticeLimit)
		told := make(chan struct{})
		if g.start(func() { g.exchange(); close(told) }) {
			select {
			case <-told:
			case <-time.After(exchangeLimit):
			}
		}
		return g.part()
	})
}

// part leaves memberlist, which panics when Close has shut it down meanwhile.
func (g *Gossip) part() (err error) {
	defer func() {
		if recover() != nil {
			err = ErrClosed
		}
	}()
	_ = g.list.Leave(leaveLimit) // its only error: not all repetitions are out yet
	return nil
}

// Close ends the gossip and waits until nothing of it runs any more: usually
// for milliseconds, 3 s when a probe is under way to a member that is gone. It
// does not say good-bye. A second Close waits as well.
func (g *Gossip) Close() error {
	g.mu.Lock()
	first := !g.closed
	g.closed = true
	g.mu.Unlock()
	if first {
		g.stop()
		g.log.silence()
		err := g.list.Shutdown() // the carrier first: what waits for the network returns
		g.wg.Wait()
		g.closeErr = errors.Join(err, awaitGoroutines(g.label))
		close(g.finished)
	}
	<-g.finished
	return g.closeErr
}
