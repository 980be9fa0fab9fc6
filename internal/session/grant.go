package session

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/lease"
)

// Holder is the caller that has a grant.
type Holder interface {
	// Ended says that the grant is over, once. A waiter for that end can be woken from here.
	Ended(err error)
	// Wanted says that the lock has a waiter or, with a reason, that the holder is asked to let
	// go. It is called under the session's lock.
	Wanted(reason string)
	// Warned says that renewal is in trouble, or safe again, and for how long the holder may still
	// rely on the grant.
	Warned(safe bool, remaining time.Duration)
}

// Terms are what a lock was asked for with, as far as its holder's node keeps to them.
type Terms struct {
	MinHold time.Duration // for how long no other holder gets it, also after an early release
	MaxHold time.Duration // after how long its holder ends it; 0: never
	Delay   time.Duration // for how long no other holder gets it after a loss
}

// Grant is one grant in its holder's hands. Call.Take begins it. One that has ended stays ended.
type Grant struct {
	session *Session
	request uint64
	name    string
	token   uint64
	holder  Holder
	since   lease.Instant // when this node learnt of it
	most    lease.Instant // when its maximum ends it
	minHold time.Duration
	delay   time.Duration

	over atomic.Bool // it is valid no more
	mu   sync.Mutex
	err  error // why; set with over, once
	told bool  // the holder has been told
}

func (g *Grant) begin(c Call, h Holder, name string, token uint64, terms Terms, now lease.Instant) {
	g.session, g.request, g.name, g.token, g.holder = c.Session, c.Request, name, token, h
	g.minHold, g.delay, g.since, g.most = terms.MinHold, terms.Delay, now, lease.Never
	if terms.MaxHold > 0 {
		g.most = now.Add(terms.MaxHold)
	}
}

// Session is what it hangs on.
func (g *Grant) Session() *Session { return g.session }

// Name is that of the lock.
func (g *Grant) Name() string { return g.name }

// Token is the fencing token.
func (g *Grant) Token() uint64 { return g.token }

// Since is when this node learnt of it.
func (g *Grant) Since() lease.Instant { return g.since }

// Over reports whether the grant is valid no more, whatever its session is.
func (g *Grant) Over() bool { return g.over.Load() }

// Until is until when the holder may rely on the grant, by its maximum, too; zero if it is over.
// Read it before the clock.
func (g *Grant) Until() lease.Instant {
	if g.over.Load() {
		return never
	}
	return min(g.session.Until(), g.most)
}

// Spent reports whether its maximum ends the grant: timers stand still while a machine is suspended.
func (g *Grant) Spent(now lease.Instant) bool { return now >= g.most }

// MostLeft is what its maximum leaves of the grant, far away without one.
func (g *Grant) MostLeft(now lease.Instant) time.Duration { return time.Duration(g.most - now) }

// Lapse is Session.Lapse. The session goes on where the grant's own maximum was seen to end.
func (g *Grant) Lapse(seen lease.Instant) (over bool) { return g.session.Lapse(seen) || g.Spent(seen) }

// Remaining is for how long the holder may rely on the grant without a further renewal.
func (g *Grant) Remaining(now lease.Instant) time.Duration {
	return max(0, time.Duration(g.Until()-now))
}

// Err is nil while the grant is held, then an error that is ErrReleased or ErrLost.
func (g *Grant) Err() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

// ended reports whether the holder has been told.
func (g *Grant) ended() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.told
}

// Settle ends a grant that is valid no more if its session is over, or is by now.
func (g *Grant) Settle(now lease.Instant) {
	g.session.table.Alive(g.session, now)
	if err := g.session.Ended(); err != nil {
		g.End(err) // the call that ends the session may not have come to this grant yet
	}
}

// revoke ends the validity of the grant for err. End, which follows, tells the holder: the goroutine
// that applies only records.
func (g *Grant) revoke(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.close(err)
}

