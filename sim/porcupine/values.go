package porcupine

import (
	"fmt"

	"github.com/holdfast-go/holdfast/internal/history"
)

// Values are the values of locks: each is a register, whoever holds the lock.
type Values struct{}

// Name is for people.
func (Values) Name() string { return "value" }

// Init is no value.
func (Values) Init() State { return register("") }

type (
	written  struct{ value string }
	seen     struct{ value string }
	register string
)

// Ops lists writes, those in doubt as well, and reads that were answered.
func (Values) Ops(h []history.Event) map[string][]Op {
	ops := make(map[string][]Op)
	begun := make(map[uint64]int)
	doubt := make(map[uint64]int)
	for i, e := range h {
		switch e.Kind {
		case history.Set:
			begun[e.Op], doubt[e.Op] = i, i
		case history.Look:
			begun[e.Op] = i
		case history.Done:
			if e.OK {
				delete(doubt, e.Op)
				ops[e.Lock] = append(ops[e.Lock], Op{begun[e.Op], i, written{h[begun[e.Op]].Value}})
			}
		case history.Looked:
			ops[e.Lock] = append(ops[e.Lock], Op{begun[e.Op], i, seen{e.Value}})
		}
	}
	for _, i := range doubt {
		ops[h[i].Lock] = append(ops[h[i].Lock], Op{i, Never, written{h[i].Value}})
	}
	return ops
}

// Key is the value.
func (r register) Key() string { return string(r) }

// Step writes, and reads nothing but what was written last.
func (r register) Step(what any) (State, bool) {
	switch op := what.(type) {
	case written:
		return register(op.value), true
	case seen:
		return r, op.value == string(r)
	}
	return r, false
}

// Onces are the keys of run-once.
type Onces struct{}

// Name is for people.
func (Onces) Name() string { return "once" }

// Init is a key that was never run.
func (Onces) Init() State { return onceState{} }

type (
	begun    struct{ token uint64 }
	finished struct{ token uint64 }
)

// onceState is the run with the highest token, and whether it has finished.
type onceState struct {
	token    uint64
	finished bool
}

// Ops lists runs and their confirmed ends. A record that was forgotten by then ends the object's life: what
// comes after is another object.
func (Onces) Ops(h []history.Event) map[string][]Op {
	ops := make(map[string][]Op)
	life := make(map[string]int)
	forget := make(map[string]history.Event)
	name := func(e history.Event) string {
		if f, ok := forget[e.Lock]; ok && f.Until > 0 && e.At >= f.Until {
			delete(forget, e.Lock)
			life[e.Lock]++
		}
		return fmt.Sprint(e.Lock, "/", life[e.Lock])
	}
	began := make(map[uint64]int)
	for i, e := range h {
		switch e.Kind {
		case history.Begun:
			began[e.Token] = i
			ops[name(e)] = append(ops[name(e)], Op{i, i, begun{e.Token}})
		case history.Finished:
			if e.OK {
				n := name(e)
				ops[n] = append(ops[n], Op{began[e.Token], i, finished{e.Token}})
				forget[e.Lock] = e
			}
		}
	}
	return ops
}

// Key tells states apart.
func (s onceState) Key() string { return fmt.Sprint(s.token, s.finished) }

// Step begins a run with a higher token unless one has finished, and finishes the latest run alone.
func (s onceState) Step(what any) (State, bool) {
	switch op := what.(type) {
	case begun:
		return onceState{op.token, false}, !s.finished && op.token > s.token
	case finished:
		return onceState{op.token, true}, !s.finished && op.token == s.token
	}
	return s, false
}
