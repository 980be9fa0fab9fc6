package porcupine

import (
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/sim/internal/history"
)

// Locks are all locks that are held by weight: exclusive ones, whose holder weighs as much as the
// limit, shared ones and permits; a set is one grant of each of its names.
type Locks struct{}

// Name is for people.
func (Locks) Name() string { return "lock" }

// Init is a free lock without a past.
func (Locks) Init() State { return lockState{} }

// taken, freed, verified and listed are what can happen to a lock, or to several that sets join.
type (
	taken struct {
		token         uint64
		weight, limit int
		names         []string
	}
	freed    struct{ token uint64 } // released, or ended by the group; the second time changes nothing
	verified struct {
		name    string
		token   uint64
		current bool
	}
	listed map[string][]uint64 // the holders of some names, at one moment
)

// Ops lists what is known of each lock.
func (Locks) Ops(h []history.Event) map[string][]Op {
	ops := make(map[string][]Op)
	all := tenures(h)
	for _, t := range all {
		for _, name := range t.asked.Names() {
			ops[name] = append(ops[name], Op{t.grant.call, t.grant.ret, taken{t.token, t.asked.Weight, t.asked.Limit, []string{name}}})
			for _, s := range t.ends {
				ops[name] = append(ops[name], Op{s.call, s.ret, freed{t.token}})
			}
		}
	}
	for _, v := range verdicts(h, all) {
		ops[v.name] = append(ops[v.name], Op{v.call, v.ret, v.verified})
	}
	for _, a := range answers(h, all) {
		ops[a.lock] = append(ops[a.lock], Op{a.call, a.ret, listed{a.lock: a.tokens}})
	}
	return ops
}

// verdict is what somebody was told of a token.
type verdict struct {
	span
	verified
}

// verdicts are all answers about tokens that a caller of the history was granted: of another grant
// its holder's process did not live to tell.
func verdicts(h []history.Event, all []*tenure) (list []verdict) {
	begun := make(map[uint64]int)
	known := tokens(all)
	for i, e := range h {
		switch {
		case e.Kind == history.Verify:
			begun[e.Op] = i
		case e.Kind == history.Verified && known[e.Token]:
			list = append(list, verdict{span{begun[e.Op], i}, verified{e.Lock, e.Token, e.OK}})
		}
	}
	return list
}

// lockState is a lock, or several: who has what, and the highest token.
type lockState struct {
	highest uint64
	holders []taken
}

// Key tells states apart.
func (s lockState) Key() string { return fmt.Sprint(s.highest, s.holders) }

// of are the tokens that hold a name, the lowest first.
func (s lockState) of(name string) (tokens []uint64) {
	for _, h := range s.holders {
		if slices.Contains(h.names, name) {
			tokens = append(tokens, h.token)
		}
	}
	return tokens
}

// Step grants to who fits and only with a higher token; tells of tokens what is true; and never
// frees a token that was not granted.
func (s lockState) Step(what any) (State, bool) {
	switch op := what.(type) {
	case taken:
		for _, name := range op.names {
			sum := op.weight
			for _, h := range s.holders {
				if slices.Contains(h.names, name) {
					sum += h.weight
				}
			}
			if sum > op.limit {
				return s, false
			}
		}
		return lockState{op.token, append(slices.Clone(s.holders), op)}, op.token > s.highest
	case freed:
		if op.token > s.highest {
			return s, false
		}
		rest := slices.DeleteFunc(slices.Clone(s.holders), func(h taken) bool { return h.token == op.token })
		return lockState{s.highest, rest}, true
	case verified:
		return s, slices.Contains(s.of(op.name), op.token) == op.current
	case listed:
		for name, tokens := range op {
			if !slices.Equal(s.of(name), tokens) {
				return s, false
			}
		}
		return s, true
	}
	return s, false
}