// close sets why the grant is over, unless it is already. The caller holds g.mu.
func (g *Grant) close(err error) {
	if g.err == nil {
		g.err = err
		g.over.Store(true)
	}
}

// End ends the grant, once, for err unless the group has revoked it before, and tells the holder. It
// reports whether this call did it.
func (g *Grant) End(err error) bool {
	g.mu.Lock()
	if g.told {
		g.mu.Unlock()
		return false
	}
	g.told = true
	g.close(err)
	err = g.err
	g.mu.Unlock()
	g.session.drop(g)
	g.holder.Ended(err)
	return true
}

// Leave is End where a release follows: if that may leave a rest, the session lives until the group
// has heard it.
func (g *Grant) Leave(err error) bool {
	if !g.mayRest() {
		return g.End(err)
	}
	g.session.pin()
	ended := g.End(err)
	if !ended {
		g.session.unpin()
	}
	return ended
}

// left says that the group has heard of the release, or that it leaves no rest.
func (g *Grant) left() {
	if g.mayRest() {
		g.session.unpin()
	}
}

func (g *Grant) mayRest() bool { return g.minHold > 0 || g.delay > 0 }

// Rest is for how long the place stays taken after the end of the grant, by its terms and by how it
// ended.
func (g *Grant) Rest(now lease.Instant) time.Duration {
	left := g.minHold - time.Duration(now-g.since)
	if errors.Is(g.Err(), ErrLost) {
		left = max(left, g.delay)
	}
	if left <= 0 {
		return 0
	}
	return min(left+time.Millisecond-1, fsm.RestMax) // the group counts whole milliseconds
}

// AppendRelease appends the command that gives back a grant which has ended, and closes its session
// if that is its own.
func (g *Grant) AppendRelease(b []byte, now lease.Instant) []byte {
	s := g.session
	grant := [1]fsm.Grant{{Name: g.name, Token: g.token}}
	return fsm.Release{Session: s.id, Acked: s.Acked(), Rest: g.Rest(now), Grants: grant[:], Close: s.manual}.AppendTo(b)
}

// Released is what became of a release.
type Released uint8

// What Grant.ReleaseAnswered returns.
const (
	Done    Released = iota // the group has ended the grant by it
	Stale                   // the grant was lost before
	Unknown                 // the group does not remember how it ended
)

// ReleaseAnswered takes the outcome of the command of AppendRelease; unknown says that it was not
// the first attempt. end tells how the state says that the grant ended: if it was not there any
// more an earlier attempt has released it, or it was lost before.
func (g *Grant) ReleaseAnswered(out fsm.Outcome, unknown bool, end func() *fsm.PastGrant) Released {
	g.left()
	g.session.table.closed(g.session)
	if out.Code == fsm.CodeOK {
		return Done
	}
	if !unknown {
		return Stale
	}
	switch past := end(); {
	case past == nil:
		return Unknown
	case past.Reason == fsm.ReasonReleased:
		return Done
	}
	return Stale
}

// ReleaseLater gives back a grant that has ended here. No caller waits for the outcome.
func (g *Grant) ReleaseLater(now lease.Instant) {
	s, rest := g.session, g.Rest(now)
	if s.manual && rest == 0 {
		g.session.table.Lose(s, ErrReleased)
		return
	}
	grant := fsm.Grant{Name: g.name, Token: g.token}
	if rest == 0 {
		g.left()
		g.session.table.owe(s, func(d *Debt) { d.release = append(d.release, grant) })
		return
	}
	cmd := fsm.Release{Session: s.id, Grants: []fsm.Grant{grant}, Rest: rest, Close: s.manual}
	g.session.table.owe(s, func(d *Debt) { d.rests = append(d.rests, resting{g, cmd}) })
}

// closed says that the group has closed the session of a manually renewed lease with its release.
func (t *Table) closed(s *Session) {
	if s.manual {
		s.endedByGroup(ErrReleased)
		t.Lose(s, ErrReleased)
	}
}
