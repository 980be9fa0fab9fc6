//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/history"
	"github.com/holdfast-go/holdfast/sim/cmd/chaos/report/story"
)

// failLimit is how long a node may take to end that answers that it has failed.
const failLimit = 5 * time.Second

func chance(r *rand.Rand, percent int) bool { return r.IntN(100) < percent }

func pause(r *rand.Rand, max time.Duration) { time.Sleep(time.Millisecond + upTo(r, max)) }

// upTo is a random time up to max.
func upTo(r *rand.Rand, max time.Duration) time.Duration { return time.Duration(r.Int64N(int64(max))) }

// op numbers a call: no other process and no other life of this one uses the number.
func (p *process) op() uint64 {
	return uint64(p.plan.Node+1)<<48 | uint64(p.plan.Life)<<32 | p.ops.Add(1)
}

// caller asks for locks and holds them, again and again.
func (p *process) caller(r *rand.Rand) {
	for {
		pause(r, 250*time.Millisecond)
		if p.resting() {
			return
		}
		all := kinds()
		p.call(all[r.IntN(len(all))], r)
	}
}

// holding is a lease and how it was asked for.
type holding struct {
	l      *holdfast.Lease
	kind   kind
	others []string // further names of a set
	weight int
	manual bool
	capped bool // by WithMaxHold, which Remaining does not know of
	over   bool // and that was told
}

// event begins an event about the lease.
func (h *holding) event(k history.Kind) history.Event {
	return history.Event{Kind: k, Lock: h.kind.name, Token: uint64(h.l.Token())}
}

// terms chooses how to ask for a lock: whether it is renewed by hand, has a maximum hold time, and how much of it.
func (p *process) terms(h *holding, r *rand.Rand) []holdfast.Option {
	switch h.kind.name {
	case story.LedgerLock, story.CheckpointLock: // whose stopped holders are to lose their leases in the ordinary way
	default:
		h.manual, h.capped = chance(r, 10), chance(r, 10)
	}
	capMax := 2 * p.plan.TTL
	if h.kind.delay > 0 { // many are to be lost
		h.capped, capMax = chance(r, 40), p.plan.TTL/4
		h.manual = !h.capped && chance(r, 40)
	}
	if h.kind.ttl > 0 {
		h.manual, h.capped = chance(r, 40), false
	}
	h.weight = h.kind.weigh(r)
	opts := h.kind.options(h.weight)
	if h.manual {
		opts = append(opts, holdfast.WithManualRenew())
	}
	if h.capped {
		opts = append(opts, holdfast.WithMaxHold(time.Millisecond+upTo(r, capMax)))
	}
	return opts
}

func (p *process) call(k kind, r *rand.Rand) {
	h := &holding{kind: k}
	op := p.op()
	opts := append(p.terms(h, r), holdfast.WithLabel(strconv.FormatUint(op, 10)))
	patience := 50*time.Millisecond + upTo(r, 4*p.plan.TTL)
	if k.ttl > 0 {
		patience = upTo(r, longPatience)
	}
	ctx, cancel := context.WithTimeout(p.rest, patience)
	defer cancel()
	ask, wait := p.c.Acquire, chance(r, 80)
	switch {
	case h.kind.set && chance(r, 60):
		h.others, wait = others(r, h.kind.name), true
		ask = func(ctx context.Context, name string, opts ...holdfast.Option) (*holdfast.Lease, error) {
			return p.c.AcquireAll(ctx, append([]string{name}, h.others...), opts...)
		}
	case !wait:
		ask = p.c.TryAcquire
	}
	e := history.Event{Kind: history.Asked, Op: op, Lock: h.kind.name}
	asked := e
	from := p.now()
	asked.Wait, asked.Until, asked.Weight, asked.Limit = wait, from+patience, h.weight, h.kind.limit
	asked.Others, asked.MinHold, asked.LockDelay, asked.TTL = h.others, h.kind.minHold, h.kind.delay, h.kind.ttl
	p.event(from, asked)
	l, err := ask(ctx, h.kind.name, opts...)
	if err != nil {
		e.Kind, e.Cause = history.Refused, err.Error()
		p.event(p.now(), e)
		p.understand(p.c, "acquiring", err, holdfast.ErrHeld)
		return
	}
	h.l = l
	e.Kind, e.Token = history.Granted, uint64(l.Token())
	p.event(p.now(), e)
	p.hold(h, r)
}

