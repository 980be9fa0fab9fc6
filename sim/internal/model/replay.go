package model

import (
	"bytes"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
)

// replay is somebody who read all locks once and follows them by the events of one replica since,
// as a consumer of Watch or Observe does: what it makes of them must be the state. Where it was too
// slow, or the replica received a snapshot, it misses events, hears so, and reads the state anew.
type replay struct {
	n      *node
	spec   Watch
	index  uint64 // command of the state that was read
	last   uint64 // of the last event
	locks  map[string]*replayedLock
	events []fsm.Event
	gap    uint64 // command of the last event that is not among them, which come before; 0: none
}

// replayedLock is what is known of one lock.
type replayedLock struct {
	holders, waiters []fsm.Holder
	value            []byte
}

// startReplays begins what the plan has of this node's watches.
func (n *node) startReplays() {
	for _, spec := range n.w.plan.Watches {
		if spec.Node == n.i {
			f := &replay{n: n, spec: spec}
			n.replays = append(n.replays, f)
			f.read()
			f.again()
		}
	}
}

// take is what the product's feed does with the events of one entry: it never waits for the
// consumer.
func (f *replay) take(events []fsm.Event) {
	for i := range events {
		e := &events[i]
		if !told(e) {
			continue
		}
		if f.gap != 0 || len(f.events) >= f.spec.Room {
			f.gap = e.Index
			continue
		}
		f.events = append(f.events, *e)
	}
}

// told says whether an event is about the holders, the waiters or the value of a lock.
func told(e *fsm.Event) bool {
	switch e.Kind {
	case fsm.EventGranted, fsm.EventReleased, fsm.EventLost, fsm.EventForced, fsm.EventQueued, fsm.EventWithdrawn, fsm.EventValueSet:
		_, once := fsm.OnceKey(e.Name)
		return !once
	}
	return false
}

func (f *replay) again() { f.n.w.after(f.n, f.spec.Pace+time.Millisecond, f.step) }

// step takes what has come, and then compares or, if something is missing, reads the state a little
// later.
func (f *replay) step() {
	if f.n.machine.Commands() < f.n.known { // a replica of a later life catches up
		f.again()
		return
	}
	events, gap := f.events, f.gap
	f.events, f.gap = nil, 0
	for i := range events {
		e := &events[i]
		if e.Index < f.last {
			f.n.w.broken("events come in the order of the log", "%d after %d on node %d", e.Index, f.last, f.n.i)
		}
		f.last = e.Index
		if e.Index > f.index { // else it is in the state that was read
			f.apply(e)
		}
	}
	if gap != 0 {
		f.last = max(f.last, gap)
		f.n.w.after(f.n, f.spec.Late, f.resync)
		return
	}
	f.compare()
	f.again()
}

// resync reads the state anew, once the replica has all that was missed.
func (f *replay) resync() {
	if f.n.machine.Commands() < f.n.known {
		f.n.w.after(f.n, f.spec.Pace+time.Millisecond, f.resync)
		return
	}
	f.n.w.stats.Resyncs++
	f.read()
	f.again()
}

func (f *replay) read() {
	f.index, f.locks = f.n.machine.Commands(), make(map[string]*replayedLock)
	for l := range f.n.machine.Locks("") {
		f.locks[l.Name] = &replayedLock{l.Holders, l.Waiters, l.Value}
	}
}

func (f *replay) apply(e *fsm.Event) {
	l := f.locks[e.Name]
	if l == nil {
		l = &replayedLock{}
		f.locks[e.Name] = l
	}
	h := e.Holder()
	same := func(o fsm.Holder) bool { return o.Session == h.Session && o.Request == h.Request }
	switch e.Kind {
	case fsm.EventQueued:
		at := len(l.waiters)
		for at > 0 && l.waiters[at-1].Priority < h.Priority {
			at--
		}
		l.waiters = slices.Insert(l.waiters, at, h)
	case fsm.EventWithdrawn:
		l.waiters = slices.DeleteFunc(l.waiters, same)
	case fsm.EventGranted:
		l.waiters = slices.DeleteFunc(l.waiters, same)
		l.holders = append(l.holders, h)
	case fsm.EventReleased, fsm.EventLost, fsm.EventForced:
		l.holders = slices.DeleteFunc(l.holders, same)
	case fsm.EventValueSet:
		l.value = e.Value
	}
}

// compare asks whether what the events made of the state is the state.
func (f *replay) compare() {
	n, rest := f.n, len(f.locks)
	n.w.stats.Replays++
	for l := range n.machine.Locks("") {
		mine := f.locks[l.Name]
		if mine == nil {
			mine = &replayedLock{}
		} else {
			rest--
		}
		if !slices.Equal(mine.holders, l.Holders) || !slices.Equal(mine.waiters, l.Waiters) ||
			!bytes.Equal(mine.value, l.Value) || (mine.value == nil) != (l.Value == nil) {
			n.w.broken("who follows the events knows the state", "node %d at %d, %s: %v, by the events %v",
				n.i, n.applied, l.Name, l, *mine)
		}
	}
	for name, l := range f.locks {
		if rest == 0 {
			break
		}
		if _, there := n.machine.Lock(name); !there {
			rest--
			if len(l.holders)+len(l.waiters) > 0 || l.value != nil {
				n.w.broken("who follows the events knows the state", "node %d at %d, %s: nobody, by the events %v", n.i, n.applied, name, *l)
			}
			delete(f.locks, name)
		}
	}
}
