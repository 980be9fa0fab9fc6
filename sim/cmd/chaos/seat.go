//go:build unix

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/history"
	"github.com/holdfast-go/holdfast/sim/cmd/chaos/report/story"
)

const (
	seat     = story.SeatLock
	pauseMax = 5 * time.Second // between a loss and the next campaign
)

// candidacy is one call of Lead, with all the tenures that come of it.
type candidacy struct {
	p        *process
	r        *rand.Rand
	deadline time.Duration
	label    uint64        // of all its campaigns; the number of the first
	op       uint64        // of the campaign under way; 0: none
	token    uint64        // of the last tenure
	since    time.Duration // the end of the last tenure; 0: there was none
}

// metadata is what the others are to know of the leader, from the moment of the grant on.
func (x *candidacy) metadata() string { return fmt.Sprint("leader ", x.label) }

// candidate campaigns for the seat again and again, with pauses in which there may be no other.
func (p *process) candidate(r *rand.Rand) {
	for {
		pause(r, 4*p.plan.TTL)
		if p.resting() {
			return
		}
		p.campaign(r)
	}
}

func (p *process) campaign(r *rand.Rand) {
	patience := p.plan.TTL + upTo(r, 6*p.plan.TTL)
	x := &candidacy{p: p, r: r, deadline: p.now() + patience}
	ctx, cancel := context.WithTimeout(p.rest, patience)
	defer cancel()
	if chance(r, 5) {
		err := p.c.Lead(ctx, seat, func(context.Context, *holdfast.Lease) error {
			p.wrong("a spectator leads")
			return nil
		}, holdfast.WithSpectator())
		p.understand(p.c, "watching an election", err)
		return
	}
	x.label = p.op()
	x.ask(p.now(), true)
	err := p.c.Lead(ctx, seat, x.lead, holdfast.WithValue([]byte(x.metadata())), holdfast.WithLabel(strconv.FormatUint(x.label, 10)))
	if err == nil && p.now() < x.since+p.plan.TTL/2 && p.c.Err() == nil { // else Lead may have left that to the background
		p.event(p.now(), history.Event{Kind: history.Released, Lock: seat, Token: x.token})
	}
	p.event(p.now(), history.Event{Kind: history.Refused, Op: x.op, Lock: seat, Cause: fmt.Sprint(err)})
	if err != nil {
		p.understand(p.c, "leading", err, holdfast.ErrHeld, holdfast.ErrLost)
	}
}

// ask tells that a campaign began, or may begin without another word.
func (x *candidacy) ask(from time.Duration, begins bool) {
	e := history.Event{
		Kind: history.Asked, Op: x.label, Lock: seat, Election: true, Wait: begins, Until: x.deadline, Weight: 1, Limit: 1, Value: x.metadata(),
	}
	if x.token != 0 {
		e.Op, e.Pause = x.p.op(), pauseMax
		e.Until = max(from, x.deadline) + x.p.plan.TTL // for so long Lead may try to release, also after its context
	}
	x.op = e.Op
	x.p.event(from, e)
}

// lead is one tenure: it looks at its lease, now and then writes what the others are to know, and resigns.
func (x *candidacy) lead(ctx context.Context, l *holdfast.Lease) error {
	p := x.p
	h := &holding{l: l, kind: kind{name: seat, limit: 1}, weight: 1}
	e := h.event(history.Granted)
	e.Op, x.op, x.token = x.op, 0, e.Token
	p.event(p.now(), e)
	for end := p.now() + upTo(x.r, p.plan.TTL); p.now() < end && ctx.Err() == nil && p.probe(h); {
		p.use(h, x.r)
		p.who()
		pause(x.r, 200*time.Millisecond)
	}
	if p.probe(h) {
		p.event(p.now(), h.event(history.Release))
	} else {
		x.told(ctx)
	}
	x.since = p.now()
	x.ask(x.since, h.over) // who finds that it has lost when it resigns campaigns again, too
	return nil
}

// told complains when a leader's function is not told that its leadership is over.
func (x *candidacy) told(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(failLimit):
		time.Sleep(failLimit / 5) // the process may have been stopped for longer than that
		if ctx.Err() == nil {
			x.p.wrong("the context of a leader's function goes on %v after the end of the leadership", failLimit)
		}
	}
}

// observe is told who leads, again and again, until ctx or the node ends.
func (p *process) observe(ctx context.Context, r *rand.Rand) {
	for ctx.Err() == nil && p.c.Err() == nil {
		until, cancel := context.WithTimeout(ctx, p.plan.TTL+upTo(r, 20*p.plan.TTL))
		e := history.Event{Kind: history.Observing, Op: p.op(), Lock: seat}
		p.event(p.now(), e)
		for l, err := range p.c.Observe(until, seat) {
			if err != nil {
				p.understand(p.c, "observing", err)
				break
			}
			e.Kind, e.Token, e.Value = history.Observed, uint64(l.Token), string(l.Value)
			p.event(p.now(), e)
		}
		cancel()
		p.event(p.now(), history.Event{Kind: history.Unheard, Op: e.Op, Lock: seat})
		pause(r, 200*time.Millisecond)
	}
}
