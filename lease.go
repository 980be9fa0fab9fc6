package holdfast

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/session"
)

// Lease is one grant of a lock: the right to act as its holder until the lease ends. It is safe for
// concurrent use. A lease that has ended stays ended.
type Lease struct {
	*tenure
	_ [56]byte // see handle
}

// tenure is what a lease consists of: its session keeps it as long as it is held. A Lease is the
// caller's hold on it alone, so that one that is dropped can be noticed (lease.go).
type tenure struct {
	c        *Cluster
	grant    session.Grant
	asked    context.Context // given to Acquire: its values are inherited
	others   []string        // further names, of AcquireAll
	label    string
	election bool // candidates always wait

	mu       sync.Mutex
	maxHold  *time.Timer
	isWanted bool
	// Made when they are asked for: most holders of many locks ask for none of them.
	ctx      context.Context
	cancel   context.CancelCauseFunc
	wanted   chan struct{}
	reason   string // given to RequestRelease
	jeopardy chan Jeopardy
	writes   *writer
}

// Jeopardy tells that renewal is in trouble, or that it is safe again.
type Jeopardy struct {
	Safe      bool          // true: renewed again after trouble
	Remaining time.Duration // of the validity that the holder may rely on
	Cause     error         // what stands in the way, nil when safe
}

// Name returns the name of the lock, the first one of AcquireAll, or the key of Once.
func (l *Lease) Name() string { return l.name() }

func (l *tenure) name() string { return public(l.grant.Name()) }

// public is a name as callers know it.
func public(name string) string {
	key, _ := fsm.OnceKey(name)
	return key
}

// String is the name, the token and what remains, for people.
func (l *Lease) String() string {
	if l == nil || l.tenure == nil {
		return "no lease"
	}
	return fmt.Sprintf("%q with token %v, %v left", l.Name(), l.Token(), l.Remaining().Round(time.Millisecond))
}

// LogValue is a group of the name, the token and what remains.
func (l *Lease) LogValue() slog.Value {
	if l == nil || l.tenure == nil {
		return slog.StringValue("no lease")
	}
	return slog.GroupValue(slog.String("name", l.Name()), slog.Any("token", l.Token()), slog.String("remaining", l.Remaining().String()))
}

// Names returns all names that the lease is for: those given to AcquireAll, in that order, else the
// one.
func (l *Lease) Names() []string { return append([]string{l.Name()}, l.others...) }

// Token returns the fencing token of this grant. Give it to the resource with every write.
func (l *Lease) Token() Token { return l.token() }

func (l *tenure) token() Token { return Token(l.grant.Token()) }

// Context ends with the lease; context.Cause tells why. Its values are those of the context given
// to Acquire, whose end it does not share.
func (l *Lease) Context() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx == nil {
		l.ctx, l.cancel = context.WithCancelCause(context.WithValue(context.WithoutCancel(l.asked), leaseKey{}, l.tenure))
		if err := l.grant.Err(); err != nil { // Ended has not seen cancel
			l.cancel(err)
		}
	}
	return l.ctx
}

// Done is closed when the lease ends: at the end of its validity at the latest, whether or not the
// network answers.
func (l *Lease) Done() <-chan struct{} { return l.Context().Done() }

// Err is nil while the lease is held, then an error that is ErrReleased or ErrLost; the latter
// wraps its cause.
func (l *Lease) Err() error {
	if !l.Valid() {
		l.grant.Settle(l.c.clock.Now())
		l.c.keeper.attend()
	}
	return l.grant.Err()
}

// Valid reports whether the holder may act now. It is local: one look at the clock, no lock, no
// allocation. It is right even at the first look after the process was stopped or the machine was
// suspended. What was begun while it was true may still arrive late: present the token.
func (l *Lease) Valid() bool {
	until := l.grant.Until()
	if until == 0 {
		return false
	}
	if l.c.clock.Now() < until {
		return true
	}
	l.grant.Lapse(until) // whoever was told no is never told yes again
	l.c.keeper.Wake()
	return false
}

// Remaining is the validity that the holder may rely on without any further renewal, 0 once it is
// over. It is never more than what WithMaxHold leaves.
func (l *Lease) Remaining() time.Duration {
	return l.grant.Remaining(l.c.clock.Now())
}

// Jeopardy sends when half of the validity is gone without a renewal, and again when it is safe.
// Only the latest message is kept. The channel is never closed. Leases under WithManualRenew get
// none.
func (l *Lease) Jeopardy() <-chan Jeopardy { return l.warnings() }

func (l *tenure) warnings() chan Jeopardy {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.jeopardy == nil {
		l.jeopardy = make(chan Jeopardy, 1)
	}
	return l.jeopardy
}

