// Package batch decides which commands of a node share an entry of the log. An entry costs the
// same whatever is in it, so commands that arrive while earlier entries are under way wait for each
// other. The package is passive: it has no clock, goroutine or lock.
package batch

import (
	"cmp"
	"slices"

	"github.com/holdfast-go/holdfast/fsm"
)

// Bounds.
const (
	// UnderwayMax bounds the entries of a node that are under way. One entry would make the few
	// callers that hand a lock on wait for each other.
	UnderwayMax = 2
	// FewMax is how many commands may be under way when another entry starts beside them. Above it
	// commands wait: the fewer entries, the less each command costs.
	FewMax = 4
	// ManyMin waiting commands start an entry in any case: the group stays busy while many callers
	// read their outcomes.
	ManyMin = 256
	// CommandsMax, BytesMax and CostMax bound an entry.
	CommandsMax = 512
	BytesMax    = 1 << 20
	CostMax     = fsm.EntryCost
	// LargeMin is the cost from which on a command waits in the line of the large ones.
	LargeMin = 5
	// LargeMax bounds the cost of the large commands that are under way while small ones come, too:
	// a small one waits for at most so much, a millisecond of work. One large command always goes.
	LargeMax = CostMax / 5
	// quietMin entries without a small command are enough to fill the next with large ones.
	quietMin = 16
	// WaitingMax bounds the queue. Admission lets in far fewer commands.
	WaitingMax = 1 << 16
	// overhead is the size of a command in an entry beside its own bytes.
	overhead = 8
)

// Queue has the commands of a node that wait for an entry, and counts the entries under way. The
// zero Queue is empty. A command waits only while an entry is under way. Beside fewer entries than
// Most it waits only if they have more than FewMax commands, and fewer than ManyMin wait.
//
// Small and large commands wait in a line each, and an entry takes from both, the small ones first:
// a lock does not wait for all the sets that came before it. Each line is in the order of arrival.
type Queue[T any] struct {
	Most         int // entries under way, for tests; 0: UnderwayMax
	underway     int
	commands     int // in them
	largeCost    int // of the large commands in them
	small, large line[T]
	quiet        int // entries since a small command came
}

// Call is a command that waits, and its caller.
type Call[T any] struct {
	Cmd  []byte // unchanged until it is answered; nil: its caller has given up
	Cost int    // see fsm.Cost
	Of   T

	prev, next *Call[T]
	waits      bool
}

// Entry is the commands of one entry.
type Entry[T any] struct {
	Calls     []*Call[T]
	largeCost int
}

// Begin reports whether a command may start at once, alone. It is under way then, until Alone ends.
func (q *Queue[T]) Begin() bool {
	if !q.free() || q.Len() > 0 {
		return false
	}
	q.underway++
	q.commands++
	q.quiet = 0
	return true
}

// Alone counts an entry that Begin has started as answered.
func (q *Queue[T]) Alone() {
	q.underway--
	q.commands--
}

// Push adds a command that may not start at once. It returns false if the queue is full.
func (q *Queue[T]) Push(c *Call[T]) bool {
	if q.Len() >= WaitingMax {
		return false
	}
	l := q.line(c)
	if l == &q.small {
		q.quiet = 0
	}
	l.insert(c, l.last, nil)
	return true
}

// End counts an entry as answered. Those of its commands that were not carried out (later) go before
// all others of their line, in their order, but for those whose callers have given up meanwhile.
func (q *Queue[T]) End(e Entry[T], later []*Call[T]) {
	q.underway--
	q.commands -= len(e.Calls)
	q.largeCost -= e.largeCost
	for _, c := range slices.Backward(later) {
		if c.Cmd != nil {
			l := q.line(c)
			l.insert(c, nil, l.first)
		}
	}
}

// Remove takes out a command whose caller has given up. It returns false if the command is under
// way already; then it does not come back.
func (q *Queue[T]) Remove(c *Call[T]) bool {
	c.Cmd = nil
	if !c.waits {
		return false
	}
	q.line(c).remove(c)
	return true
}

// free reports whether an entry may start.
func (q *Queue[T]) free() bool {
	return q.underway == 0 || q.underway < cmp.Or(q.Most, UnderwayMax) && (q.commands <= FewMax || q.Len() >= ManyMin)
}

// Next returns the next entry, after End and Push; one without commands if none waits or no entry
// may start. It is under way then.
func (q *Queue[T]) Next() (e Entry[T]) {
	if !q.free() || q.Len() == 0 {
		return e
	}
	room := room{commands: CommandsMax, bytes: BytesMax, cost: CostMax}
	large := q.large.take(q.largeRoom())
	for _, c := range large {
		room.fill(c.size(), c.Cost)
		e.largeCost += c.Cost
	}
	room.must = len(large) == 0
	e.Calls = append(q.small.take(room), large...)
	if len(e.Calls) > 0 {
		q.underway++
		q.commands += len(e.Calls)
		q.largeCost += e.largeCost
		q.quiet++
	}
	return e
}

// largeRoom is what large commands may take of the next entry. Half of its bytes are for small ones.
func (q *Queue[T]) largeRoom() room {
	if q.small.len == 0 && q.quiet >= quietMin {
		return room{commands: CommandsMax, bytes: BytesMax, cost: CostMax, must: true}
	}
	return room{commands: CommandsMax / 2, bytes: BytesMax / 2, cost: LargeMax - q.largeCost, must: q.largeCost == 0}
}

// Len is how many commands wait.
func (q *Queue[T]) Len() int { return q.small.len + q.large.len }

func (q *Queue[T]) line(c *Call[T]) *line[T] {
	if c.Cost >= LargeMin {
		return &q.large
	}
	return &q.small
}

func (c *Call[T]) size() int { return len(c.Cmd) + overhead }

// room is what may still come into an entry. must says that the first command comes in any case.
type room struct {
	commands, bytes, cost int
	must                  bool
}

func (r *room) fill(bytes, cost int) {
	r.commands, r.bytes, r.cost = r.commands-1, r.bytes-bytes, r.cost-cost
}
