// Package history says whether a fleet of nodes kept its promises: it holds what the callers of the
// locks saw, in true time, and pure functions that look for what must not be in it. It knows
// nothing of how Holdfast works inside; what is not in the history cannot excuse a violation.
//
//	history.go  what is recorded
//	grants.go   mutual exclusion, tokens, nothing forgotten, nothing ended early
//	ends.go     the right to end a grant before its TTL, and places that stay taken
//	waiting.go  order, deadlines, lateness, service after the faults
//	reads.go    holders, as reads tell of them, and names that are had together
//	values.go   the locks' values, and what runs once
//	restore.go  what a group may forget that is taken back to a backup
//	observe.go  what observers of an election are told
//	watch.go, replay.go  what watchers are told, and what follows from it
//	figures.go  how late, how much: what is too little in a vacuous run
package history

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Kind is what happened.
type Kind uint8

// What a caller does comes in pairs of the same Op: the call and its answer. "Well" is a node that
// runs, is connected to the other well nodes by a faultless network, and has a faultless disk.
const (
	Asked     Kind = iota + 1 // for a lock, or a set of Others as well: Wait or not, Until when, Weight of Limit, Value, …
	Granted                   // answer: a lease with Token; it came at Until, and was noticed later if the node was paused
	Refused                   // answer: none, for Cause; at Until
	Held                      // the lease with Token was found valid, with Remaining
	Ended                     // the lease with Token was found not valid for the first time, for Cause
	Release                   // the holder of Token begins to release it
	Released                  // it was told that the lock is free
	Verify                    // somebody asks whether Token is current
	Verified                  // answer: OK or not
	Look                      // somebody asks who waits, and for the value
	Looked                    // answer: Queue (the Op of each waiter, the first to be served first), Tokens and Value
	Set                       // the holder of Token begins to set Value
	Done                      // answer: OK, or it may or may not be written
	Well                      // Node is well from now on. All begin ill
	Ill                       // Node is not
	Quorum                    // OK: the well nodes have a majority of the voters from now on. It begins with none
	Over                      // all faults have ended
	Served                    // Node has acquired and released Lock since then
	Led                       // Node has become raft leader
	Begun                     // the function of the Once key Lock begins to run under Token
	Finished                  // its caller was told that it ran (OK), which is remembered until Until (0: for ever)
	Force                     // an operator begins to free the grant with Token
	Forced                    // answer: OK, or it may or may not be free
	Who                       // somebody asks who leads the election Lock
	Leads                     // answer: Token (0: nobody) and its Value
	Observing                 // Op begins to observe the election Lock on Node
	Observed                  // Op is told: Token (0: nobody) and its Value. The first answer is a read
	Watching                  // Op begins to watch the locks whose names begin with Lock on Node
	Told                      // Op is told a Change of Lock at Index: Token, Of, Value
	Unheard                   // Op observes or watches no more
	Opens                     // a process begins on Node. OK: on the disk and in the boot of the one before, which is proof that that is dead
	Opened                    // it runs as the node whose id is Value
	Closes                    // the process on Node ends in good order: its leases first
	Dies                      // the process on Node ends from one moment to the next
	Revoke                    // an operator begins to free all that the node with the id Value holds, on whatever Node it runs
	Revoked                   // answer: OK, or it may or may not be free
	Copied                    // Op has copied the disks of all nodes as they are at this moment
	Restored                  // nothing runs, and what Op has copied is put back: the group has forgotten what came after that
)

