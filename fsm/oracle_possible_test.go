package fsm

import (
	"slices"

	"pgregory.net/rapid"
)

// possible says whether a client could send the command now: it releases and writes what its
// session was granted, so that session has been open; it ends and forgets what it has seen.
func (w *world) possible(c Command) bool {
	id := SessionID{}
	switch c := c.(type) {
	case Release:
		id = c.Session
	case SetValue:
		id = c.Session
	case Finish:
		id = c.Session
	case Batch:
		return !slices.ContainsFunc(c.Commands, func(one Command) bool { return !w.possible(one) })
	case Via:
		return w.possible(c.Command)
	case Continue:
		last, left := w.m.Unfinished()
		return left && c.Last == last
	case EndRest:
		return slices.ContainsFunc(w.o.rests, func(r naiveRest) bool { return r.Name == c.Name && r.Token == c.Token })
	case Forget:
		return c.Token <= w.o.keys[c.Name].Token
	default:
		return true
	}
	state, _ := w.m.Request(id, 1)
	return w.o.session(id) != nil || state == RequestSessionLost
}

// mode is mostly that of what a name is: p is a semaphore, and the others are locks.
func (w *world) mode(name string) Mode {
	if stray := rapid.IntRange(0, 7).Draw(w.T, "stray") == 0; stray == (name != "p") {
		return Permit
	}
	return rapid.SampledFrom([]Mode{Exclusive, Shared}).Draw(w.T, "mode")
}

// places are where processes may run: nobody knows where, or one of two machines.
var places = []Place{{}, {"boot", 1, 2}, {"other boot", 1, 2}}

// departure draws the end of a node, or of one of its processes.
func (w *world) departure(id SessionID) Command {
	switch rapid.IntRange(0, 3).Draw(w.T, "departure") {
	case 0:
		return Goodbye{id.Node, id.Incarnation, Departure(rapid.IntRange(0, 2).Draw(w.T, "departure"))}
	case 1:
		return Revoke{id.Node, w.draw("upto", int(w.o.number)+1), "because"}
	}
	since := w.draw("since", int(w.o.number)+1)
	if r := w.o.run(id.Process()); r != nil && !r.over {
		since = r.since
	}
	return Remove{id.Node, id.Incarnation, since}
}
