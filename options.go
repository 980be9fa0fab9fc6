package holdfast

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/lease"
)

// Bounds of arguments. Beyond them a call returns ErrInvalid.
const (
	TTLMin    = 100 * time.Millisecond
	TTLMax    = 24 * time.Hour // of Config.MaxTTL
	NameMax   = 512            // bytes of a lock name
	LabelMax  = 1024           // bytes of a label
	ValueMax  = 64 << 10       // bytes of a lock's value
	LimitMax  = 1 << 20        // permits of a semaphore
	HoldMax   = 24 * time.Hour // of WithMinHold and WithLockDelay
	NamesMax  = fsm.SetMax     // names of one AcquireAll
	reasonMax = 1024           // bytes of a reason given to ForceRelease
)

// Option changes how a call acquires a lock, or runs a key once. The With functions make options.
// The table in docs/guarantees.md lists the options of each call. A call with another option returns
// ErrInvalid, which names the option and the call.
type Option interface {
	kind() optionKind
	apply(*options) error
}

// call is a set of calls that take options.
type call uint16

const (
	callAcquire call = 1 << iota
	callTryAcquire
	callAcquireAll
	callDo
	callLead
	callCampaign
	callLocker
	callOnce
	callBeginOnce
	callEvery
	callsEnd
)

const (
	anyCall   = callsEnd - 1
	onceCalls = callOnce | callBeginOnce
	lockCalls = anyCall &^ onceCalls &^ callEvery // Every sets terms and value itself
)

// callNames are the calls of the table, in the order of their bits.
func callNames() []string {
	return []string{"Acquire", "TryAcquire", "AcquireAll", "Do", "Lead", "Campaign", "Locker", "Once", "BeginOnce", "Every"}
}

