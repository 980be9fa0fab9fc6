package holdfast

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
)

const (
	keepDefault = 24 * time.Hour
	// KeepMax is the longest that a finished key can be remembered.
	KeepMax = fsm.KeepMax
)

// OnceOption changes how a key is run once.
type OnceOption interface{ applyOnce(*onceOptions) error }

type onceOptions struct {
	options
	keep time.Duration
	wait bool
}

type onceFunc func(*onceOptions) error

func (f onceFunc) applyOnce(o *onceOptions) error { return f(o) }

// KeepFor sets how long a finished key is remembered: at least d, and normally at most d + max(d/8,
// 200 ms) and the time of 65 commits. A restart of all nodes adds d/64. d is 1 ms to ten years.
// Default 24 h.
func KeepFor(d time.Duration) OnceOption {
	return onceFunc(func(o *onceOptions) error {
		if d < time.Millisecond || d > KeepMax {
			return invalid("KeepFor", "%v is not 1ms to %v", d, KeepMax)
		}
		o.keep = d
		return nil
	})
}

// WaitForRunner makes Once wait while the key runs elsewhere: until it is finished, or until it is
// this call's turn to run it. Without WaitForRunner, Once returns at once.
func WaitForRunner() OnceOption {
	return onceFunc(func(o *onceOptions) error { o.wait = true; return nil })
}

// OnceTTL sets the TTL of the run, 100 ms to 24 h. If the node dies, another call may run the key
// again after about this long. Default: Config.TTL.
func OnceTTL(d time.Duration) OnceOption {
	return onceFunc(func(o *onceOptions) error {
		o.ttl = d
		return checkTTL("OnceTTL", d)
	})
}

// OnceLabel describes the runner to people who look at the key: 1,024 bytes of UTF-8 at most.
func OnceLabel(s string) OnceOption {
	return onceFunc(func(o *onceOptions) error {
		o.label = s
		return checkText("OnceLabel", s, 0, LabelMax)
	})
}

// OnceResult is what became of a key.
type OnceResult struct {
	Ran      bool   // by this call
	Finished bool   // by this call or before
	Token    Token  // of the run by By; zero if there was none
	By       Holder // who ran it, or runs it now
}

// doneError says that a Once key is finished.
type doneError struct{ by fsm.Holder }

var errFinished = errors.New("holdfast: finished")

// Is reports whether target is errFinished.
func (e *doneError) Is(target error) bool { return target == errFinished }

func (e *doneError) Error() string {
	return fmt.Sprintf("holdfast: finished with token %d", e.by.Token)
}

// Once runs fn at most once for key among all nodes of the fleet, for as long as the key is
// remembered (KeepFor). At most one call runs it at a time.
//
//   - If fn returns nil, the key is finished: later calls report Finished and do not run fn.
//   - If fn returns an error, the key stays open: Once returns the error, and another call may run
//     the key.
//   - If the node that runs fn dies or loses its lease, another call may run the key again, with a
//     higher token. So fn gives its token to what it writes to, or does no harm when it is
//     repeated.
//   - If the key runs elsewhere, Once returns at once, neither Ran nor Finished, without an error;
//     with WaitForRunner it waits.
//
// key has 1 to 512 bytes of UTF-8 without control characters. A lock of the same name is something
// else. fn's context ends with the lease or with ctx. ErrLost means that the lease was lost: what
// fn did may have been done, and the key is not finished. ErrUnknownOutcome means that fn returned
// nil, and that the group may or may not know. This node's own replica may report that a key is
// finished, without asking the group. A run costs two commands, as a lock does.
func (c *Cluster) Once(ctx context.Context, key string, fn func(context.Context, *Lease) error, opts ...OnceOption) (OnceResult, error) {
	if fn == nil {
		return OnceResult{}, invalid("fn", "is nil")
	}
	run, r, err := c.BeginOnce(ctx, key, opts...)
	if run == nil {
		return r, err
	}
	return run.call(ctx, fn, r)
}

// finish ends the lease and tells the group that the key is finished. The lease is over before it
// is told: the answer may come when the key is forgotten already, and runs elsewhere.
func (l *Lease) finish(ctx context.Context, keep time.Duration) (bool, error) {
	if !l.grant.End(ErrReleased) {
		return false, l.Err()
	}
	ctx, span := l.c.hooks.begin(ctx, l.span(SpanRelease))
	finished, err := l.tellFinished(ctx, keep)
	span.over(l.Token(), err)
	return finished, err
}

func (l *Lease) tellFinished(ctx context.Context, keep time.Duration) (bool, error) {
	s := l.grant.Session()
	sent := l.c.clock.Now()
	out, unknown, err := l.c.propose(ctx, fsm.Finish{
		Session: s.ID(), Acked: s.Acked(), Name: l.grant.Name(), Token: l.grant.Token(),
		Keep: (keep + time.Millisecond - 1).Truncate(time.Millisecond),
	})
	switch {
	case err != nil:
		l.c.keeper.releaseLater(l.tenure)
		return false, err
	case out.Code == fsm.CodeOK:
		return true, nil
	case unknown && l.c.clock.Now().Sub(sent) >= keep/2: // by clocks that differ
		return false, ErrUnknownOutcome // an earlier attempt may have finished it, and it may be forgotten since
	}
	return false, lost(ErrExpired)
}

// ForgetOnce removes the record of a finished key: the next call of Once runs it again. For a key
// that nobody has run, or that is forgotten already, it returns nil; so does a second call. A key
// that runs has no record: that is a *HeldError. What a run finishes after ForgetOnce has begun
// stays remembered.
func (c *Cluster) ForgetOnce(ctx context.Context, key string) error {
	r, err := c.InspectOnce(ctx, key)
	switch {
	case err != nil || r.Token == 0:
		return err
	case !r.Finished:
		return &HeldError{Name: key, Holder: r.By, Token: r.Token}
	}
	out, _, err := c.propose(ctx, fsm.Forget{Name: fsm.OnceName(key), Token: uint64(r.Token)})
	if err == nil && out.Code != fsm.CodeOK {
		err = refused(out)
	}
	return err
}

// finished returns a *doneError if name is that of a Once key that this node's replica knows to be
// finished.
func (c *Cluster) finished(name string) error {
	key, once := fsm.OnceKey(name)
	group, _ := c.proposer.Current()
	if !once || group == nil {
		return nil
	}
	var by fsm.Holder
	var done bool
	group.Read(func(m *fsm.Machine) { by, done = m.Key(key) })
	if !done {
		return nil
	}
	return &doneError{by}
}

// Slot returns the key of one tick of a schedule for Once, the same on every node. at is the
// instant that the schedule names, not the time at which a timer fired. It is rounded to the
// nearest multiple of every since the Unix epoch, so nodes agree whose clocks differ by less than
// half of every. Choose an every that all instants of the schedule are multiples of: 30 minutes for
// "hourly at :30". If every is zero or less, at is not rounded.
func Slot(job string, at time.Time, every time.Duration) string {
	nanos := at.UnixNano()
	if every > 0 {
		step := int64(every)
		rest := ((nanos % step) + step) % step
		nanos -= rest
		if rest >= step-rest {
			nanos += step
		}
	}
	return job + "@" + time.Unix(0, nanos).UTC().Format(time.RFC3339Nano)
}