// understand complains about errors that no caller expects when processes die, disks move and networks break.
func (p *process) understand(c *holdfast.Cluster, what string, err error, also ...error) {
	for _, allowed := range append(also, holdfast.ErrNoQuorum, holdfast.ErrClosed, holdfast.ErrRemoved, holdfast.ErrIncompatible, context.Canceled, context.DeadlineExceeded) {
		if errors.Is(err, allowed) {
			return
		}
	}
	select {
	case <-c.Done(): // it has failed, which is told
	case <-time.After(failLimit):
		p.wrong("%s answered %v", what, err)
	}
}

// hold does what holders do, and releases the lease.
func (p *process) hold(h *holding, r *rand.Rand) {
	if !p.probe(h) {
		return
	}
	switch h.kind.name {
	case story.LedgerLock:
		p.book(h, r)
	case story.CheckpointLock:
		p.checkpoint(h, r)
	default:
		long, stride := p.plan.TTL/8, 100*time.Millisecond
		switch {
		case h.abandoned():
			long = 4 * p.plan.TTL
		case h.kind.ttl > 0:
			long, stride = longHold, time.Second
		case chance(r, 25) || h.capped:
			long = p.plan.TTL
		}
		for end := p.now() + upTo(r, long); p.now() < end; {
			pause(r, stride)
			if !p.probe(h) || p.resting() {
				break
			}
			if !h.abandoned() {
				p.use(h, r)
			}
		}
	}
	p.release(h)
}

// probe looks at a lease; false: it is over, which is told once.
func (p *process) probe(h *holding) bool {
	from := p.now()
	if left := h.l.Remaining(); h.l.Valid() {
		e := h.event(history.Held)
		if !h.capped {
			e.Remaining = left
		}
		p.event(from, e)
		return true
	}
	if !h.over {
		h.over = true
		e := h.event(history.Ended)
		e.Cause = cause(h)
		p.event(from, e)
	}
	return false
}

func cause(h *holding) string {
	err := h.l.Err()
	switch {
	case errors.Is(err, holdfast.ErrReleased):
		return history.CauseReleased
	case err == nil || !errors.Is(err, holdfast.ErrExpired) || strings.Contains(err.Error(), "this node"):
		return fmt.Sprint(err) // it may be because of a newer process, or because the node was removed
	case h.manual:
		return history.CauseLapsed
	}
	return history.CauseExpired
}

// abandoned says whether the holder leaves its lease to end by itself.
func (h *holding) abandoned() bool { return h.kind.delay > 0 && h.manual }

func (p *process) release(h *holding) {
	valid := p.probe(h)
	if valid {
		p.event(p.now(), h.event(history.Release))
	}
	if err := h.l.Release(within(callLimit)); err != nil {
		p.understand(p.c, "releasing", err, holdfast.ErrLost)
	} else if valid {
		p.event(p.now(), h.event(history.Released))
	}
}

// use does one of the things that a holder can do.
func (p *process) use(h *holding, r *rand.Rand) {
	switch what := r.IntN(10); {
	case what < 2 && h.weight == h.kind.limit:
		op := p.op()
		_ = p.set(h, op, fmt.Sprint("value ", op))
	case what < 4:
		names := append([]string{h.kind.name}, h.others...)
		p.verify(names[r.IntN(len(names))], uint64(h.l.Token()))
	case what < 5 || h.manual && what < 9:
		if err := h.l.Renew(within(callLimit)); err != nil {
			p.understand(p.c, "renewing", err, holdfast.ErrLost, holdfast.ErrReleased)
		}
	}
}

// set writes the lock's value; every value is written once at most.
func (p *process) set(h *holding, op uint64, value string) error {
	e := h.event(history.Set)
	e.Op, e.Value = op, value
	p.event(p.now(), e)
	err := h.l.Set(within(callLimit), []byte(value))
	if err != nil {
		p.understand(p.c, "setting a value", err, holdfast.ErrLost)
	}
	e.Kind, e.OK = history.Done, err == nil
	p.event(p.now(), e)
	return err
}

// verify asks the group whether a token is current.
func (p *process) verify(lock string, token uint64) {
	e := history.Event{Kind: history.Verify, Op: p.op(), Lock: lock, Token: token}
	p.event(p.now(), e)
	err := p.c.Verify(within(callLimit), lock, holdfast.Token(token))
	if err != nil {
		p.understand(p.c, "verifying", err, holdfast.ErrStaleToken)
	}
	if err == nil || errors.Is(err, holdfast.ErrStaleToken) {
		e.Kind, e.OK = history.Verified, err == nil
		p.event(p.now(), e)
	}
}
