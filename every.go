package holdfast

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/internal/retry"
	"github.com/holdfast-go/holdfast/internal/seam"
	"github.com/holdfast-go/holdfast/internal/sparse"
)

// PeriodMin is the shortest period of Every.
const PeriodMin = 100 * time.Millisecond

const (
	clockLook   = 10 * time.Second // how long a step of the wall clock goes unnoticed
	repeatPause = time.Second      // the first pause before a run that has failed is repeated; it doubles
)

// Every runs fn once a period in the whole fleet, on the instants of a schedule: the multiples of
// every since the Unix epoch, which are called slots (24 h is each midnight UTC). Each process that
// may run the job calls Every; they stand for the election job, as in Lead, and the leader runs the
// slots one after the other. every is 100 ms or more. ctx of fn ends with the leadership or with
// ctx; l is the leadership, whose token fn gives to what it writes to.
//
// The leader records the last slot in the value of the lock job (Set) after fn has returned nil, also
// if ctx has ended meanwhile: a function that stops early returns context.Cause of its context. So a
// new leader and a fleet that was restarted on its data directories go on after that slot:
//
//   - A slot whose run succeeded and was recorded is never run again.
//   - A slot whose leader dies, loses its lease, or stops and returns an error during the run stays
//     open. The next leader runs it again, with a higher token, unless a later slot has come.
//   - Of several slots that were missed the latest is run at once, late, and the older ones are
//     skipped. A job without a record has missed nothing: it starts at the next slot.
//   - If a run takes longer than a period, the leader logs a warning when the next slot comes. After
//     the run it goes on as after missed slots. Two runs never overlap under one leader.
//   - If fn returns an error, the leader logs it as a warning and repeats the run, until it succeeds
//     or the next slot comes, after pauses that double from a second up to an eighth of the period.
//     The next slot ends a pause. A function that is not to be repeated returns nil.
//   - If the slot cannot be read or recorded, for want of a majority or since a quota or a bound has no
//     room for it (ErrExhausted), the job stands still. The leader repeats that, and logs a warning each
//     minute.
//
// Slots go by the wall clock of the leader, which may step. A leader whose clock is fast runs slots
// early. If the recorded slot lies ahead by more than a period, this clock or that of an earlier
// leader is wrong: the leader logs a warning, lets the next candidate lead and stands again later.
// Acquire of job with WithValue(nil) makes the job forget its record.
//
// Every returns as Lead does: when ctx ends, with the error of ctx or of fn, when the node stops,
// and for ErrInvalid and ErrLimitMismatch. Without a majority it returns up to a TTL after fn. A value
// of the lock that is no slot is ErrInvalid. It takes the options of its column in docs/guarantees.md.
func (c *Cluster) Every(ctx context.Context, job string, every time.Duration,
	fn func(ctx context.Context, slot time.Time, l *Lease) error, opts ...Option,
) error {
	switch {
	case fn == nil:
		return invalid("fn", "is nil")
	case every < PeriodMin:
		return invalid("every", "%v is less than %v", every, PeriodMin)
	}
	o, err := c.candidate(ctx, callEvery, job, opts)
	if err != nil {
		return err
	}
	p := periodic{c: c, job: job, every: every, fn: fn, lines: sparse.Lines{Most: 1, Period: time.Minute}}
	for {
		err := c.lead(ctx, job, p.tenure, o)
		early, ok := errors.AsType[*earlyError](err)
		if !ok {
			return err
		}
		if err := c.sleep(ctx, min(early.by, time.Minute)); err != nil {
			return err
		}
	}
}

// periodic is a job of Every on one node.
type periodic struct {
	c     *Cluster
	job   string
	every time.Duration
	fn    func(context.Context, time.Time, *Lease) error
	lines sparse.Lines // about its record
}

// earlyError ends a tenure whose clock is too far behind the recorded slot.
type earlyError struct{ by time.Duration }

func (e *earlyError) Error() string {
	return "holdfast: the recorded slot lies ahead by " + e.by.String()
}

// tenure runs the slots while this node leads.
func (p *periodic) tenure(ctx context.Context, l *Lease) error {
	last, err := p.recorded(ctx, l)
	if err != nil {
		return err
	}
	tried := last
	backoff := retry.Backoff{First: repeatPause, Max: p.every / 8}
	for failures := 0; ; {
		slot, err := p.next(ctx, last)
		if err != nil {
			return err
		}
		if skipped := int64(slot.Sub(tried)/p.every) - 1; skipped > 0 {
			p.c.log.Warn("slots of a job were skipped", "job", p.job, "skipped", skipped, "after", tried, "slot", slot)
		}
		if !slot.Equal(tried) {
			failures = 0
		}
		tried = slot
		switch err := p.run(ctx, l, slot); {
		case err == nil:
			if err := p.record(ctx, l, slot); err != nil {
				return err
			}
			last = slot
		case ctx.Err() != nil: // the slot stays open
			return err
		default:
			p.c.log.Warn("a run of a job has failed", "job", p.job, "slot", slot, "error", err)
			failures++
			if err := p.rest(ctx, slot, backoff.Pause(failures, 1)); err != nil {
				return err
			}
		}
	}
}