// String is the kind in lower case.
func (k Kind) String() string {
	names := []string{
		"asked", "granted", "refused", "held", "ended", "release", "released", "verify", "verified", "look", "looked",
		"set", "done", "well", "ill", "quorum", "over", "served", "led", "begun", "finished",
		"force", "forced", "who", "leads", "observing", "observed", "watching", "told", "unheard",
		"opens", "opened", "closes", "dies", "revoke", "revoked", "copied", "restored",
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
	CauseLapsed   = "lapsed"   // as CauseExpired, and it was for its caller to renew it
)

// Changes of Told, in the words of holdfast.EventKind. Any other text is allowed.
const (
	ChangeGranted   = "granted"
	ChangeReleased  = "released"
	ChangeExpired   = "expired"
	ChangeLost      = "lost"
	ChangeForced    = "forced"
	ChangeQueued    = "queued"
	ChangeWithdrawn = "withdrawn"
	ChangeValue     = "value"
	ChangeLeader    = "leader" // an election has another leader, or none: Token 0
	ChangeResync    = "resync" // changes up to Index may be missing
)

// Event is one thing that happened. Only the fields that its Kind names are set. What happens to a
// set is one event, of its first name; Asked alone has Others. Several Looked of one Op are of one
// moment.
type Event struct {
	At        time.Duration // true time since the beginning
	Kind      Kind
	Op        uint64
	Node      int
	Lock      string
	Others    []string // the further names of a set
	Token     uint64
	Tokens    []uint64 // of the holders; nil: not looked at
	Wait, OK  bool
	TTL       time.Duration // of Asked: 0 is Bounds.TTL
	Until     time.Duration // the end of the call's context, or when the answer came; 0: none
	Weight    int           // an exclusive holder weighs as much as the limit
	Limit     int
	Priority  int
	MinHold   time.Duration // the place stays taken until so long after the grant
	LockDelay time.Duration // and for so long after a loss
	Election  bool          // of Asked: by a candidate
	Pause     time.Duration // of Asked: the caller may think for so long first, as candidates do after a loss; of Watching: it may be so late
	Remaining time.Duration // in true time
	Cause     string
	Queue     []uint64
	Value     string
	Index     uint64 // of the log
	Change    string
	Of        uint64 // the Op of who holds, held or waits; 0: unknown
}

// Names are all names of a set, or the one of a lock.
func (e Event) Names() []string { return append([]string{e.Lock}, e.Others...) }

// String is the event in one line.
func (e Event) String() string {
	s := fmt.Sprintf("%9.3fs %-8s", e.At.Seconds(), e.Kind)
	add := func(set bool, format string, v any) {
		if set {
			s += " " + fmt.Sprintf(format, v)
		}
	}
	add(e.Op != 0, "op %d", e.Op)
	add(!slices.Contains([]Kind{Quorum, Over, Revoke, Revoked, Copied, Restored}, e.Kind), "node %d", e.Node)
	add(e.Lock != "", "%q", e.Lock)
	add(e.Others != nil, "with %q", e.Others)
	add(e.Index != 0, "index %d", e.Index)
	add(e.Change != "", "%s", e.Change)
	add(e.Of != 0, "of op %d", e.Of)
	add(e.Token != 0, "token %d", e.Token)
	add(slices.Contains([]Kind{Quorum, Verified, Done, Forced, Opens, Revoked}, e.Kind), "ok=%v", e.OK)
	add(e.TTL != 0, "ttl %v", e.TTL)
	add(e.Until != 0, "until %v", e.Until)
	add(e.Remaining != 0, "%v remain", e.Remaining)
	add(e.MinHold != 0, "min hold %v", e.MinHold)
	add(e.LockDelay != 0, "lock delay %v", e.LockDelay)
	add(e.Cause != "", "(%s)", e.Cause)
	add(e.Queue != nil, "queue %v", e.Queue)
	add(e.Tokens != nil, "tokens %v", e.Tokens)
	add(e.Value != "", "value %s", e.Value)
	return s
}

// Bounds are what the checks go by.
type Bounds struct {
	TTL    time.Duration // of all that is asked for without one of its own: the longest
	Late   time.Duration // a dead holder's lock is granted again after the TTL and this, a majority being well
	Answer time.Duration // a call answers this long after the end of its context
	Resume time.Duration // all nodes serve again this long after all faults have ended
	Drift  float64       // two clocks differ by this part at most: what no holder times may end so much early
	Clock  time.Duration // all nodes read one clock, and two readings differ by this at most; 0: each has its own

	Client func(node int) bool // reports whether a node has no replica; nil: each has one
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

// Check looks for all violations in a history, in the order of time. Each of its lines is judged
// alone; a token rises for ever, and no lease outlives a restore.
func Check(h []Event, b Bounds) []Violation {
	var found []Violation
	lines := Lines(h)
	for _, line := range lines {
		found = append(found, checkLine(line, b)...)
	}
	if len(lines) > 1 {
		for _, check := range []func([]Event, Bounds) []Violation{MutualExclusion, Tokens, InTime} {
			found = append(found, check(h, b)...)
		}
	}
	slices.SortStableFunc(found, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Text, b.Text))
	})
	return slices.Compact(found)
}

func checkLine(h []Event, b Bounds) (found []Violation) {
	for _, check := range []func([]Event, Bounds) []Violation{
		MutualExclusion, Tokens, NothingForgotten, NothingEarly, NoHealthyHolderLoses, EndsByRight,
		InOrder, InTime, NotLate, ServedAgain, Values, RunOnce,
		ReadsAreCurrent, NeverInPart, Rests, Observers, Watchers, Replays,
	} {
		found = append(found, check(h, b)...)
	}
	return found
}

// About returns the last n events before at that concern lock or the fleet, for people.
func About(h []Event, lock string, at time.Duration, n int) []Event {
	var list []Event
	for _, e := range h {
		if e.At <= at && (e.Lock == "" || e.Lock == lock || slices.Contains(e.Others, lock)) {
			list = append(list, e)
		}
	}
	return list[max(0, len(list)-n):]
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

// Observe records what look sees. Nothing else is recorded meanwhile, so that what is seen did not
// change in between; look must be quick. It records nothing if look returns false.
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
