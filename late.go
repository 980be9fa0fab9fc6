package holdfast

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/internal/retry"
	"github.com/holdfast-go/holdfast/internal/session"
)

// lateSaid is the answer in a row that is late of which the log tells. The first may have waited for a
// majority. Where the next ones are late as well, the TTL is too short for the group, and each lap takes a
// lock and gives it back.
const lateSaid = 3

// errAgain: the session or the request ended without a result, and a new request may succeed.
var errAgain = errors.New("holdfast: again with a new request")

// lateError is errAgain where the answer of the group came after the end of the lease that it granted, or
// of the session in which it queued the call.
type lateError struct{ ttl, took time.Duration }

func (e *lateError) Error() string {
	return fmt.Sprintf("%v: a lease with a TTL of %v was over when the answer of the group came, after %v",
		ErrExpired, e.ttl, e.took)
}

// Is reports whether target is errAgain, or ErrExpired.
func (e *lateError) Is(target error) bool { return target == errAgain || target == ErrExpired }

// overBy is why a call must try again whose session or request was over when its answer came.
func (c *Cluster) overBy(call session.Call, o options) error {
	if !errors.Is(call.Session.Ended(), ErrExpired) {
		return errAgain
	}
	return &lateError{o.ttl, time.Duration(c.clock.Now() - o.sent)}
}

// laps are the attempts of one call that ended without a result.
type laps struct {
	of   string // the lock or the key
	late int    // in a row
	last *lateError
}

// next pauses before the next attempt, for longer after each late answer. It returns why there is none.
func (l *laps) next(ctx context.Context, c *Cluster, err error) error {
	late, ok := errors.AsType[*lateError](err)
	l.late, l.last = l.late+1, late
	if !ok {
		l.late = 0
	}
	if l.late == lateSaid {
		c.log.Warn("a call gets no lease: the answers of the group take longer than its TTL",
			"name", l.of, "ttl", late.ttl.String(), "took", late.took.String())
	}
	return l.explain(c.sleep(ctx, retry.Pause(l.late, rand.Float64())))
}

// explain adds the late answer before it to the error that a call ends with because its context does.
func (l *laps) explain(err error) error {
	if l.last == nil || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("%w; before: %w", err, l.last)
}
