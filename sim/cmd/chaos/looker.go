//go:build unix

package main

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/history"
)

// forceReason is what an operator says, which everybody is told.
const forceReason = "an operator wants it"

// watch looks at the locks, and asks about the tokens of their holders, until the callers rest.
func (p *process) watch(r *rand.Rand) {
	for {
		pause(r, time.Second)
		if p.resting() {
			return
		}
		all := append(kinds(), longs(p.plan.Long)...)
		k := all[r.IntN(len(all))]
		if k.set {
			p.lookAtAll(setPrefix, setNames())
		} else {
			p.look(r, k.name)
			p.why(k)
		}
		if token := p.who(); token != 0 && chance(r, 5) {
			p.force(seat, token)
		}
	}
}

// look asks who has a lock and who waits, and then whether that was true. Now and then it is an operator who does not
// like what is seen.
func (p *process) look(r *rand.Rand, name string) {
	e := history.Event{Kind: history.Look, Op: p.op(), Lock: name}
	p.event(p.now(), e)
	info, err := p.c.Inspect(within(callLimit), name)
	if err != nil {
		p.understand(p.c, "inspecting", err)
		return
	}
	p.event(p.now(), looked(e, info))
	for _, past := range info.Past {
		if slices.ContainsFunc(info.Holders, func(h holdfast.Holder) bool { return h.Token == past.Token }) {
			p.wrong("token %d holds %q and stands among the grants that are over: %+v", past.Token, name, past)
		}
	}
	for _, holder := range info.Holders {
		p.verify(name, uint64(holder.Token))
		if chance(r, 8) {
			p.force(name, holder.Token)
		}
	}
}

// why asks why a lock cannot be had. Nobody here holds one lock while it waits for another, and nobody asks for
// more time than the TTL or a rest.
func (p *process) why(k kind) {
	b, err := p.c.WhyBlocked(within(callLimit), k.name)
	if err != nil {
		p.understand(p.c, "asking why", err)
		return
	}
	long := slices.ContainsFunc(b.Holders, func(h holdfast.Hold) bool { return h.Remaining > max(k.ttl, p.plan.TTL) }) ||
		slices.ContainsFunc(b.Rests, func(r holdfast.Rest) bool { return r.Remaining > restTime+time.Millisecond })
	if long || len(b.Cycles) > 0 {
		p.wrong("%q is said to be blocked by what cannot be: %+v", k.name, b)
	}
}

// force frees a lock against the will of its holder.
func (p *process) force(name string, token holdfast.Token) {
	e := history.Event{Kind: history.Force, Op: p.op(), Lock: name, Token: uint64(token)}
	p.event(p.now(), e)
	err := p.c.ForceRelease(within(callLimit), name, token, forceReason)
	if err != nil {
		p.understand(p.c, "freeing a lock by force", err, holdfast.ErrStaleToken)
	}
	e.Kind, e.OK = history.Forced, err == nil
	p.event(p.now(), e)
}

// looked is the answer to a look.
func looked(e history.Event, info holdfast.LockInfo) history.Event {
	e.Kind, e.Value, e.Tokens, e.Queue = history.Looked, string(info.Value), []uint64{}, nil
	for _, h := range info.Holders {
		e.Tokens = append(e.Tokens, uint64(h.Token))
	}
	for _, w := range info.Waiters {
		if op := opOf(w); op != 0 { // else a call without a number: orderDrain
			e.Queue = append(e.Queue, op)
		}
	}
	return e
}

// opOf is the number of the call of who holds or waits; 0: it has none.
func opOf(h holdfast.Holder) uint64 {
	op, err := strconv.ParseUint(h.Label, 10, 64)
	if err != nil {
		return 0
	}
	return op
}

// lookAtAll asks about all locks of a prefix at one moment.
func (p *process) lookAtAll(prefix string, names []string) {
	e := history.Event{Kind: history.Look, Op: p.op(), Lock: prefix}
	p.event(p.now(), e)
	infos := make(map[string]holdfast.LockInfo)
	for info, err := range p.c.Locks(within(callLimit), prefix) {
		if err != nil {
			p.understand(p.c, "listing", err)
			return
		}
		infos[info.Name] = info
	}
	from := p.now()
	for _, name := range names {
		e.Lock = name
		p.event(from, looked(e, infos[name]))
	}
}

// who asks who leads, and answers the token.
func (p *process) who() holdfast.Token {
	e := history.Event{Kind: history.Who, Op: p.op(), Lock: seat}
	p.event(p.now(), e)
	l, err := p.c.Leader(within(callLimit), seat)
	if err != nil && !errors.Is(err, holdfast.ErrNoLeader) {
		p.understand(p.c, "asking for the leader", err)
		return 0
	}
	e.Kind, e.Token, e.Value = history.Leads, uint64(l.Token), string(l.Value)
	p.event(p.now(), e)
	return l.Token
}
