package porcupine

import (
	"maps"

	"github.com/holdfast-go/holdfast/sim/internal/history"
)

// Sets are the locks that sets join, directly or by others, all of them one object: a set is taken
// and freed as a whole.
type Sets struct{}

// Name is for people.
func (Sets) Name() string { return "set" }

// Init is all of them free.
func (Sets) Init() State { return lockState{} }

// Ops lists what is known of each object, which is named by one of its locks.
func (Sets) Ops(h []history.Event) map[string][]Op {
	of := joined(h)
	ops := make(map[string][]Op)
	add := func(name string, op Op) {
		if object, ok := of[name]; ok {
			ops[object] = append(ops[object], op)
		}
	}
	all := tenures(h)
	for _, t := range all {
		add(t.asked.Lock, Op{t.grant.call, t.grant.ret, taken{t.token, t.asked.Weight, t.asked.Limit, t.asked.Names()}})
		for _, s := range t.ends {
			add(t.asked.Lock, Op{s.call, s.ret, freed{t.token}})
		}
	}
	for _, v := range verdicts(h, all) {
		add(v.name, Op{v.call, v.ret, v.verified})
	}
	type look struct {
		call   int // what is told of one call is of one moment
		object string
	}
	looks, ends := make(map[look]listed), make(map[look]int)
	for _, a := range answers(h, all) {
		if object, ok := of[a.lock]; ok {
			k := look{a.call, object}
			if looks[k] == nil {
				looks[k] = make(listed)
			}
			looks[k][a.lock], ends[k] = a.tokens, a.ret
		}
	}
	for k, l := range looks {
		ops[k.object] = append(ops[k.object], Op{k.call, ends[k], l})
	}
	return ops
}

// joined says of each name that a set was asked for with which object it is part of.
func joined(h []history.Event) map[string]string {
	of := make(map[string]string)
	for _, e := range h {
		if e.Kind != history.Asked || len(e.Others) == 0 {
			continue
		}
		for _, name := range e.Names() {
			old, ok := of[name]
			of[name] = e.Lock
			for other := range maps.Keys(of) {
				if ok && of[other] == old {
					of[other] = e.Lock
				}
			}
		}
	}
	return of
}