// Wanted is closed when somebody else starts to wait for this lock or fails to try it, and when the
// holder is asked to let go (Cluster.RequestRelease): WantedReason tells which. In an election,
// where candidates always wait, only the latter closes it.
func (l *Lease) Wanted() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.wanted == nil {
		l.wanted = make(chan struct{})
		if l.isWanted {
			close(l.wanted)
		}
	}
	return l.wanted
}

// WantedReason is the reason given to Cluster.RequestRelease, "" while nobody has asked the holder
// to let go. Wanted is closed when there is one.
func (l *Lease) WantedReason() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reason
}

// Renew renews the lease now and returns when the group has confirmed it. A lease without
// WithManualRenew renews itself; Renew then only makes sure. It returns ErrLost on a lost lease and
// ErrReleased on a released one. If ctx ends first, the lease lives on as long as it was valid.
func (l *Lease) Renew(ctx context.Context) error {
	if ctx == nil {
		return invalid("context", "is nil")
	}
	return l.renew(ctx, func(s *session.Session) error { return l.c.keeper.renew(ctx, s) })
}

// RenewFor renews a lease under WithManualRenew now, and gives it another TTL from now on, 100 ms
// to 24 h: later calls of Renew keep it. A holder asks so for more time before a long step, and
// gives time back after it. It returns when the group has confirmed the TTL, and the holder may
// rely on a longer one only then. A shorter one counts from the call on: if RenewFor fails, the
// group may have heard of it all the same, so the lease is valid for the shorter time until a later
// Renew or RenewFor succeeds. After a failure the next Renew asks for the TTL that was confirmed
// last. A second call with the same TTL does no harm. Concurrent calls take effect in some order.
// Errors: ErrInvalid for ttl, and for a lease that renews itself; ErrLost and ErrReleased for one
// that is over; else those of Renew.
func (l *Lease) RenewFor(ctx context.Context, ttl time.Duration) error {
	switch s := l.grant.Session(); {
	case ctx == nil:
		return invalid("context", "is nil")
	case !s.Manual():
		return invalid("RenewFor", "the lease of %q renews itself: it is for WithManualRenew", l.Name())
	}
	if err := checkTTL("ttl", ttl, l.c.cfg.MaxTTL); err != nil {
		return err
	}
	if l.Valid() && ctx.Err() != nil { // no validity is given up for a command that is never sent
		return ctx.Err()
	}
	return l.renew(ctx, func(s *session.Session) error { return l.c.keeper.renewFor(ctx, s, ttl) })
}

func (l *Lease) renew(ctx context.Context, renew func(*session.Session) error) error {
	if err := l.Err(); err != nil {
		return err
	}
	if err := renew(l.grant.Session()); err != nil {
		return err
	}
	return l.Err()
}

// Release ends the lease and frees the lock. The lease is over when Release returns, whatever it
// returns. A second call returns nil. ErrLost means that the lease was lost before, perhaps without
// this node's knowledge. If ctx ends first, the lock is freed in the background as soon as the
// group can be reached, and the error is that of ctx. ErrUnknownOutcome means that an answer was
// lost, and that the group does not remember how the grant ended.
func (l *Lease) Release(ctx context.Context) error {
	if ctx == nil {
		return invalid("context", "is nil")
	}
	if err := l.Err(); err != nil {
		return releasedTwice(err)
	}
	if !l.grant.Leave(ErrReleased) {
		return releasedTwice(l.Err())
	}
	ctx, span := l.c.hooks.begin(ctx, l.span(SpanRelease))
	err := l.c.keeper.release(ctx, l.tenure)
	span.over(l.Token(), err)
	return err
}

func releasedTwice(err error) error {
	if errors.Is(err, ErrReleased) {
		return nil
	}
	return err
}

// holding is the lease as its grant knows it.
type holding struct{ *tenure }

// Ended is called once, when the grant is over.
func (l holding) Ended(err error) {
	l.mu.Lock()
	if l.maxHold != nil {
		l.maxHold.Stop()
	}
	cancel := l.cancel
	l.mu.Unlock()
	if cancel != nil {
		cancel(err)
	}
	l.c.over(l.tenure, err)
}

// Wanted closes the channel of Lease.Wanted, made or not.
func (l holding) Wanted(reason string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if reason != "" {
		l.reason = reason
	} else if l.election {
		return
	}
	if !l.isWanted && l.wanted != nil {
		close(l.wanted)
	}
	l.isWanted = true
}

