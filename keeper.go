package holdfast

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/lease"
)

const (
	// keeperPause is the longest sleep of the keeper while there are sessions. Go's timers stand still
	// while a machine is suspended, so the end of a lease is looked for at least this often.
	keeperPause = 250 * time.Millisecond
	// keepalivesMax is how many keepalives may be under way; each renews all sessions that are due.
	keepalivesMax = 4
	// keepMax is how many sessions one keepalive renews.
	keepMax = 4096
)

// keeper owns this node's sessions: it opens them, renews them, and ends their leases at the horizon,
// with or without a network.
type keeper struct {
	loop
	c       *Cluster
	flights chan struct{} // keepalives under way
	seq     atomic.Uint64 // of keepalives: a late duplicate renews nothing

	mu       sync.RWMutex
	plan     *lease.Plan
	numbers  lease.Numbers
	sessions map[uint64]*session
	shared   map[time.Duration]*session // the automatically renewed ones
	verdicts []*session                 // ended by the group, to be told to their leases
	ended    []ending                   // single leases ended by the group
	clean    cleaner
}

type ending struct {
	lease *Lease
	err   error
}

func newKeeper(c *Cluster) *keeper {
	k := &keeper{
		c:        c,
		flights:  make(chan struct{}, keepalivesMax),
		plan:     lease.NewPlan(c.cfg.MaxClockDrift, rand.Float64),
		sessions: make(map[uint64]*session),
		shared:   make(map[time.Duration]*session),
	}
	k.loop = newLoop(k.step)
	k.clean.init(c)
	return k
}

// session returns the session for a lease of these options: the shared one of its TTL that has room, or one of its own.
func (k *keeper) session(ttl time.Duration, manual bool) *session {
	if !manual {
		k.mu.RLock()
		s := k.shared[ttl]
		k.mu.RUnlock()
		if s != nil {
			return s
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if s := k.shared[ttl]; s != nil && !manual {
		return s
	}
	id := k.c.self
	id.Number = k.numbers.Begin()
	s := &session{id: id, ttl: ttl, manual: manual, claims: make(map[uint64]*claim)}
	k.sessions[id.Number] = s
	if !manual {
		k.shared[ttl] = s
	}
	return s
}

// unshare takes no more leases onto a session: the next lease of its TTL opens another one. Those that it has stay.
func (k *keeper) unshare(s *session) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.shared[s.ttl] == s {
		delete(k.shared, s.ttl)
	}
}

// unshareAll takes no more leases onto any session. The group takes a process that it has removed for one that is here again
// when it opens one: what it waits for then is withdrawn when its node is removed the next time.
func (k *keeper) unshareAll() {
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.shared)
}

// opened notes that the group has the session. It answers false if its validity is over already. While its
// call is queued, a manual session is renewed automatically, too: otherwise the call would lose its place
// in the queue after a TTL.
func (k *keeper) opened(s *session, queued bool) bool {
	if k.valid(s) {
		return true
	}
	s.mu.Lock()
	if !s.opened && s.over == nil {
		s.opened = true
		first := s.first
		k.mu.Lock() // until the session has its horizon: a keepalive for it, too, would find it over before
		s.setHorizon(k.plan.Open(s.id.Number, s.ttl, first, !s.manual || queued))
		k.mu.Unlock()
		k.wake()
	}
	s.mu.Unlock()
	alive := k.check(s)
	if !alive {
		k.strayed(s)
	}
	return alive
}

// handOver leaves the renewal of a manual session to its caller, who begins with a whole TTL if the group
// can be reached, and else with what the last renewal in the queue left.
func (k *keeper) handOver(ctx context.Context, s *session) {
	_ = k.renew(ctx, s)
	if k.check(s) {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.plan.Open(s.id.Number, s.ttl, 0, false)
	}
}

// valid reports whether the session is known to live, without a lock: it has a horizon from its opening to its end.
func (k *keeper) valid(s *session) bool { return k.c.clock.Now() < s.until() }

