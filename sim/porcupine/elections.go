package porcupine

import (
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/sim/internal/history"
)

// Elections are the locks that leaders are elected by: who leads and what the leader says of itself
// are one object, which is written by candidates when they are elected and while they lead, and
// read as a whole.
type Elections struct{}

// Name is for people.
func (Elections) Name() string { return "election" }

// Init is an election without a leader.
func (Elections) Init() State { return electionState{} }

// elected, ended, published and led are what can happen to an election.
type (
	elected struct {
		token    uint64
		value    string // "": the one before stays
		stranger bool   // who it is nobody knows, nor its value
	}
	ended     struct{ token uint64 } // the second time changes nothing
	published struct{ value string }
	led       struct {
		token uint64 // 0: nobody
		value string
		loose bool // it may have been written right before
	}
)

// Ops lists what is known of each election. A leader whom only readers saw, whose call gave up
// before it heard, has come before it was seen first, and has gone at any time; what it says of
// itself may be there with or without it.
func (Elections) Ops(h []history.Event) map[string][]Op {
	ops := make(map[string][]Op)
	for _, e := range h {
		if e.Kind == history.Asked && e.Election {
			ops[e.Lock] = nil
		}
	}
	add := func(name string, op Op) {
		if _, ok := ops[name]; ok {
			ops[name] = append(ops[name], op)
		}
	}
	all := tenures(h)
	of := make(map[uint64]*tenure)
	for _, t := range all {
		of[t.token] = t
		if t.asked.Weight < t.asked.Limit { // shared: several may hold a set with the election in it
			continue
		}
		for _, name := range t.asked.Names() { // who holds a set with the election in it leads
			add(name, Op{t.grant.call, t.grant.ret, elected{token: t.token, value: t.asked.Value}})
			for _, s := range t.ends {
				add(name, Op{s.call, s.ret, ended{t.token}})
			}
		}
	}
	values, read := writes(h), make(map[string]bool)
	begun := make(map[uint64]int)
	for i, e := range h {
		switch e.Kind {
		case history.Who, history.Observing:
			begun[e.Op] = i
		case history.Leads, history.Observed:
			call, ok := begun[e.Op]
			if !ok {
				continue
			}
			delete(begun, e.Op) // what an observer is told later may be old
			t := of[e.Token]    // who was elected with a value has written over all that was there
			if t != nil && t.asked.Weight < t.asked.Limit {
				continue
			}
			loose := (t == nil || t.asked.Value == "") && values.loose(e.Lock, e.Value, span{call, i})
			add(e.Lock, Op{call, i, led{e.Token, e.Value, loose}})
			read[e.Value] = true
			if e.Token != 0 && t == nil {
				of[e.Token] = &tenure{}
				s := between(all, e.Token)
				add(e.Lock, Op{s.call, min(s.ret, i), elected{token: e.Token, stranger: true}})
				end := Op{s.call, Never, ended{e.Token}}
				for _, later := range all {
					if later.token > e.Token && slices.Contains(later.asked.Names(), e.Lock) {
						end.Return = later.grant.ret
						break
					}
				}
				add(e.Lock, end)
			}
		}
	}
	for _, w := range values {
		if !w.asked && (w.ret != Never || read[w.value]) { // else it makes no difference
			add(w.lock, Op{w.call, w.ret, published{w.value}})
		}
	}
	return ops
}

// electionState is who leads, 0 is nobody; the highest token so far; and the value, which outlives
// its leader.
type electionState struct {
	leader, highest uint64
	value           string
	unknown         bool // the value is that of a stranger
}

// Key tells states apart.
func (s electionState) Key() string { return fmt.Sprint(s.leader, s.highest, s.value, s.unknown) }

// Step elects only where nobody leads, and with a higher token, and tells who leads and with which
// value.
func (s electionState) Step(what any) (State, bool) {
	switch op := what.(type) {
	case elected:
		next := electionState{op.token, op.token, s.value, s.unknown}
		switch {
		case op.stranger:
			next.unknown = true
		case op.value != "":
			next.value, next.unknown = op.value, false
		}
		return next, s.leader == 0 && op.token > s.highest
	case ended:
		if op.token == s.leader {
			s.leader = 0
		}
		return s, op.token <= s.highest
	case published:
		s.value, s.unknown = op.value, false
		return s, true
	case led:
		ok := op.token == s.leader && (op.token == 0 || s.unknown || op.loose || op.value == s.value)
		if op.token != 0 {
			s.value, s.unknown = op.value, false
		}
		return s, ok
	}
	return s, false
}
