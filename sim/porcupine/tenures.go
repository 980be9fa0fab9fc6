package porcupine

import (
	"cmp"
	"slices"

	"github.com/holdfast-go/holdfast/sim/internal/history"
)

// span is where in a history something happened, at one moment between the two.
type span struct{ call, ret int }

// tenure is one grant, as its caller and those who freed it by force saw it.
type tenure struct {
	asked history.Event
	token uint64
	grant span
	// ends are the calls that ended it, as far as they were answered, and the end that nobody
	// called, if it may have come before them: at some time after the grant, and before the next
	// one that excludes it is heard of. The second end changes nothing.
	ends []span
}

// tenures are all grants by their tokens. A call without a grant is left out: whatever it did is
// over again, and nobody saw it.
func tenures(h []history.Event) (all []*tenure) {
	asked, force := make(map[uint64]int), make(map[uint64]int) // by op
	release := make(map[uint64]int)
	of := make(map[uint64]*tenure)
	ends := func(token uint64, s span) {
		if t := of[token]; t != nil {
			t.ends = append(t.ends, s)
		}
	}
	for i, e := range h {
		switch e.Kind {
		case history.Asked:
			asked[e.Op] = i
		case history.Granted:
			t := &tenure{h[asked[e.Op]], e.Token, span{asked[e.Op], i}, nil}
			all = append(all, t)
			of[e.Token] = t
		case history.Release:
			release[e.Token] = i
		case history.Released:
			ends(e.Token, span{release[e.Token], i})
		case history.Force:
			force[e.Op] = i
		case history.Forced:
			if e.OK {
				ends(h[force[e.Op]].Token, span{force[e.Op], i})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b *tenure) int { return cmp.Compare(a.token, b.token) })
	narrow(all)
	denied := denials(h, all)
	for n, t := range all {
		end, called := span{t.grant.call, Never}, Never
		for _, s := range t.ends { // who is told that it freed a lock may have come too late: the end came by then
			end.ret, called = min(end.ret, s.ret), min(called, s.call)
		}
		at, early := denied[t.token]
		early = early && at < called
		for _, later := range all[n+1:] {
			if later.asked.Weight+t.asked.Weight > t.asked.Limit && t.meets(later) {
				early = early || later.grant.ret < called
				if later.asked.Weight == later.asked.Limit {
					end.ret = min(end.ret, later.grant.ret)
					break
				}
			}
		}
		if called == Never || early {
			t.ends = append(t.ends, end)
		}
	}
	return all
}

// denials are when each token was first said to be over: by who was asked for it, or by who told
// who holds one of its names, and has heard of a later one or was asked when it had been granted.
func denials(h []history.Event, all []*tenure) map[uint64]int {
	first := make(map[uint64]int)
	of := make(map[string][]*tenure)
	for _, t := range all {
		for _, name := range t.asked.Names() {
			of[name] = append(of[name], t)
		}
	}
	deny := func(token uint64, i int) {
		if _, ok := first[token]; !ok {
			first[token] = i
		}
	}
	for i, e := range h {
		tokens := e.Tokens
		switch e.Kind {
		case history.Verified:
			if !e.OK {
				deny(e.Token, i)
			}
			continue
		case history.Leads, history.Observed:
			tokens = []uint64{e.Token}
		case history.Looked:
			if tokens == nil {
				continue
			}
		default:
			continue
		}
		for _, t := range of[e.Lock] {
			later := slices.ContainsFunc(tokens, func(token uint64) bool { return token > t.token })
			if !slices.Contains(tokens, t.token) && (later || t.grant.ret < i) {
				deny(t.token, i)
			}
		}
	}
	return first
}

// narrow makes use of that tokens are given in the order of the grants, of all locks: a grant comes
// no earlier than those of lower tokens can, and no later than those of higher ones. It makes the
// search short.
func narrow(all []*tenure) {
	call, ret := 0, Never
	for _, t := range all {
		call = max(call, t.grant.call)
		t.grant.call = min(call, t.grant.ret)
	}
	for _, t := range slices.Backward(all) {
		ret = min(ret, t.grant.ret)
		t.grant.ret = max(ret, t.grant.call)
	}
}

// between is where the grant of a token can have been that nobody heard of.
func between(all []*tenure, token uint64) span {
	n, _ := slices.BinarySearchFunc(all, token, func(t *tenure, token uint64) int { return cmp.Compare(t.token, token) })
	s := span{0, Never}
	if n > 0 {
		s.call = all[n-1].grant.call
	}
	if n < len(all) {
		s.ret = all[n].grant.ret
	}
	return s
}

// meets says whether two tenures have a name in common.
func (t *tenure) meets(o *tenure) bool {
	return slices.ContainsFunc(t.asked.Names(), func(name string) bool { return slices.Contains(o.asked.Names(), name) })
}

// tokens are those of all tenures.
func tokens(all []*tenure) map[uint64]bool {
	known := make(map[uint64]bool)
	for _, t := range all {
		known[t.token] = true
	}
	return known
}

// answer is what somebody was told of who has a lock. Tokens that no caller of the history was
// granted are left out.
type answer struct {
	span
	lock   string
	tokens []uint64
}

// answers are all reads that tell who has a lock, and of the first answers to who observes it.
func answers(h []history.Event, all []*tenure) (list []answer) {
	known := tokens(all)
	begun := make(map[uint64]int)
	for i, e := range h {
		tokens := e.Tokens
		switch e.Kind {
		case history.Look, history.Who, history.Observing:
			begun[e.Op] = i
			continue
		case history.Leads, history.Observed:
			tokens = []uint64{}
			if e.Token != 0 {
				tokens = append(tokens, e.Token)
			}
		case history.Looked:
		default:
			continue
		}
		call, ok := begun[e.Op]
		if !ok || tokens == nil {
			continue
		}
		if e.Kind == history.Observed {
			delete(begun, e.Op) // what it is told later may be old
		}
		tokens = slices.DeleteFunc(slices.Clone(tokens), func(token uint64) bool { return !known[token] })
		slices.Sort(tokens)
		list = append(list, answer{span{call, i}, e.Lock, tokens})
	}
	return list
}
