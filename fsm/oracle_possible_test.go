package fsm

import "slices"

// possible says whether a client could send the command now: it releases and writes what its session was
// granted, so that session has been open.
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
	case Continue:
		last, left := w.m.Unfinished()
		return left && c.Last == last
	case EndRest:
		return slices.ContainsFunc(w.o.rests, func(r naiveRest) bool { return r.Name == c.Name && r.Token == c.Token })
	default:
		return true
	}
	state, _ := w.m.Request(id, 1)
	return w.o.session(id) != nil || state == RequestSessionLost
}