func (c call) String() string {
	var names []string
	for i, name := range callNames() {
		if c&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// optionKind is a row of the table.
type optionKind uint8

const (
	withTTL optionKind = iota
	withLabel
	withManualRenew
	withMaxHold
	withMinHold
	withLockDelay
	withValue
	withPriority
	withDeadlockCheck
	withNoWait
	withShared
	withLimit
	withWeight
	withKeepFor
	withWait
	optionKinds
)

// optionRow is an option and the calls that take it.
type optionRow struct {
	name  string
	calls call
}

// optionTable lists the calls of each option. Under WithNoWait a call takes the options of TryAcquire
// alone.
func optionTable() *[optionKinds]optionRow {
	return &[optionKinds]optionRow{
		withTTL:           {"WithTTL", anyCall},
		withLabel:         {"WithLabel", anyCall},
		withManualRenew:   {"WithManualRenew", lockCalls &^ callLocker}, // its callers have no lease
		withMaxHold:       {"WithMaxHold", lockCalls},
		withMinHold:       {"WithMinHold", lockCalls},
		withLockDelay:     {"WithLockDelay", lockCalls | callEvery},
		withValue:         {"WithValue", lockCalls},
		withPriority:      {"WithPriority", lockCalls&^callTryAcquire | callEvery},          // TryAcquire never waits
		withDeadlockCheck: {"WithDeadlockCheck", lockCalls &^ callTryAcquire &^ callLocker}, // its callers have no context
		withNoWait:        {"WithNoWait", callDo | callLead},
		withShared:        {"WithShared", callAcquire | callTryAcquire | callAcquireAll | callDo}, // an election has one leader
		withLimit:         {"WithLimit", callAcquire | callTryAcquire | callDo},
		withWeight:        {"WithWeight", callAcquire | callTryAcquire | callDo},
		withKeepFor:       {"WithKeepFor", onceCalls},
		withWait:          {"WithWait", onceCalls},
	}
}

type options struct {
	asked    context.Context // of the call: its values are the lease's
	sent     lease.Instant   // before the command of the attempt under way was sent
	ttl      time.Duration
	maxTTL   time.Duration // Config.MaxTTL
	manual   bool
	maxHold  time.Duration
	minHold  time.Duration
	delay    time.Duration
	label    string
	hasValue bool
	value    []byte
	shared   bool
	limit    uint32
	weight   uint32
	priority int32

	others   []string // of AcquireAll
	election bool     // of Lead
	refuse   bool     // waiting in a cycle
	noWait   bool     // of Do and Lead
	wait     bool     // of Once
	keep     time.Duration
}

func (o *options) mode() fsm.Mode {
	switch {
	case o.limit > 0:
		return fsm.Permit
	case o.shared:
		return fsm.Shared
	}
	return fsm.Exclusive
}

type option struct {
	of  optionKind
	set func(*options) error
}

func (x option) kind() optionKind       { return x.of }
func (x option) apply(o *options) error { return x.set(o) }

// WithTTL sets the time for which the lease lives without renewal, 100 ms to Config.MaxTTL. The group
// grants a dead holder's lock again after about this time. Where the group takes longer to answer, the call
// gets no lease that is valid: it asks again until its ctx ends, and the log says so. Default: Config.TTL.
func WithTTL(d time.Duration) Option {
	return option{withTTL, func(o *options) error {
		if err := checkTTL("WithTTL", d, o.maxTTL); err != nil {
			return err
		}
		o.ttl = d
		return nil
	}}
}

// WithManualRenew leaves renewal to the caller: the lease ends one TTL after the last successful
// call of Renew or RenewFor. Such a lease has a session of its own, which costs a command for each
// renewal.
func WithManualRenew() Option {
	return option{withManualRenew, func(o *options) error { o.manual = true; return nil }}
}

// WithMaxHold ends the lease d after its grant, with an error that is ErrLost and ErrMaxHold, even
// if renewal works. The lock is free again at d if the node reaches the group, and a TTL later at
// the latest; later still under WithLockDelay, and under a WithMinHold that is longer. d is positive.
func WithMaxHold(d time.Duration) Option {
	return option{withMaxHold, func(o *options) error {
		if d <= 0 {
			return invalid("WithMaxHold", "%v is not positive", d)
		}
		o.maxHold = d
		return nil
	}}
}

// WithMinHold keeps the lock taken for d after its grant, even if its holder releases it earlier: a
// rate limit. Release returns at once; the next holder waits until d is over. Nodes measure d by
// their own clocks, so d may be too short by the fraction Config.MaxClockDrift. A lease that WithMaxHold
// ends keeps its minimum; one that is lost otherwise, or ended by ForceRelease, has none: see WithLockDelay. The group counts what is left of d at the
// call of Release from the moment at which it hears of that: an outage between the two makes the hold
// longer by its length. One longer than the TTL may also end it, as the lease may be lost to the group.
// d is 1 ms to 24 h.
func WithMinHold(d time.Duration) Option {
	return option{withMinHold, func(o *options) error {
		o.minHold = d
		return checkHold("WithMinHold", d)
	}}
}

// WithLockDelay makes the group grant the lock to no holder for d after the loss of this lease. In
// that time late writes of the holder arrive: use it for a resource that cannot check tokens. A
// lease is lost when it is not renewed in time, when its node ends or is closed, and at the end of
// WithMaxHold. Release and ForceRelease cause no delay. d begins when the group ends the lease. The
// loss of a shared lease delays exclusive holders only. d is 1 ms to 24 h.
func WithLockDelay(d time.Duration) Option {
	return option{withLockDelay, func(o *options) error {
		o.delay = wholeMillis(d)
		return checkHold("WithLockDelay", d)
	}}
}

// WithNoWait makes Do and Lead return a *HeldError instead of waiting if the lock has a holder or
// waiters; Lead after a loss only if another node leads. For other calls it is ErrInvalid: TryAcquire never waits.
func WithNoWait() Option {
	return option{withNoWait, func(o *options) error { o.noWait = true; return nil }}
}

// wholeMillis is d rounded up to what the group counts.
func wholeMillis(d time.Duration) time.Duration {
	if rest := d % time.Millisecond; rest > 0 {
		d += time.Millisecond - rest
	}
	return d
}

func checkHold(field string, d time.Duration) error {
	if d < time.Millisecond || d > HoldMax {
		return invalid(field, "%v is not 1ms to %v", d, HoldMax)
	}
	return nil
}

// WithDeadlockCheck makes a call return ErrDeadlock instead of waiting in a cycle of callers that
// wait for each other. The context of a call names the locks that its caller holds: see WhyBlocked.
func WithDeadlockCheck() Option {
	return option{withDeadlockCheck, func(o *options) error { o.refuse = true; return nil }}
}

// WithLabel describes the holder or waiter, for people: at most 1,024 bytes of UTF-8.
func WithLabel(s string) Option {
	return option{withLabel, func(o *options) error {
		if err := checkText("WithLabel", s, 0, LabelMax); err != nil {
			return err
		}
		o.label = s
		return nil
	}}
}

// WithValue sets the lock's value at the moment of the grant; nil removes it. Every node can read the
// value, the holder alone can write it, and it outlives its holder. 64 KiB at most.
func WithValue(v []byte) Option {
	return option{withValue, func(o *options) error {
		if len(v) > ValueMax {
			return invalid("WithValue", "%d bytes, at most %d", len(v), ValueMax)
		}
		o.hasValue, o.value = true, bytes.Clone(v) // nil stays nil
		return nil
	}}
}

// WithShared shares the lock with other shared holders, 10,000 at most: the next call returns
// ErrExhausted. Shared holders do not starve an exclusive waiter, because no call overtakes it. Each
// shared grant has its own token. A guard that has seen a token refuses lower ones, also that of
// another shared holder: let each holder write to a resource of its own. ErrLimitMismatch if the
// name is in use as a semaphore.
func WithShared() Option {
	return option{withShared, func(o *options) error { o.shared = true; return nil }}
}

// WithLimit makes the lock a semaphore of n permits, 1 to 1,048,576. All users of a name at one
// time give the same limit; a call with another limit, or with none, returns ErrLimitMismatch at
// once. ResizeLimit changes it, and accepts the limit before it as well. A name is in use while a
// caller holds it or waits for it, or while a place stays taken under WithMinHold or WithLockDelay.
// A value alone does not count. At most 10,000 hold it at a time, whatever is left of n: the next
// one gets ErrExhausted.
func WithLimit(n int) Option {
	return option{withLimit, func(o *options) error {
		if n < 1 || n > LimitMax {
			return invalid("WithLimit", "%d is not 1 to %d", n, LimitMax)
		}
		o.limit = uint32(n)
		return nil
	}}
}

// WithWeight acquires n permits of a semaphore at once, 1 to its limit. Default 1.
func WithWeight(n int) Option {
	return option{withWeight, func(o *options) error {
		if n < 1 || n > LimitMax {
			return invalid("WithWeight", "%d is not 1 to %d", n, LimitMax)
		}
		o.weight = uint32(n)
		return nil
	}}
}

// WithPriority makes the group serve this waiter before all of lower priority; within one priority
// the order is first in, first out. Default 0.
func WithPriority(p int) Option {
	return option{withPriority, func(o *options) error {
		if p < math.MinInt32 || p > math.MaxInt32 {
			return invalid("WithPriority", "%d does not fit 32 bits", p)
		}
		o.priority = int32(p)
		return nil
	}}
}

// gather applies the options of a call to the defaults and checks how they go together.
func gather(cfg *Config, by call, opts []Option) (options, error) {
	o := options{ttl: cfg.TTL, maxTTL: cfg.MaxTTL}
	if len(opts) == 0 { // apart from what follows: a call without options allocates none
		return o, nil
	}
	return o.with(by, opts)
}

func (o options) with(by call, opts []Option) (options, error) {
	for i, opt := range opts {
		if opt == nil {
			return o, invalid(fmt.Sprintf("option %d", i), "is nil")
		}
		if row := optionTable()[opt.kind()]; row.calls&by == 0 {
			return o, invalid(row.name, "is for %v, not for %v", row.calls, by)
		}
		if err := opt.apply(&o); err != nil {
			return o, err
		}
	}
	switch {
	case o.shared && o.limit > 0:
		return o, invalid("WithShared", "cannot be combined with WithLimit")
	case o.weight > 0 && o.limit == 0:
		return o, invalid("WithWeight", "needs WithLimit")
	case o.weight > o.limit:
		return o, invalid("WithWeight", "%d is above the limit of %d", o.weight, o.limit)
	case o.limit > 0 && o.weight == 0:
		o.weight = 1
	}
	if !o.noWait {
		return o, nil
	}
	for _, opt := range opts {
		if row := optionTable()[opt.kind()]; row.calls&callTryAcquire == 0 && opt.kind() != withNoWait {
			return o, invalid(row.name, "is for calls that wait, not for %v with WithNoWait", by)
		}
	}
	return o, nil
}

// checkTTL accepts a TTL up to longest: Config.MaxTTL, or the bound of that itself.
func checkTTL(field string, d, longest time.Duration) error {
	switch {
	case d < TTLMin || d > TTLMax:
		return invalid(field, "%v is not between %v and %v", d, TTLMin, TTLMax)
	case d > longest:
		return invalid(field, "%v is longer than Config.MaxTTL, which is %v: set that on all nodes", d, longest)
	}
	return nil
}

// ContextWithReason returns a context with which ResizeLimit and ForgetOnce, which take no reason, say why:
// at most 1,024 bytes, which are logged and reach every watch as the Reason of an EventAct. A nil ctx counts as
// context.Background().
func ContextWithReason(ctx context.Context, reason string) context.Context {
	if ctx == nil {
		ctx = context.Background()
	}
	return context.WithValue(ctx, reasonKey{}, reason)
}

type reasonKey struct{}

// reasonIn is the reason that a context has, "" without one.
func reasonIn(ctx context.Context) (string, error) {
	reason, _ := ctx.Value(reasonKey{}).(string)
	return reason, checkText("reason", reason, 0, reasonMax)
}
