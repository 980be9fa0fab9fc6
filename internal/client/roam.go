package client

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/link"
	"github.com/holdfast-go/holdfast/internal/loop"
	"github.com/holdfast-go/holdfast/internal/retry"
	"github.com/holdfast-go/holdfast/internal/seam"
	"github.com/holdfast-go/holdfast/internal/sparse"
)

const (
	dialTime       = 2 * time.Second        // of one address
	nextTime       = 250 * time.Millisecond // without an answer: then the next address is tried beside it
	againTime      = time.Second            // while Config.Join is looked up: then the known replicas are tried again
	triesMax       = 8                      // addresses at once
	forsakeMin     = 30 * time.Second       // without a replica of the group, while there are some of another group
	refusalsPeriod = 10 * time.Second       // has three lines about refusals
	hungMin        = time.Second            // on a replica: after less the next attempt pauses first,
	hungPause      = 3                      // as after so many: replicas may end one after the other, and leases wait
)

// Roaming is what a Roamer is made with.
type Roaming struct {
	Cluster string // the name
	Key     ed25519.PrivateKey
	Process fsm.Process // of the key
	Zone    string      // a replica there is preferred
	Dial    func(ctx context.Context, addr string) (net.Conn, error)
	Find    func(ctx context.Context) ([]string, error) // addresses beside those that replicas name
	Idle    func() bool                                 // the node has no session
	Yielded func()                                      // the group is given up; nil: it never is
	Changed func()                                      // another replica serves this node, or none does; nil: nobody asks
	Go      func(func(context.Context)) bool            // as seam.Node.Go
	Logger  *slog.Logger
}

// Roamer keeps a node without a replica on one of its fleet, and asks that one for what the node
// wants to know of its fleet. Its Group goes over the connection.
type Roamer struct {
	cfg      Roaming
	group    *Group
	refusals sparse.Lines

	mu     sync.Mutex
	peers  []string
	waits  string
	fleet  seam.Fleet // as a replica has told it last
	looked time.Time  // when it was asked
	moved  time.Time  // to a nearer replica
	left   []leaving  // of replicas that served this node, the longest ago first

	tries bool // this node has moved to a nearer replica, and none has told it more since. Of Run's goroutine
}

// NewRoamer returns a Roamer that runs after Configure. closed ends all calls.
func NewRoamer(closed <-chan struct{}) *Roamer {
	return &Roamer{
		group: newGroup(closed), waits: "no replica was reached yet",
		refusals: sparse.Lines{Most: 3, Period: refusalsPeriod}, // of a fleet of three, all
	}
}

// Configure comes before everything else but Group, once.
func (r *Roamer) Configure(cfg Roaming) { r.cfg = cfg }

// Group is the way to the group, the same whether the Roamer runs or not.
func (r *Roamer) Group() *Group { return r.group }

// Resume says before a Run which group the node belongs to, and the last command that its follower
// was told of: the replica tells what is missing since.
func (r *Roamer) Resume(group [16]byte, told uint64) {
	r.group.mu.Lock()
	same := r.group.group == group
	r.group.group = group
	r.group.mu.Unlock()
	news := &r.group.news
	news.mu.Lock()
	defer news.mu.Unlock()
	if !same || told > news.told {
		news.told = told
	}
}

// Run keeps the node on a replica until ctx ends: on another when one is gone. It may run again
// when it has returned.
func (r *Roamer) Run(ctx context.Context) {
	var all sync.WaitGroup
	defer r.group.news.cut()
	defer all.Wait()
	all.Go(func() { r.group.news.run(ctx) })

	there := time.Now() // a replica of the group, when one was last
	for attempt := 1; ctx.Err() == nil; attempt++ {
		m, said, err := r.meetOne(ctx)
		if err == nil {
			began := time.Now()
			err = r.hang(ctx, m)
			r.leave(m.conn.addr, err, time.Now())
			if there = time.Now(); there.Sub(began) >= hungMin {
				attempt = 0
			} else {
				attempt = hungPause
			}
		}
		if ctx.Err() != nil {
			return
		}
		r.note(err)
		if attempt == 0 {
			continue
		}
		if said.own {
			there = time.Now()
		}
		if said.other && r.cfg.Yielded != nil && time.Since(there) > forsakeMin {
			r.forsake()
		}
		_ = loop.Sleep(ctx, retry.Pause(attempt, rand.Float64()))
	}
}

// forsake gives the group up: the fleet has another one, of a backup or because the former yielded.
func (r *Roamer) forsake() {
	if r.group.forsake() {
		r.cfg.Logger.Warn("the replicas that this client reaches are of another group: its leases end, and it goes on with that group")
		r.cfg.Yielded()
	}
}

