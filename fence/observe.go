package fence

import (
	"context"
	"errors"
	"sync/atomic"
)

// Checked is one check of a token by a guard, whether it was admitted or not.
type Checked struct {
	Resource string // for Rows: the key, as fmt.Sprint writes it
	Token    Token
	Err      error // nil: admitted. Otherwise the error of the check, never that of what was to follow it
}

// Stale reports whether the token was refused because a higher one was seen; for CheckOnce, also
// the same one.
func (c Checked) Stale() bool { return errors.Is(c.Err, ErrStale) }

// Observed is g with tell called after each Check and CheckOnce, on the goroutine of the check,
// which waits for it. It is for guards of other packages, and for what Once, Plausible and Logged
// return. The guards of this package have ways besides these two, such as Do and CheckTx: call
// their Observe, which sees all of them, or else such a check is not told. With both, a check is
// told twice.
func Observed(g Guard, tell func(context.Context, Checked)) Guard {
	o := &observed{guard: present(g)}
	o.Observe(tell)
	return o
}

type observed struct {
	guard Guard
	observer
}

func (o *observed) Check(ctx context.Context, resource string, t Token) error {
	return o.note(ctx, resource, t, o.guard.Check(ctx, resource, t))
}

func (o *observed) CheckOnce(ctx context.Context, resource string, t Token) error {
	return o.note(ctx, resource, t, o.guard.CheckOnce(ctx, resource, t))
}

// observer is told of the checks of a guard.
type observer struct {
	tell atomic.Pointer[func(context.Context, Checked)]
}

// Observe has tell called after each check of this guard, whatever way it is made: Check,
// CheckOnce, those in one step with a write, in a transaction or in a script, and those of Handler,
// except what that refuses without asking the guard. tell runs on the goroutine of the check, which
// waits for it; it may use the guard. A later call replaces tell; nil ends it. It may be told only
// when what follows the check in one step is over.
func (o *observer) Observe(tell func(context.Context, Checked)) {
	if tell == nil {
		o.tell.Store(nil)
		return
	}
	o.tell.Store(&tell)
}

// note tells of a check and returns its error.
func (o *observer) note(ctx context.Context, resource string, t Token, err error) error {
	if tell := o.tell.Load(); tell != nil {
		if ctx == nil { // which is what err says
			ctx = context.Background()
		}
		(*tell)(ctx, Checked{resource, t, err})
	}
	return err
}
