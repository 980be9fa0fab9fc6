package porcupine

import (
	"cmp"
	"slices"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-go/holdfast/sim/internal/history"
)

// taken, freed, verified and listed are what can happen to a lock.
type (
	taken struct {
		token         uint64
		weight, limit int
	}
	freed    struct{ token uint64 } // released, or ended by the group; the second time changes nothing
	verified struct {
		token   uint64
		current bool
	}
	listed []uint64 // the tokens that hold it
)

// operations lists what is known of each lock that is held by weight: an exclusive one, whose holder
// weighs as much as the limit, a shared one, permits. A set is one grant of each of its names; that
// it is had whole at one moment is for sim/internal/history to say.
func operations(h []history.Event) map[string][]porcupine.Operation {
	ops := make(map[string][]porcupine.Operation)
	add := func(lock string, s span, what any) {
		id := len(ops[lock])
		ops[lock] = append(ops[lock], porcupine.Operation{ClientId: id, Input: what, Call: int64(s.call), Return: int64(s.ret)})
	}
	all := tenures(h)
	for _, t := range all {
		for _, name := range t.asked.Names() {
			add(name, t.grant, taken{t.token, t.asked.Weight, t.asked.Limit})
			for _, s := range t.ends {
				add(name, s, freed{t.token})
			}
		}
	}
	begun, known := make(map[uint64]int), tokens(all)
	for i, e := range h {
		switch {
		case e.Kind == history.Verify:
			begun[e.Op] = i
		case e.Kind == history.Verified && known[e.Token]: // of another grant its holder's process did not live to tell
			add(e.Lock, span{begun[e.Op], i}, verified{e.Token, e.OK})
		}
	}
	for _, a := range answers(h, known) {
		add(a.lock, a.span, listed(a.tokens))
	}
	return ops
}

type lockState struct {
	highest uint64
	holders []taken
}

func (s lockState) tokens() (tokens []uint64) {
	for _, h := range s.holders {
		tokens = append(tokens, h.token)
	}
	return tokens
}

// step grants to who fits and only with a higher token; tells of tokens what is true; and never
// frees a token that was not granted.
func (s lockState) step(what any) (lockState, bool) {
	switch op := what.(type) {
	case taken:
		sum := op.weight
		for _, h := range s.holders {
			sum += h.weight
		}
		return lockState{op.token, append(slices.Clone(s.holders), op)}, op.token > s.highest && sum <= op.limit
	case freed:
		if op.token > s.highest {
			return s, false
		}
		rest := slices.DeleteFunc(slices.Clone(s.holders), func(h taken) bool { return h.token == op.token })
		return lockState{s.highest, rest}, true
	case verified:
		return s, slices.Contains(s.tokens(), op.token) == op.current
	case listed:
		return s, slices.Equal(s.tokens(), op)
	}
	return s, false
}

type span struct{ call, ret int }

type tenure struct {
	asked history.Event
	token uint64
	grant span
	// ends are the calls that ended it, as far as they were answered, and an end that nobody called:
	// at some time after the grant, by the answer to those, and before the next grant that excludes
	// all others is heard of. The second end changes nothing.
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
	for n, t := range all {
		end := span{t.grant.call, never}
		for _, s := range t.ends { // who is told that it freed a lock may have come too late: the end came by then
			end.ret = min(end.ret, s.ret)
		}
		for _, later := range all[n+1:] {
			if later.asked.Weight == later.asked.Limit && t.meets(later) {
				end.ret = min(end.ret, later.grant.ret)
				break
			}
		}
		t.ends = append(t.ends, end)
	}
	return all
}

// narrow makes use of that tokens are given in the order of the grants, of all locks: a grant comes
// no earlier than those of lower tokens can, and no later than those of higher ones. It makes the
// search short.
func narrow(all []*tenure) {
	call, ret := 0, never
	for _, t := range all {
		call = max(call, t.grant.call)
		t.grant.call = min(call, t.grant.ret)
	}
	for _, t := range slices.Backward(all) {
		ret = min(ret, t.grant.ret)
		t.grant.ret = max(ret, t.grant.call)
	}
}

func (t *tenure) meets(o *tenure) bool {
	return slices.ContainsFunc(t.asked.Names(), func(name string) bool { return slices.Contains(o.asked.Names(), name) })
}

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
func answers(h []history.Event, known map[uint64]bool) (list []answer) {
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