// refusals are what those of one round say of groups.
type refusals struct {
	own   bool // a replica of this node's group is there, and cannot serve this node now
	other bool // there is one of another group
}

// note notes a refusal. One for now may come from a node that has no group yet, or, of an older version, from one of
// any group that has no replica: it is of this node's group where a replica of that was.
func (s *refusals) note(refusal link.Refuse, own bool) {
	s.own = s.own || own && refusal.Code == link.RefuseLater
	s.other = s.other || refusal.Code == link.RefuseOther
}

// own reports whether an address was that of a replica of this node's group.
func (r *Roamer) own(addr string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Contains(r.peers, addr) || slices.ContainsFunc(r.left, func(l leaving) bool { return l.addr == addr })
}

// met is a replica that has taken this node in, or the error.
type met struct {
	addr    string
	conn    *conn
	welcome link.Welcome
	err     error
}

// meetOne tries the addresses, and returns the first replica that takes this node in. An address that
// is slow to answer, as that of a dead machine, holds up the next one for nextTime.
func (r *Roamer) meetOne(ctx context.Context) (first met, said refusals, err error) {
	trying, cancel := context.WithCancel(ctx)
	answers, candidates := make(chan met), make(chan candidate)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	told, group, under := r.group.news.cut(), r.group.id(), 0
	all.Go(func() { r.offer(trying, candidates) })
	var next <-chan time.Time // nil: the next candidate is tried now
	for candidates != nil || under > 0 {
		offered := candidates
		if next != nil || under >= triesMax {
			offered = nil
		}
		select {
		case c, more := <-offered:
			switch {
			case !more:
				candidates = nil
			case c.failed != nil:
				err = errors.Join(err, c.failed)
			default:
				under++
				next = time.After(nextTime)
				all.Go(func() { r.answer(trying, answers, r.try(trying, c.addr, group, told)) })
			}
		case <-next:
			next = nil
		case first = <-answers:
			if first.err == nil {
				return first, said, nil
			}
			under, next = under-1, nil
			refusal, refused := errors.AsType[link.Refuse](first.err)
			if refused {
				said.note(refusal, r.own(first.addr))
			}
			if err == nil || refused {
				err = first.err
			}
		case <-ctx.Done():
			return first, said, ctx.Err()
		}
	}
	if err == nil {
		err = errors.New("holdfast: no entry of Join leads to an address")
	}
	return first, said, err
}

// answer passes on what became of an attempt, while somebody wants to know.
func (r *Roamer) answer(ctx context.Context, answers chan<- met, m met) {
	select {
	case answers <- m:
	case <-ctx.Done():
		if m.err == nil {
			_ = m.conn.raw.Close()
		}
	}
}

// candidate is an address to try, or why an entry of Config.Join leads to none.
type candidate struct {
	addr   string
	failed error
}

// offer gives the addresses to try, and closes candidates: of replicas that were named last, then those that
// Config.Join leads to, each sorted. Those may take long to find, as the fault that cut this node off may keep it
// from its name server: the former are given again meanwhile.
func (r *Roamer) offer(ctx context.Context, candidates chan<- candidate) {
	defer close(candidates)
	give := func(c candidate) {
		select {
		case candidates <- c:
		case <-ctx.Done():
		}
	}
	r.mu.Lock()
	peers := slices.Clone(r.peers)
	r.mu.Unlock()
	tried := make(map[string]bool)
	shuffled := func(addrs []string) {
		rand.Shuffle(len(addrs), func(i, j int) { addrs[i], addrs[j] = addrs[j], addrs[i] })
		r.sort(addrs, time.Now())
		for _, addr := range addrs {
			if !tried[addr] {
				give(candidate{addr: addr})
			}
			tried[addr] = true
		}
	}
	var found []string
	var err error
	var finder sync.WaitGroup
	finding := make(chan struct{})
	finder.Go(func() {
		defer close(finding)
		found, err = r.cfg.Find(ctx)
	})
	defer finder.Wait()
	for looking := true; looking; {
		clear(tried)
		shuffled(peers)
		select {
		case <-finding:
			looking = false
		case <-time.After(againTime):
		}
	}
	shuffled(found)
	if err != nil {
		give(candidate{failed: err})
	}
}

// try connects to the replica at an address.
func (r *Roamer) try(ctx context.Context, addr string, group [16]byte, told uint64) (m met) {
	m.addr = addr
	dialing, cancel := context.WithTimeout(ctx, dialTime)
	raw, err := r.cfg.Dial(dialing, addr)
	cancel()
	if err == nil {
		m.conn, m.welcome, err = open(ctx, raw, addr, identity{r.cfg.Cluster, r.cfg.Key, r.cfg.Process}, group, told)
	}
	if err == nil && group != [16]byte{} && m.welcome.Group != group {
		_ = raw.Close()
		err = fmt.Errorf("%w: a welcome to another group", link.ErrMalformed)
	}
	if err != nil {
		m.err = fmt.Errorf("%s: %w", addr, err)
		if refusal, ok := errors.AsType[link.Refuse](err); ok && refusal.Code != link.RefuseLater {
			r.refused(addr, err)
		}
	}
	return m
}