// Warned replaces what waits in the Jeopardy channel.
func (l holding) Warned(safe bool, remaining time.Duration) {
	j := Jeopardy{Safe: safe, Remaining: remaining}
	if !safe {
		j.Cause = ErrNoQuorum
	}
	l.c.hooks.jeopardy(l.tenure, j)
	warnings := l.warnings()
	select {
	case <-warnings:
	default:
	}
	select {
	case warnings <- j:
	default:
	}
}

// capHold ends the lease d after its grant.
func (l *tenure) capHold(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.grant.Err() != nil { // Ended has not seen the timer
		return
	}
	l.maxHold = time.AfterFunc(d, func() {
		if l.grant.Leave(lost(ErrMaxHold)) {
			l.c.keeper.releaseLater(l)
		}
	})
}

// run calls fn under a context that ends with the lease or with ctx.
func (l *Lease) run(ctx context.Context, fn func(context.Context, *Lease) error) error {
	held, cancel := context.WithCancelCause(context.WithValue(ctx, leaseKey{}, l.tenure))
	stop := context.AfterFunc(l.Context(), func() { cancel(context.Cause(l.Context())) })
	defer func() {
		stop()
		cancel(nil)
	}()
	return fn(held, l)
}

// use calls fn as run does, and then releases, also when fn panics: a span of a kind. It reports
// whether the lease was lost meanwhile.
func (l *Lease) use(ctx context.Context, kind SpanKind, fn func(context.Context, *Lease) error) (lost bool, err error) {
	ctx, span := l.c.hooks.begin(ctx, l.span(kind))
	err = errNotReturned
	defer func() { span.over(l.Token(), err) }()
	defer func() {
		end, done := l.endTime(ctx)
		defer done()
		if e := l.Release(end); errors.Is(e, ErrLost) {
			lost, err = true, joinLoss(err, e)
		}
	}()
	err = l.run(ctx, fn)
	return false, err
}

// joinLoss adds a loss to the error of a function, which may have returned it itself: context.Cause
// of its context.
func joinLoss(err, loss error) error {
	if errors.Is(err, loss) {
		return err
	}
	return errors.Join(err, loss)
}

// endTime is a context for the end of a lease whose own one may have ended.
func (l *Lease) endTime(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), l.grant.Session().TTL())
}

// handle is the caller's hold on a lease. Nothing in the library keeps it, so it goes when the
// caller drops it: that of a lease which renews itself, and was not released, is told to people, as
// its lock is held for as long as the process lives.
//
// It takes a finalizer and no cleanup: a cleanup costs two allocations for each lease, a finalizer
// none, and the handle, which is one pointer into no cycle, is all that a finalizer keeps for
// longer. Setting one walks over those of the handles that share a page with it, so few share one:
// of 8 bytes each 1,024 would, and that was an eighth of what the node of many callers did.
func (l *tenure) handle() *Lease {
	h := &Lease{tenure: l}
	if l.maxHold == nil && !l.grant.Session().Manual() {
		runtime.SetFinalizer(h, (*Lease).dropped)
	}
	return h
}

// drops are leases that were dropped, for the keeper to tell: a finalizer runs on a goroutine of
// the runtime, which must not wait for a logger, and which belongs to no simulation.
type drops struct {
	mu  sync.Mutex
	all []*tenure
}

// dropped is called when nobody has the handle any more.
func (l *Lease) dropped() {
	if l.grant.Until() == 0 || l.grant.Err() != nil {
		return
	}
	d := &l.c.keeper.drops
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = append(d.all, l.tenure)
}

// tellDropped logs each dropped lease once, if it is still held.
func (k *keeper) tellDropped() {
	k.drops.mu.Lock()
	all := k.drops.all
	k.drops.all = nil
	k.drops.mu.Unlock()
	for _, t := range all {
		if t.grant.Err() == nil {
			k.c.log.Warn("a lease was dropped without Release: its lock stays held until this node ends",
				"lock", t.name(), "token", t.token())
		}
	}
}

// Leases are those that this process holds, in the order of their names, and of their tokens where
// a name has several: of Acquire, Lead, Campaign and Once. For an overview, and for the end of a
// process that has lost sight of what it holds. Each call makes new Lease values: compare tokens,
// not pointers. It is local, without I/O.
func (c *Cluster) Leases() []*Lease {
	var all []*Lease
	for _, h := range c.keeper.table.Holders() {
		if l := (&Lease{tenure: h.(holding).tenure}); l.Valid() {
			all = append(all, l)
		}
	}
	slices.SortFunc(all, func(a, b *Lease) int {
		return cmp.Or(cmp.Compare(a.Name(), b.Name()), cmp.Compare(a.Token(), b.Token()))
	})
	return all
}
