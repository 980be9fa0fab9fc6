package porcupine

import (
	"fmt"
	"math"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/holdfast-go/holdfast/sim/internal/history"
)

// Op is one operation of an object: it happens at one moment from Call to Return, which are places
// in the history. What is what it does, in its kind's own words.
type Op struct {
	Call, Return int
	What         any
}

// Never is the Return of an operation whose answer nobody heard: it may happen at any later time.
// Last in a history, where nothing follows it, is as good as never.
const Never = math.MaxInt

// Kind is one kind of object. A new kind of lock joins by saying which operations a history has of
// its objects, and what an operation does to an object.
type Kind interface {
	// Name is for people.
	Name() string
	// Ops lists the operations of each object of this kind.
	Ops(h []history.Event) map[string][]Op
	// Init is the state of a new object.
	Init() State
}

// State is an object as it is at one moment. It never changes.
type State interface {
	// Step does what an operation says: ok is false if it cannot have been answered so in this
	// state.
	Step(what any) (next State, ok bool)
	// Key tells states apart.
	Key() string
}

// Kinds are all kinds there are.
func Kinds() []Kind { return []Kind{Locks{}, Sets{}, Elections{}, Values{}, Onces{}} }

// Verdict is the result for one object.
type Verdict struct {
	Kind, Object string
	Ops          int
	OK           bool
	Undecided    bool // the time was over first: the history counts as bad
}

// String is the verdict in one line.
func (v Verdict) String() string {
	what := "is linearizable"
	switch {
	case v.Undecided:
		what = "could not be decided in time"
	case !v.OK:
		what = "has no order in which its answers make sense"
	}
	return fmt.Sprintf("%s %q: a history of %d operations %s", v.Kind, v.Object, v.Ops, what)
}

// Check looks at every object of a history, for at most patience each. It answers all verdicts, and
// an error that names the first bad one: an object that misbehaved, or could not be decided; or a
// history with fewer than least operations in all, which proves nothing.
func Check(h []history.Event, patience time.Duration, least int) ([]Verdict, error) {
	var verdicts []Verdict
	var first error
	total := 0
	for _, kind := range Kinds() {
		for object, ops := range kind.Ops(h) {
			v := Verdict{Kind: kind.Name(), Object: object, Ops: len(ops)}
			total += len(ops)
			switch porcupine.CheckOperationsTimeout(model(kind), operations(ops), patience) {
			case porcupine.Ok:
				v.OK = true
			case porcupine.Unknown:
				v.Undecided = true
			}
			verdicts = append(verdicts, v)
			if !v.OK && first == nil {
				first = fmt.Errorf("holdfast: %v", v)
			}
		}
	}
	if first == nil && total < least {
		first = fmt.Errorf("holdfast: %d operations, at least %d wanted: a vacuous history", total, least)
	}
	return verdicts, first
}

func model(kind Kind) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return kind.Init() },
		Step: func(state, input, _ any) (bool, any) {
			next, ok := state.(State).Step(input)
			return ok, next
		},
		Equal: func(a, b any) bool { return a.(State).Key() == b.(State).Key() },
	}
}

func operations(ops []Op) []porcupine.Operation {
	list := make([]porcupine.Operation, len(ops))
	for i, op := range ops {
		list[i] = porcupine.Operation{ClientId: i, Input: op.What, Call: int64(op.Call), Return: int64(op.Return)}
	}
	return list
}
