// Package history says whether a fleet of nodes kept its promises: it holds what the callers of the locks saw,
// in true time, and pure functions that look for what must not be in it. It knows nothing of how
// Holdfast works inside; what is not in the history cannot excuse a violation.
//
//	history.go  what is recorded
//	grants.go   mutual exclusion, tokens, nothing forgotten, nothing ended early
//	waiting.go  order, deadlines, lateness, service after the faults
//	values.go   the locks' values
//	once.go     what runs once
//	lateness.go, figures.go   how late, how much: what a run without teeth lacks
package history

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// Kind is what happened.
type Kind uint8

// What a caller does comes in pairs of the same Op: the call and its answer. "Well" is a node that runs, is
// connected to the other well nodes by a faultless network, and has a faultless disk.
const (
	Asked    Kind = iota + 1 // for a lock: Wait or not, Until when, Weight of Limit
	Granted                  // answer: a lease with Token; it came at Until, and was noticed later if the node was paused
	Refused                  // answer: none, for Cause; at Until
	Held                     // the lease with Token was found valid, with Remaining
	Ended                    // the lease with Token was found not valid for the first time, for Cause
	Release                  // the holder of Token begins to release it
	Released                 // it was told that the lock is free
	Verify                   // somebody asks whether Token is current
	Verified                 // answer: OK or not
	Look                     // somebody asks who waits, and for the value
	Looked                   // answer: Queue (the Op of each waiter, the first to be served first) and Value
	Set                      // the holder of Token begins to set Value
	Done                     // answer: OK, or it may or may not be written
	Well                     // Node is well from now on. All begin ill
	Ill                      // Node is not
	Quorum                   // OK: the well nodes have a majority of the voters from now on. It begins with none
	Over                     // all faults have ended
	Served                   // Node has acquired and released Lock since then
	Led                      // Node has become raft leader
	Begun                    // the function of the Once key Lock begins to run under Token
	Finished                 // its caller was told that it ran (OK), which is remembered until Until (0: for ever)
)

// String is the kind in lower case.
func (k Kind) String() string {
	names := []string{
		"asked", "granted", "refused", "held", "ended", "release", "released", "verify", "verified", "look", "looked",
		"set", "done", "well", "ill", "quorum", "over", "served", "led", "begun", "finished",
	}
	if i := int(k) - 1; i >= 0 && i < len(names) {
		return names[i]
	}
	return "unknown"
}

// Causes of Ended and Refused that matter to the checks; any other text is allowed.
const (
	CauseReleased = "released" // by its holder
	CauseExpired  = "expired"  // the group, or the holder's clock, ended it for want of renewal
)

// Event is one thing that happened. Only the fields that its Kind names are set.
type Event struct {
	At        time.Duration // true time since the beginning
	Kind      Kind
	Op        uint64
	Node      int
	Lock      string
	Token     uint64
	Wait, OK  bool
	Until     time.Duration // the end of the call's context, or when the answer came; 0: none
	Weight    int           // an exclusive holder weighs as much as the limit
	Limit     int
	Remaining time.Duration // in true time
	Cause     string
	Queue     []uint64
	Value     string
}

// String is the event in one line.
func (e Event) String() string {
	s := fmt.Sprintf("%9.3fs %-8s", e.At.Seconds(), e.Kind)
	add := func(set bool, format string, v any) {
		if set {
			s += " " + fmt.Sprintf(format, v)
		}
	}
	add(e.Op != 0, "op %d", e.Op)
	add(e.Kind != Quorum && e.Kind != Over, "node %d", e.Node)
	add(e.Lock != "", "%q", e.Lock)
	add(e.Token != 0, "token %d", e.Token)
	add(e.Kind == Quorum || e.Kind == Verified || e.Kind == Done, "ok=%v", e.OK)
	add(e.Until != 0, "until %v", e.Until)
	add(e.Remaining != 0, "%v remain", e.Remaining)
	add(e.Cause != "", "(%s)", e.Cause)
	add(e.Queue != nil, "queue %v", e.Queue)
	add(e.Value != "", "value %s", e.Value)
	return s
}

// Recorder collects events in the order in which they happened. It is safe for concurrent use.
type Recorder struct {
	now func() time.Duration

	mu     sync.Mutex
	ops    uint64
	events []Event
}

// NewRecorder returns an empty recorder that goes by now, the true time.
func NewRecorder(now func() time.Duration) *Recorder { return &Recorder{now: now} }

// Op returns a new number for a call.
func (r *Recorder) Op() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops++
	return r.ops
}

// Add records e at this moment.
func (r *Recorder) Add(e Event) {
	r.Observe(func() (Event, bool) { return e, true })
}

// Observe records what look sees. Nothing else is recorded meanwhile, so that what is seen did not change
// in between; look must be quick. It records nothing if look answers false.
func (r *Recorder) Observe(look func() (Event, bool)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e, ok := look(); ok {
		e.At = r.now()
		r.events = append(r.events, e)
	}
}

// Events returns all events so far, in order.
func (r *Recorder) Events() []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

// Bounds are what the checks go by.
type Bounds struct {
	TTL    time.Duration // the longest in use
	Late   time.Duration // a dead holder's lock is granted again after the TTL and this, a majority being well
	Answer time.Duration // a call answers this long after the end of its context
	Resume time.Duration // all nodes serve again this long after all faults have ended
}

// Violation is a broken promise.
type Violation struct {
	Rule string
	At   time.Duration
	Lock string
	Text string
}

func broken(rule string, at time.Duration, lock, format string, args ...any) Violation {
	return Violation{rule, at, lock, fmt.Sprintf(format, args...)}
}

// String is the violation in one line.
func (v Violation) String() string {
	return fmt.Sprintf("%v: %s: %q: %s", v.At, v.Rule, v.Lock, v.Text)
}

// Check looks for all violations in a history, in the order of time.
func Check(h []Event, b Bounds) []Violation {
	var found []Violation
	for _, check := range []func([]Event, Bounds) []Violation{
		MutualExclusion, Tokens, NothingForgotten, NothingEarly, NoHealthyHolderLoses,
		InOrder, InTime, NotLate, ServedAgain, Values, RunOnce,
	} {
		found = append(found, check(h, b)...)
	}
	slices.SortStableFunc(found, func(a, b Violation) int { return int(a.At - b.At) })
	return found
}

// About returns the last n events before at that concern lock or the fleet, for people.
func About(h []Event, lock string, at time.Duration, n int) []Event {
	var list []Event
	for _, e := range h {
		if e.At <= at && (e.Lock == "" || e.Lock == lock) {
			list = append(list, e)
		}
	}
	return list[max(0, len(list)-n):]
}