// check ends the session if its horizon has passed, and reports whether it lives or is still to be opened.
func (k *keeper) check(s *session) bool {
	if k.valid(s) {
		return true
	}
	s.mu.Lock()
	alive := s.over == nil
	lapsed := alive && s.opened && k.c.clock.Now() >= s.until()
	s.mu.Unlock()
	if lapsed {
		k.lose(s, ErrExpired)
	}
	return alive && !lapsed
}

// lose ends a session and everything on it. Where the group may still have it, it is closed there, so
// that its locks are free before its TTL is over.
func (k *keeper) lose(s *session, cause error) {
	byGroup := s.verdict.Load()
	if byGroup != nil {
		cause = *byGroup
	}
	err := lost(cause)
	leases, ok := s.end(err)
	if !ok {
		return
	}
	k.unshare(s)
	k.mu.Lock()
	k.plan.Remove(s.id.Number)
	k.mu.Unlock()
	for _, l := range leases {
		l.end(err)
	}
	if byGroup != nil {
		k.forget(s)
	} else {
		k.clean.close(s, !errors.Is(cause, ErrReleased))
	}
}

// discard drops a session that the group never opened, once nothing hangs on it: its calls gave up before the
// group could be reached, or were refused. Without that each TTL asked for in an outage would stay for ever.
func (k *keeper) discard(s *session) {
	if !s.discard() {
		return
	}
	k.unshare(s)
	k.forget(s)
}

// forget drops the last trace of a session that the group no longer has.
func (k *keeper) forget(s *session) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.sessions, s.id.Number)
	k.numbers.Finish(s.id.Number)
}

// loseAll ends every session for cause.
func (k *keeper) loseAll(cause error) {
	for _, s := range k.all() {
		k.lose(s, cause)
	}
}

func (k *keeper) all() []*session {
	k.mu.RLock()
	defer k.mu.RUnlock()
	all := make([]*session, 0, len(k.sessions))
	for _, s := range k.sessions {
		all = append(all, s)
	}
	return all
}

func (k *keeper) get(number uint64) *session {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.sessions[number]
}

func (k *keeper) counts() (held, waiting int) {
	for _, s := range k.all() {
		h, w := s.counts()
		held, waiting = held+h, waiting+w
	}
	return held, waiting
}

// step tells what the group has ended, and renews and ends the sessions that are due.
func (k *keeper) step(context.Context) (pause time.Duration) {
	k.tellEnded()
	now := k.c.clock.Now()
	k.mu.Lock()
	acts := k.plan.Step(now)
	some := len(k.sessions) > 0
	lapsed, shaky := k.pick(acts.Lost), k.pick(acts.Jeopardy)
	due := k.pick(acts.Renew)
	k.mu.Unlock()

	for _, s := range lapsed {
		k.lose(s, ErrExpired)
	}
	for _, s := range shaky {
		k.tellJeopardy(s, Jeopardy{Remaining: time.Duration(s.until() - now), Cause: ErrNoQuorum})
	}
	due = slices.DeleteFunc(due, func(s *session) bool { return k.retire(s, now) })
	for batch := range slices.Chunk(due, keepMax) {
		select {
		case k.flights <- struct{}{}:
			k.c.goRun(func(ctx context.Context) {
				defer func() { <-k.flights }()
				k.keepalive(ctx, batch)
			})
		default: // the ones under way will tell; the plan asks again soon
		}
	}
	if !some {
		return untilWoken
	}
	return min(keeperPause, time.Duration(acts.Next-now))
}

// pick returns the sessions of these numbers. The caller holds k.mu.
func (k *keeper) pick(list []uint64) []*session {
	found := make([]*session, 0, len(list))
	for _, n := range list {
		if s := k.sessions[n]; s != nil {
			found = append(found, s)
		}
	}
	return found
}

// retire closes an automatically renewed session on which nothing has hung for a TTL.
func (k *keeper) retire(s *session, now lease.Instant) bool {
	if !s.unused(now) {
		return false
	}
	k.lose(s, ErrReleased)
	return true
}