// refused says in the log that a replica takes no such client, which goes on asking.
func (r *Roamer) refused(addr string, err error) {
	if unreported, ok := r.refusals.Take(time.Now()); ok {
		r.cfg.Logger.Warn("a replica has refused this client", "at", addr, "error", err, "unreported", unreported)
	}
}

// hang stays on a replica, and returns why that is over.
func (r *Roamer) hang(ctx context.Context, m met) error {
	m.conn.trial = r.onTrial(m.conn.addr, time.Now())
	r.meet(m.welcome.Peers, false)
	if err := r.group.begin(m.conn, m.welcome); err != nil {
		m.conn.end(err)
	}
	if r.cfg.Zone != "" {
		r.cfg.Go(func(ctx context.Context) { r.seek(ctx, m.conn) })
	}
	r.changed()
	err := m.conn.run(ctx, r.cfg.Idle, func(f link.Frame) error { return r.take(m.conn, f) })
	r.group.show(nil, m.welcome)
	r.changed()
	return fmt.Errorf("%s: %w", m.conn.addr, err)
}

func (r *Roamer) changed() {
	if r.cfg.Changed != nil {
		r.cfg.Changed()
	}
}

// take takes a frame of the replica that answers no call.
func (r *Roamer) take(c *conn, f link.Frame) error {
	switch f.Kind {
	case link.KindPong:
		pong, err := link.ParsePong(f.Body)
		if err != nil {
			return err
		}
		if c.trial && pong.Unled {
			return errUnled
		}
		c.trial, r.tries = false, false
		r.meet(pong.Peers, !pong.Unled)
		c.led.Store(!pong.Unled)
		c.ponged.Store(true)
		if c.awaits {
			c.awaits = false
			return r.group.news.push(item{from: c, gap: pong.At, force: true}, 0)
		}
		return r.group.news.push(item{from: c, at: pong.At}, 0)
	case link.KindRefuse:
		refusal, err := link.ParseRefuse(f.Body)
		return errors.Join(err, refusal)
	}
	if c.awaits && (f.Kind == link.KindEvents || f.Kind == link.KindGap) {
		return nil
	}
	return r.group.news.take(c, f)
}

// meet remembers the addresses of replicas. A replica that hears no raft leader may miss those that do hear it:
// what it names takes the place of nothing.
func (r *Roamer) meet(peers []string, led bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(peers) > 0 && (led || len(r.peers) == 0) {
		r.peers = peers
	}
}

// note notes why no replica serves this node.
func (r *Roamer) note(err error) {
	r.mu.Lock()
	r.waits = fmt.Sprintf("no replica serves this client: %v", err)
	r.mu.Unlock()
	r.cfg.Logger.Debug("no replica serves this client", "error", err)
}

// Ready waits until the replica that serves this node is ready, or stopped has an error.
func (r *Roamer) Ready(ctx context.Context, stopped func() error) error {
	for attempt := 1; ; attempt++ {
		if err := stopped(); err != nil {
			return err
		}
		_, changed := r.group.now()
		if r.ReadyOnce(ctx, false) {
			return nil
		}
		if err := r.group.again(ctx, seam.Committed, seam.ErrNoGroup, attempt, changed); err != nil {
			return err
		}
	}
}

// ReadyOnce asks the replica that serves this node whether it is ready, and the voters are complete.
func (r *Roamer) ReadyOnce(ctx context.Context, complete bool) bool {
	c, _ := r.group.now()
	if c == nil {
		return false
	}
	r.look(ctx, c) // also where the group is not ready: it is told what is there
	var ask link.Call
	if complete {
		ask.Mode = link.ReadyComplete
	}
	reply, _, err := c.call(ctx, link.KindReady, ask)
	if err != nil || reply.Code != link.ReplyOK {
		return false
	}
	r.look(ctx, c)
	return true
}

// Missing says why no replica serves this node, or none that hears a raft leader, "" if one does.
func (r *Roamer) Missing() string {
	switch c, _ := r.group.now(); {
	case c == nil:
		return r.Reason()
	case !c.ponged.Load():
		return "the replica at " + c.addr + ", which takes this client in, has not answered it yet"
	case !c.led.Load():
		return "the replica at " + c.addr + ", which serves this client, hears no raft leader"
	}
	return ""
}

// Reason says why the last connection ended, or no replica could be reached.
func (r *Roamer) Reason() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waits
}
