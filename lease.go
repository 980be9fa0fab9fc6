package holdfast

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/session"
)

// Lease is one grant of a lock: the right to act as its holder until the lease ends. A lease that has
// ended stays ended. Lease is safe for concurrent use. Do not copy it: go vet finds copies. A zero Lease was
// released: Err, Renew and Set are ErrReleased, and Release is nil. It has no Token, and is not Valid. Its other
// methods, but for Remaining, String and LogValue, panic.
type Lease struct {
	*tenure
	_ noCopy
	_ [56]byte // see handle
}

// noCopy has go vet find copies of what holds it.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

// tenure is the content of a lease; its session refers to it as long as the grant lasts. Lease is the
// caller's reference alone, so that the library notices a lease that its caller dropped: see handle.
type tenure struct {
	c        *Cluster
	grant    session.Grant
	asked    context.Context // given to Acquire: its values are inherited
	others   []string        // further names, of AcquireAll
	label    string
	election bool           // candidates always wait
	handled  atomic.Uintptr // the address of the handle that has a finalizer, 0 without one

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

// Jeopardy reports that renewal is in trouble, or that the lease is safe again.
type Jeopardy struct {
	Safe      bool          // true: renewed again after trouble
	Remaining time.Duration // of the validity that the holder may rely on
	Cause     error         // of the trouble, nil when safe
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

// Names returns all names of the lease: those given to AcquireAll, in that order, else the one name.
func (l *Lease) Names() []string { return append([]string{l.Name()}, l.others...) }

// Token returns the fencing token of this grant. Give it to the resource with every write.
func (l *Lease) Token() Token {
	if l.tenure == nil {
		return 0
	}
	return l.token()
}

func (l *tenure) token() Token { return Token(l.grant.Token()) }

// Context ends with the lease; context.Cause is the error of Err. Its values are those of the context
// given to Acquire, whose end it does not share.
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

// Done is closed when the lease ends: at the end of its validity at the latest, with or without a
// network.
func (l *Lease) Done() <-chan struct{} { return l.Context().Done() }

// Err is nil while the lease is held, then an error that is ErrReleased or ErrLost; the latter
// wraps its cause.
func (l *Lease) Err() error {
	if l.tenure == nil {
		return ErrReleased
	}
	if !l.Valid() {
		now := l.c.clock.Now()
		if l.grant.Settle(now); l.grant.Spent(now) {
			l.spent()
		}
		l.c.keeper.attend()
	}
	return l.grant.Err()
}

// Valid reports whether the holder may act now. It is local: it reads the clock, takes no lock and
// allocates nothing. Its first call after the process was stopped or the machine was suspended is
// right, but not after a hypervisor stopped all clocks of the machine: see ErrClockStopped. A write
// that began while Valid was true may still arrive late: present the token.
func (l *Lease) Valid() bool {
	if l.tenure == nil {
		return false
	}
	for {
		until := l.grant.Until()
		switch {
		case until == 0:
			return false
		case l.c.clock.Now() < until:
			return true
		case l.grant.Lapse(until): // once false, forever false: a renewal of this moment is seen at the next look
			l.c.keeper.Wake()
			return false
		}
	}
}

// Remaining is the validity that the holder may rely on without any further renewal, 0 once it is
// over. It is never more than what WithMaxHold leaves.
func (l *Lease) Remaining() time.Duration {
	if l.tenure == nil {
		return 0
	}
	return l.grant.Remaining(l.c.clock.Now())
}

// Jeopardy sends a message when half of the validity has passed without a renewal, and another when
// the lease is safe again. The channel keeps the latest message alone, and is never closed. Leases
// under WithManualRenew send none.
func (l *Lease) Jeopardy() <-chan Jeopardy { return l.warnings() }

func (l *tenure) warnings() chan Jeopardy {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.jeopardy == nil {
		l.jeopardy = make(chan Jeopardy, 1)
	}
	return l.jeopardy
}

// Wanted is closed when another caller waits for this lock or fails in TryAcquire, and when an
// operator requests the release (Cluster.RequestRelease): then WantedReason is not empty. In an
// election, where candidates always wait, the request alone closes it.
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

// WantedReason is the reason given to Cluster.RequestRelease, "" without such a request. Wanted is
// closed when there is a reason.
func (l *Lease) WantedReason() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reason
}

// Renew renews the lease now and returns when the group has confirmed it. A lease without
// WithManualRenew renews itself, and needs no call. Renew returns ErrLost on a lost lease and
// ErrReleased on a released one. If ctx ends first, the validity of the lease stays as it was.
func (l *Lease) Renew(ctx context.Context) error {
	if ctx == nil {
		return invalid("context", "is nil")
	}
	return l.renew(ctx, func(s *session.Session) error { return l.c.keeper.renew(ctx, s) })
}

// RenewFor renews a lease under WithManualRenew now, and sets its TTL, 100 ms to Config.MaxTTL; later
// calls of Renew keep that TTL. A holder takes more time before a long step by it, and gives time
// back after that. RenewFor returns when the group has confirmed the TTL, and the holder may rely on
// a longer TTL only then. A shorter TTL counts from the call on: if RenewFor fails, the group may
// have applied it, so the lease is valid for the shorter time until a later Renew or RenewFor
// succeeds. After a failure the next Renew requests the TTL that was confirmed last. A second call
// with the same TTL does no harm. Concurrent calls take effect in some order. Errors: ErrInvalid for
// ttl, and for a lease that renews itself; ErrLost and ErrReleased for one that has ended; else
// those of Renew.
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

// Release ends the lease and frees the lock. The lease has ended when Release returns, with or
// without an error. A second call returns nil. ErrLost means that the lease was lost before, perhaps
// without this node's knowledge. If ctx ends first, the error is that of ctx, and the node frees the
// lock in the background as soon as it reaches the group. ErrUnknownOutcome means that an answer was
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
	// The finalizer is for a lease that was not released, and would keep this one: see handle. The runtime
	// ends the process if l is a copy within something else.
	if l.handled.CompareAndSwap(reflect.ValueOf(l).Pointer(), 0) {
		runtime.SetFinalizer(l, nil)
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

// Ended is called once, when the grant ends.
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

// Warned replaces the message in the Jeopardy channel.
func (l holding) Warned(safe bool, remaining time.Duration) {
	// The news is of the session, which goes on when the maximum of this grant is over.
	j := Jeopardy{Safe: safe, Remaining: min(remaining, l.grant.Remaining(l.c.clock.Now()))}
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

// capHold ends the lease when its maximum is over.
func (l *tenure) capHold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.grant.Err() != nil { // Ended has not seen the timer
		return
	}
	l.maxHold = time.AfterFunc(l.grant.MostLeft(l.c.clock.Now()), l.spent)
}

// timeAnew sets the timer of the maximum, if there is one, by the clock.
func (l *tenure) timeAnew() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.maxHold != nil && l.grant.Err() == nil { // else Ended has stopped it, or will
		l.maxHold.Reset(l.grant.MostLeft(l.c.clock.Now()))
	}
}

// spent ends the lease whose maximum is over.
func (l *tenure) spent() {
	if l.grant.Leave(lost(ErrMaxHold)) {
		l.c.keeper.releaseLater(l)
	}
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

// usage is what became of a function that used a lease, and of the lease.
type usage struct {
	err  error // of the function
	loss error // of the lease, nil if it was released
	late bool  // the loss: the lease was valid when the function had returned, and the release found it over
}

// all is the error of the function and the loss.
func (u usage) all() error { return joinLoss(u.err, u.loss) }

// use calls fn as run does, and then releases, also when fn panics: a span of a kind.
func (l *Lease) use(ctx context.Context, kind SpanKind, fn func(context.Context, *Lease) error) (u usage) {
	ctx, span := l.c.hooks.begin(ctx, l.span(kind))
	u.err = errNotReturned
	defer func() { span.over(l.Token(), u.all()) }()
	defer func() {
		gone := l.Err() // now: in an outage the release may take longer than the lease
		end, done := l.endTime(ctx)
		defer done()
		if e := l.Release(end); errors.Is(e, ErrLost) {
			told := errors.Is(gone, ErrLost) || errors.Is(u.err, ErrStaleToken) // by a guard that knew it first
			u.loss, u.late = e, !told
		}
	}()
	u.err = l.run(ctx, fn)
	return u
}

// joinLoss adds a loss, if there was one, to the error of a function, which may have returned it itself:
// context.Cause of its context.
func joinLoss(err, loss error) error {
	if loss == nil || errors.Is(err, loss) {
		return err
	}
	return errors.Join(err, loss)
}

// endTime is a context for the end of a lease whose own one may have ended.
func (l *Lease) endTime(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), l.grant.Session().TTL())
}