// keepalive renews sessions with one command, in one attempt: the plan decides on the next.
func (k *keeper) keepalive(ctx context.Context, batch []*session) {
	sent := k.c.clock.Now()
	keep := k.keep(batch)
	group, _ := k.c.proposer.current()
	if group == nil {
		return
	}
	out, err := group.Propose(ctx, fsm.Encode(keep))
	if err == nil {
		k.renewed(batch, sent, out)
	}
}

func (k *keeper) keep(batch []*session) fsm.Keep {
	keep := fsm.Keep{Node: k.c.self.Node, Incarnation: k.c.self.Incarnation, Seq: k.seq.Add(1)}
	for _, s := range batch {
		keep.Sessions = append(keep.Sessions, s.id.Number)
	}
	k.mu.RLock()
	keep.Lowest = k.numbers.Lowest()
	k.mu.RUnlock()
	return keep
}

// renewed takes the outcome of a keepalive that was sent at sent.
func (k *keeper) renewed(batch []*session, sent lease.Instant, out fsm.Outcome) {
	for _, s := range batch {
		if out.Code != fsm.CodeOK || slices.Contains(out.Lost, s.id.Number) {
			k.lose(s, ErrExpired)
			continue
		}
		k.mu.Lock()
		horizon, safe, ok := k.plan.Renewed(s.id.Number, sent, k.c.clock.Now())
		k.mu.Unlock()
		if !ok {
			continue
		}
		if !s.extend(horizon) {
			k.lose(s, ErrExpired)
			continue
		}
		if safe {
			k.tellJeopardy(s, Jeopardy{Safe: true, Remaining: time.Duration(horizon - k.c.clock.Now())})
		}
	}
	k.wake()
}

// renew renews one session now.
func (k *keeper) renew(ctx context.Context, s *session) error {
	sent := k.c.clock.Now()
	batch := []*session{s}
	out, _, err := k.c.proposer.propose(ctx, k.keep(batch))
	if err != nil {
		return err
	}
	k.renewed(batch, sent, out)
	return nil
}

// release gives a lease back that has ended here, and closes its session if that is its own.
func (k *keeper) release(ctx context.Context, l *Lease) error {
	s, p := l.session, k.c.proposer
	if err := p.enter(ctx, p.holders); err != nil {
		k.releaseLater(l)
		return err
	}
	grant := [1]fsm.Grant{{Name: l.name, Token: uint64(l.token)}}
	room := p.room()
	cmd := fsm.Release{Session: s.id, Acked: s.acked(), Rest: l.rest(), Grants: grant[:], Close: s.manual}.AppendTo((*room)[:0])
	out, tried, err := p.admitted(ctx, p.holders, cmd)
	p.rooms.Put(room)
	if err != nil {
		k.releaseLater(l)
		return err
	}
	l.left()
	k.closed(s)
	if out.Code == fsm.CodeOK {
		return nil
	}
	return k.released(l, tried)
}

// closed says that the group has closed the session of a manually renewed lease with its release.
func (k *keeper) closed(s *session) {
	if s.manual {
		s.judge(ErrReleased)
		k.lose(s, ErrReleased)
	}
}

// released is what became of a grant that was not there when its release was carried out: an earlier attempt has
// released it, or it was lost before. The state knows, as long as it remembers how the grant ended.
func (k *keeper) released(l *Lease, tried attempts) error {
	end, known := k.c.endOf(l.name, l.token)
	switch {
	case tried.unknown && !known:
		return ErrUnknownOutcome
	case tried.unknown && end.Reason == fsm.ReasonReleased:
		return nil
	}
	return lost(ErrStaleToken)
}

// releaseLater gives back a lease that has ended here, without anybody waiting for it.
func (k *keeper) releaseLater(l *Lease) {
	if l.session.manual && l.rest() == 0 {
		k.lose(l.session, ErrReleased)
		return
	}
	k.clean.release(l)
}

func (k *keeper) tellJeopardy(s *session, j Jeopardy) {
	for _, l := range s.leases() {
		l.tell(j)
	}
}
