package porcupine

import (
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/internal/history"
)

// Locks are all locks that are held by weight: exclusive ones, whose holder weighs as much as the limit, shared
// ones and permits.
//
// A call without a grant is left out: whatever it did is over again, and nobody saw it. The end of a lease
// for another reason than its release is an operation of its own that nobody called: it happens at some time
// after the grant, and before the next exclusive grant is heard of.
type Locks struct{}

// Name is for people.
func (Locks) Name() string { return "lock" }

// Init is a free lock without a past.
func (Locks) Init() State { return lockState{} }

// taken, freed and verified are what can happen to a lock.
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
)

// Ops lists what is known of each lock.
func (Locks) Ops(h []history.Event) map[string][]Op {
	ops := make(map[string][]Op)
	asked, begun := make(map[uint64]int), make(map[uint64]int) // by op
	release, released := make(map[uint64]int), make(map[uint64]int)
	granted := make(map[string][]int) // events, by lock
	for i, e := range h {
		switch e.Kind {
		case history.Asked:
			asked[e.Op] = i
		case history.Granted:
			a := h[asked[e.Op]]
			ops[e.Lock] = append(ops[e.Lock], Op{asked[e.Op], i, taken{e.Token, a.Weight, a.Limit}})
			granted[e.Lock] = append(granted[e.Lock], i)
		case history.Release:
			release[e.Token] = i
		case history.Released:
			released[e.Token] = i
		case history.Verify:
			begun[e.Op] = i
		case history.Verified:
			ops[e.Lock] = append(ops[e.Lock], Op{begun[e.Op], i, verified{e.Token, e.OK}})
		}
	}
	for lock, events := range granted {
		slices.SortFunc(events, func(a, b int) int { return int(int64(h[a].Token - h[b].Token)) })
		for n, i := range events {
			token := h[i].Token
			end := Op{asked[h[i].Op], Never, freed{token}}
			if at, ok := released[token]; ok {
				// Who is told that it released may have lost the lease before: the end came by then.
				ops[lock] = append(ops[lock], Op{release[token], at, freed{token}})
				end.Return = at
			}
			for _, later := range events[n+1:] {
				if a := h[asked[h[later].Op]]; a.Weight == a.Limit {
					end.Return = min(end.Return, later)
					break
				}
			}
			ops[lock] = append(ops[lock], end)
		}
	}
	return ops
}

// lockState is a lock: who has it, and the highest token.
type lockState struct {
	highest uint64
	holders []taken
}

// Key tells states apart.
func (s lockState) Key() string { return fmt.Sprint(s.highest, s.holders) }

// Step grants to who fits and only with a higher token; tells of tokens what is true; and never frees a token
// that was not granted.
func (s lockState) Step(what any) (State, bool) {
	switch op := what.(type) {
	case taken:
		sum := op.weight
		for _, h := range s.holders {
			sum += h.weight
		}
		if sum > op.limit || op.token <= s.highest {
			return s, false
		}
		return lockState{op.token, append(slices.Clone(s.holders), op)}, true
	case freed:
		if op.token > s.highest {
			return s, false
		}
		rest := slices.DeleteFunc(slices.Clone(s.holders), func(h taken) bool { return h.token == op.token })
		return lockState{s.highest, rest}, true
	case verified:
		holds := slices.ContainsFunc(s.holders, func(h taken) bool { return h.token == op.token })
		return s, holds == op.current
	}
	return s, false
}