// handle makes the caller's reference to a lease. The library keeps none, so the garbage collector
// finds the handle that its caller has dropped. If that lease renews itself and was not released, the
// keeper logs a warning: the lock stays held for as long as the process lives.
//
// The handle has a finalizer instead of a cleanup: a cleanup costs two allocations for each lease, a
// finalizer none, and the finalizer keeps the handle alone for longer, which is one pointer into no
// cycle. Setting a finalizer walks over those of the handles in the same page, so a handle is padded:
// 1,024 handles of 8 bytes would share a page, and an eighth of a busy node's work was that walk.
func (l *tenure) handle() *Lease {
	h := &Lease{tenure: l}
	if l.maxHold == nil && !l.grant.Session().Manual() {
		l.handled.Store(reflect.ValueOf(h).Pointer())
		runtime.SetFinalizer(h, (*Lease).dropped)
	}
	return h
}

// drops are dropped leases for the keeper to log: a finalizer runs on a goroutine of the runtime,
// which must not wait for a logger, and which belongs to no simulation.
type drops struct {
	mu  sync.Mutex
	all []*tenure
}

// dropped is the finalizer of the handle, whose address may be another's from now on.
func (l *Lease) dropped() {
	l.handled.Store(0)
	if l.grant.Until() == 0 || l.grant.Err() != nil {
		return
	}
	d := &l.c.keeper.drops
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = append(d.all, l.tenure)
}

// logDropped logs each dropped lease once, if it is still held.
func (k *keeper) logDropped() {
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

// Leases returns the valid leases of this process, those of Lead, Campaign and Once included, in the
// order of their names, and of their tokens where a name has several. Each call makes new Lease
// values: compare tokens, not pointers. Leases does no I/O.
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
