package fence

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
)

// Checked is one check of a token by a guard, admitted or not.
type Checked struct {
	Resource string // of Rows: the key, formatted by fmt.Sprint
	Token    Token
	Err      error // of the check, never of the work after it; nil: admitted
}

// Stale reports whether a higher token was seen, or for CheckOnce the same one.
func (c Checked) Stale() bool { return errors.Is(c.Err, ErrStale) }

// Observed is g with tell called after each Check and CheckOnce, on the goroutine of the check,
// which waits for it. It is for guards of other packages, and for the results of Once, Plausible
// and Logged. The guards of this package also check in ways such as Do and CheckTx, which their own
// Observe reports and Observed does not. With both, tell is called twice for a check.
func Observed(g Guard, tell func(context.Context, Checked)) Guard {
	o := &observer{}
	o.Observe(tell)
	return guardFunc(func(ctx context.Context, resource string, t Token, once bool) error {
		return o.note(ctx, resource, t, ask(ctx, g, resource, t, once))
	})
}

// observer reports the checks of a guard.
type observer struct {
	tell atomic.Pointer[func(context.Context, Checked)]
}

// Observe has tell called after each check of this guard: Check, CheckOnce, those in one step with
// a write, in a transaction or in a script, and those of Handler that reach the guard. tell runs on
// the goroutine of the check, which waits for it; it may use the guard. A check in one step with
// other work is reported after that work. One in a transaction of the caller is reported within it:
// there a tell that uses the guard waits for a second connection and for the row that the
// transaction has locked. A later call replaces tell; nil ends the reports.
func (o *observer) Observe(tell func(context.Context, Checked)) {
	if tell == nil {
		o.tell.Store(nil)
		return
	}
	o.tell.Store(&tell)
}

// note reports a check and returns its error.
func (o *observer) note(ctx context.Context, resource string, t Token, err error) error {
	if tell := o.tell.Load(); tell != nil {
		if ctx == nil { // err says so
			ctx = context.Background()
		}
		(*tell)(ctx, Checked{resource, t, err})
	}
	return err
}

// Logged is g with a log: a stale token is a warning (a holder was too late), a failure of g an
// error. Admitted tokens are not logged. A nil log is slog.Default().
func Logged(g Guard, log *slog.Logger) Guard {
	if log == nil {
		log = slog.Default()
	}
	return guardFunc(func(ctx context.Context, resource string, t Token, once bool) error {
		err := ask(ctx, g, resource, t, once)
		var stale *StaleError
		switch {
		case errors.As(err, &stale):
			log.WarnContext(ctx, "stale fencing token refused", "resource", resource, "token", t, "highest", stale.Highest)
		case err != nil:
			log.ErrorContext(ctx, "fencing guard failed", "resource", resource, "token", t, "error", err)
		}
		return err
	})
}
