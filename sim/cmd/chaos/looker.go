//go:build unix

package main

import (
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/history"
)

// watch looks at the locks, and asks about the tokens of their holders, until the callers rest.
func (p *process) watch(r *rand.Rand) {
	for {
		pause(r, time.Second)
		if p.resting() {
			return
		}
		k := kinds()[r.IntN(len(kinds()))]
		if k.set {
			p.lookAtAll(setPrefix, setNames())
		} else {
			p.look(k.name)
		}
		p.who()
	}
}

// look asks who has a lock and who waits, and then whether that was true.
func (p *process) look(name string) {
	e := history.Event{Kind: history.Look, Op: p.op(), Lock: name}
	p.event(p.now(), e)
	info, err := p.c.Inspect(within(callLimit), name)
	if err != nil {
		p.understand(p.c, "inspecting", err)
		return
	}
	p.event(p.now(), looked(e, info))
	for _, holder := range info.Holders {
		p.verify(name, uint64(holder.Token))
	}
}

// looked is the answer to a look.
func looked(e history.Event, info holdfast.LockInfo) history.Event {
	e.Kind, e.Value, e.Tokens, e.Queue = history.Looked, string(info.Value), []uint64{}, nil
	for _, h := range info.Holders {
		e.Tokens = append(e.Tokens, uint64(h.Token))
	}
	for _, w := range info.Waiters {
		if op := opOf(w); op != 0 { // else a call without a number: orderDrain, a candidate
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