// recorded returns the last slot of the job. The first leader of a job records the present slot: if
// it dies in its first run, the next leader knows that a slot was missed.
func (p *periodic) recorded(ctx context.Context, l *Lease) (last time.Time, err error) {
	var state electionState
	err = p.insist(ctx, func() (err error) {
		state, err = p.c.readElection(ctx, seam.Committed, p.job)
		return err
	})
	if err != nil {
		return last, err
	}
	if len(state.value) == 0 {
		last = floor(p.c.clock.Wall(), p.every)
		return last, p.record(ctx, l, last)
	}
	if err := last.UnmarshalText(state.value); err != nil {
		return last, invalid("job", "the value of the lock %q is no slot of Every: %v", p.job, err)
	}
	return last, nil
}

// next waits until a slot after last has come, and returns the latest.
func (p *periodic) next(ctx context.Context, last time.Time) (time.Time, error) {
	for {
		now := p.c.clock.Wall()
		if by := last.Sub(now.Add(p.every)); by > 0 { // Sub is bounded: last may be ages ago
			p.c.log.Warn("the recorded slot of a job lies ahead of this node's clock", "job", p.job, "slot", last, "now", now)
			return last, &earlyError{by}
		}
		if slot := floor(now, p.every); slot.After(last) {
			return slot, ctx.Err()
		}
		next := floor(last, p.every).Add(p.every)
		if err := p.c.sleep(ctx, min(next.Sub(now), clockLook)); err != nil {
			return last, err
		}
	}
}

// rest waits for d after a run of a slot that has failed, or until the next slot if that comes first. The
// timers of Go stand still while a machine is suspended, so it looks at the clocks as often as next does.
func (p *periodic) rest(ctx context.Context, slot time.Time, d time.Duration) error {
	for over := p.c.clock.Now().Add(d); ; {
		left := min(time.Duration(over-p.c.clock.Now()), slot.Add(p.every).Sub(p.c.clock.Wall()))
		if left <= 0 {
			return ctx.Err()
		}
		if err := p.c.sleep(ctx, min(left, clockLook)); err != nil {
			return err
		}
	}
}

// run calls fn for a slot.
func (p *periodic) run(ctx context.Context, l *Lease, slot time.Time) (err error) {
	ctx, span := p.c.hooks.begin(ctx, l.span(SpanRun))
	err = errNotReturned
	defer func() { span.over(l.Token(), err) }()
	late := time.AfterFunc(slot.Add(p.every).Sub(p.c.clock.Wall()), func() {
		p.c.log.Warn("a run of a job goes on past its next slot", "job", p.job, "slot", slot, "token", l.Token())
	})
	defer late.Stop()
	err = p.fn(ctx, slot, l)
	return err
}

// record writes the last slot for the leaders that follow, also after the end of ctx.
func (p *periodic) record(ctx context.Context, l *Lease, slot time.Time) error {
	text, err := slot.MarshalText()
	if err != nil {
		return invalid("every", "%v", err)
	}
	return p.insist(ctx, func() error { return l.Set(l.Context(), text) })
}

// insist repeats f until it succeeds or ctx ends. The job stands still meanwhile.
func (p *periodic) insist(ctx context.Context, f func() error) error {
	backoff := retry.Backoff{First: campaignPause, Max: campaignPauseMax}
	began := time.Now()
	for attempt := 1; ; attempt++ {
		err := f()
		if err != nil && time.Since(began) > campaignPauseMax && ctx.Err() == nil {
			if _, ok := p.lines.Take(time.Now()); ok {
				p.c.log.Warn("a job stands still: its slot cannot be read or recorded", "job", p.job, "error", err)
			}
		}
		if err == nil || p.c.sleep(ctx, backoff.Pause(attempt, rand.Float64())) != nil {
			return err
		}
	}
}

// floor is the latest multiple of every since the Unix epoch that is not after at.
func floor(at time.Time, every time.Duration) time.Time {
	nanos := at.UnixNano()
	rest := nanos % int64(every)
	if rest < 0 {
		rest += int64(every)
	}
	return time.Unix(0, nanos-rest).UTC()
}
