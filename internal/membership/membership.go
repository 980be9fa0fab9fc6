// Package membership finds the other nodes by gossip and reports their states. It is the only
// importer of memberlist, and adds to it: members by the node's identity instead of by name and
// address, last known addresses that outlive their members, joining that goes on forever and so
// heals partitions, and a Close that waits.
//
// Nothing here can take or give a lock. Gossip finds addresses and draws the raft leader's
// attention; the group's log decides.
package membership

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"maps"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/holdfast-go/holdfast/internal/autopilot"
	"github.com/holdfast-go/holdfast/internal/member"
)

const (
	// Gossip sends news every 200 ms, to three members each time. A leaving node does not wait for
	// all repetitions.
	leaveLimit    = time.Second
	noticeLimit   = 600 * time.Millisecond // to announce PhaseLeaving
	exchangeLimit = 2 * time.Second
)

// Gossip is a member's part in the gossip. Its methods are safe for concurrent use.
type Gossip struct {
	self     Meta
	entries  []string
	known    func() []string
	dials    int
	resolver member.Resolver
	files    member.Files
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

	// turn has a value while a call changes this node's meta. It is no mutex, because virtual time
	// stops while a goroutine waits for a mutex.
	turn chan struct{}
	left bool // belongs to turn

	mu       sync.Mutex
	joinErr  error
	strange  map[string]error // by address, of the last round of joining: see Strangers
	closed   bool
	wg       sync.WaitGroup // no Add after closed
	finished chan struct{}  // closed at the end of Close
	closeErr error          // set before finished
}

// Open starts the gossip. It does not wait for other nodes: see Tried. ctx bounds Open alone.
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
		known:    cfg.Known,
		dials:    cmp.Or(cfg.Dials, dialsMax),
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

// create starts memberlist over the endpoint.
func (g *Gossip) create(cfg Config, ip net.IP, port int) error {
	conf := memberlist.DefaultLANConfig() // probes each second, gossips each 200 ms
	conf.Name = cfg.Meta.listName()
	conf.Label = cfg.Cluster
	conf.BindPort, conf.AdvertisePort = port, port
	conf.PushPullInterval = 15 * time.Second
	conf.RetransmitMult = 12        // default 4: in a small fleet a member would miss some news until the next push/pull
	conf.AwarenessMaxMultiplier = 3 // a probe takes 3 s at most, and Close waits for it
	if cfg.Streams {
		conf.ProbeTimeout = streamProbeWait
	}
	conf.DeadNodeReclaimTime = 30 * time.Second
	conf.EnableCompression = false // costs more than it saves on small packets
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

// start runs call in a goroutine for which Close waits; false after Close.
func (g *Gossip) start(call func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.wg.Go(call)
	return true
}

// deliver calls OnMessage and OnChange, so that memberlist never waits for them.
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

// Traffic returns the bytes sent and received, of packets and streams together.
func (g *Gossip) Traffic() (sent, received uint64) {
	return g.carrier.traffic.Sent.Load(), g.carrier.traffic.Received.Load()
}

// Members returns all remembered members, with this node, ordered by node id. It does no I/O. Nobody
// may change the slice: other calls return it, too.
func (g *Gossip) Members() []Member { return g.table.list() }

// Member returns the member of a node, also after it has gone.
func (g *Gossip) Member(node string) (Member, bool) { return g.table.get(node) }

// Address returns the last known host:port of a node, fast enough for each message.
func (g *Gossip) Address(node string) (string, bool) {
	m, ok := g.table.get(node)
	return m.Addr, ok
}

// Tried is closed after the first round of joining, with or without success; at once without
// addresses to try.
func (g *Gossip) Tried() <-chan struct{} { return g.tried }

// JoinError is the error of the last round of joining. It is nil while another member is here, and
// without addresses to try.
func (g *Gossip) JoinError() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.table.alone() {
		return nil
	}
	return g.joinErr
}

// Strangers are the addresses at which something answered in the last round of joining and did not let this node
// in, and why: what is there has other secrets or certificates, is of another cluster, hangs, or is no node at all.
// A member that is here is none: it may have been about to start.
func (g *Gossip) Strangers() map[string]error {
	here := g.here()
	g.mu.Lock()
	defer g.mu.Unlock()
	strange := maps.Clone(g.strange)
	maps.DeleteFunc(strange, func(addr string, _ error) bool { return here[addr] })
	return strange
}

// SetMeta announces a new Meta, within about a second. Node and Incarnation must stay the same.
// After Leave or Close it returns ErrClosed.
func (g *Gossip) SetMeta(m Meta) error {
	return g.ChangeMeta(func(Meta) Meta { return m })
}

// ChangeMeta announces a changed copy of the present Meta.
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
		_ = g.list.UpdateNode(1) // fails if no member has received it yet
	}
	return nil
}

// Leave announces this node as Left and ends its joining; messages still arrive. It waits until the
// news is sent, at most 4 s; after the end of ctx it continues in the background. Without Leave the
// other nodes see a closed node as Failed. A second Leave does nothing.
func (g *Gossip) Leave(ctx context.Context) error {
	g.quit()
	return g.await(ctx, func() error {
		g.turn <- struct{}{}
		defer func() { <-g.turn }()
		if g.left {
			return nil // memberlist may have dropped its record of this node
		}
		g.left = true
		// Memberlist does not distinguish members that left from failed ones: the last phase does.
		meta := g.delegate.getMeta()
		meta.Phase = autopilot.PhaseLeaving
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

// part leaves memberlist, which panics after Close has shut it down.
func (g *Gossip) part() (err error) {
	defer func() {
		if recover() != nil {
			err = ErrClosed
		}
	}()
	_ = g.list.Leave(leaveLimit) // fails if some repetitions are not sent yet
	return nil
}

// Close ends the gossip and waits for its goroutines: usually milliseconds, 3 s during a probe of a
// dead member. It announces nothing. A second Close waits as well.
func (g *Gossip) Close() error {
	g.mu.Lock()
	first := !g.closed
	g.closed = true
	g.mu.Unlock()
	if first {
		g.stop()
		g.log.silence()
		err := g.list.Shutdown() // shuts the carrier first, which ends waits for the network
		g.wg.Wait()
		g.closeErr = errors.Join(err, awaitGoroutines(g.label))
		close(g.finished)
	}
	<-g.finished
	return g.closeErr
}
