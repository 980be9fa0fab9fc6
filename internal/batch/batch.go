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
	// WaitingMax bounds the queue. Admission lets in far fewer commands.
	WaitingMax = 1 << 16
	// overhead is the size of a command in an entry beside its own bytes.
	overhead = 8
)

// Queue has the commands of a node that wait for an entry, and counts the entries under way. The
// zero Queue is empty. A command waits only while an entry is under way. Beside fewer entries than
// Most it waits only if they have more than FewMax commands, and fewer than ManyMin wait.
type Queue[T any] struct {
	Most        int // entries under way, for tests; 0: UnderwayMax
	underway    int
	commands    int // in them
	waiting     int
	first, last *Call[T]
}

// Call is a command that waits, and its caller.
type Call[T any] struct {
	Cmd  []byte // unchanged until it is answered; nil: its caller has given up
	Cost int    // see fsm.Cost
	Of   T

	prev, next *Call[T]
	waits      bool
}

// Begin reports whether a command may start at once, alone. It is under way then, until End.
func (q *Queue[T]) Begin() bool {
	if !q.free() || q.waiting > 0 {
		return false
	}
	q.underway++
	q.commands++
	return true
}

// Push adds a command that may not start at once. It returns false if the queue is full.
func (q *Queue[T]) Push(c *Call[T]) bool {
	if q.waiting >= WaitingMax {
		return false
	}
	q.insert(c, q.last, nil)
	return true
}

// Return puts commands of one entry that were not carried out before all others, in their order.
// Commands whose callers have given up meanwhile are dropped.
func (q *Queue[T]) Return(calls []*Call[T]) {
	for _, c := range slices.Backward(calls) {
		if c.Cmd != nil {
			q.insert(c, nil, q.first)
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
	q.remove(c)
	return true
}

// free reports whether an entry may start.
func (q *Queue[T]) free() bool {
	return q.underway == 0 || q.underway < cmp.Or(q.Most, UnderwayMax) && (q.commands <= FewMax || q.waiting >= ManyMin)
}

// End counts an entry of so many commands as answered.
func (q *Queue[T]) End(commands int) {
	q.underway--
	q.commands -= commands
}

// Next returns the commands of the next entry in the order of arrival, after End and Push; none if
// no command waits or no entry may start. They are under way then.
func (q *Queue[T]) Next() (entry []*Call[T]) {
	if !q.free() {
		return nil
	}
	bytes, cost := 0, 0
	for c := q.first; c != nil && len(entry) < CommandsMax; c = q.first {
		bytes, cost = bytes+len(c.Cmd)+overhead, cost+c.Cost
		if (bytes > BytesMax || cost > CostMax) && len(entry) > 0 {
			break
		}
		if entry == nil {
			entry = make([]*Call[T], 0, min(q.waiting, CommandsMax))
		}
		q.remove(c)
		entry = append(entry, c)
	}
	if len(entry) > 0 {
		q.underway++
		q.commands += len(entry)
	}
	return entry
}

// Len is how many commands wait.
func (q *Queue[T]) Len() int { return q.waiting }

func (q *Queue[T]) insert(c, prev, next *Call[T]) {
	c.waits, c.prev, c.next = true, prev, next
	q.join(prev, c)
	q.join(c, next)
	q.waiting++
}

func (q *Queue[T]) remove(c *Call[T]) {
	q.join(c.prev, c.next)
	c.waits, c.prev, c.next = false, nil, nil
	q.waiting--
}

// join makes two calls neighbours; nil is the end of the queue.
func (q *Queue[T]) join(prev, next *Call[T]) {
	if prev == nil {
		q.first = next
	} else {
		prev.next = next
	}
	if next == nil {
		q.last = prev
	} else {
		next.prev = prev
	}
}
