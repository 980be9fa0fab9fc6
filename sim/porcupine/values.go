package porcupine

import (
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/sim/internal/history"
)

// Values are the values of locks: each is a register, whoever holds the lock.
type Values struct{}

// Name is for people.
func (Values) Name() string { return "value" }

// Init is no value.
func (Values) Init() State { return register("") }

type (
	written struct{ value string }
	seen    struct {
		value string
		loose bool // it may have been written right before
	}
	register string
)

// Ops lists writes, those in doubt as well, and reads that were answered. A write in doubt that
// nobody read makes no difference.
func (Values) Ops(h []history.Event) map[string][]Op {
	ops := make(map[string][]Op)
	all := writes(h)
	begun := make(map[uint64]int)
	read := make(map[string]map[string]bool) // by lock and value
	for i, e := range h {
		switch e.Kind {
		case history.Look, history.Who, history.Observing:
			begun[e.Op] = i
		case history.Looked, history.Leads, history.Observed:
			call, ok := begun[e.Op]
			if !ok || e.Kind != history.Looked && e.Token == 0 {
				continue // without a leader the value is not told
			}
			if e.Kind == history.Observed {
				delete(begun, e.Op) // what it is told later may be old
			}
			ops[e.Lock] = append(ops[e.Lock], Op{call, i, seen{e.Value, all.loose(e.Lock, e.Value, span{call, i})}})
			if read[e.Lock] == nil {
				read[e.Lock] = make(map[string]bool)
			}
			read[e.Lock][e.Value] = true
		}
	}
	for _, w := range all {
		if w.ret != Never || !w.asked && read[w.lock][w.value] {
			ops[w.lock] = append(ops[w.lock], Op{w.call, w.ret, written{w.value}})
		}
	}
	return ops
}

// write is one write of a value. One that was not acknowledged never returns.
type write struct {
	span
	lock, value string
	asked       bool // with Asked: it is written at the grant
}

// writeList are all writes of a history.
type writeList []write

func writes(h []history.Event) (list writeList) {
	open := make(map[uint64]int) // by op: its place in the list
	for i, e := range h {
		switch e.Kind {
		case history.Asked, history.Set:
			if e.Value != "" {
				open[e.Op] = len(list)
				list = append(list, write{span{i, Never}, e.Lock, e.Value, e.Kind == history.Asked})
			}
		case history.Granted, history.Done:
			if n, ok := open[e.Op]; ok && (e.OK || e.Kind == history.Granted) {
				list[n].ret = i
			}
		}
	}
	return list
}

// loose says whether a value may have been written any number of times until it was read: a call
// that loses its session asks again, and does not hear of the grants before.
func (l writeList) loose(lock, value string, read span) bool {
	return slices.ContainsFunc(l, func(w write) bool {
		return w.asked && w.lock == lock && w.value == value && w.call < read.ret && w.ret > read.call
	})
}

// Key is the value.
func (r register) Key() string { return string(r) }

// Step writes, and reads nothing but what was written last.
func (r register) Step(what any) (State, bool) {
	switch op := what.(type) {
	case written:
		return register(op.value), true
	case seen:
		return register(op.value), op.loose || op.value == string(r)
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

// Ops lists runs and their confirmed ends. A record that was forgotten by then ends the object's
// life: what comes after is another object.
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
