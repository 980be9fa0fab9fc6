// Package batch decides which commands of a node travel to the log together: those that arrive
// while earlier ones are under way. An entry of the log costs the same whatever is in it, its way
// and its place on the disk included. It is passive: it has no clock, goroutine or lock of its own.
package batch

import "cmp"

// Bounds.
const (
	// UnderwayMax is how many entries of a node are under way before further commands wait to
	// travel together. With one the few who hand a lock on would wait for each other.
	UnderwayMax = 2
	// FewMax is how many commands may be under way when another entry joins them. Beside more one
	// waits for others: the fewer entries, the less each command costs.
	FewMax = 4
	// ManyMin is how many that wait are enough: the group does not stand still then while
	// many callers take their answers.
	ManyMin = 256
	// CommandsMax and BytesMax bound what travels together.
	CommandsMax = 512
	BytesMax    = 1 << 20
	// WaitingMax bounds those that wait. Admission lets in far fewer.
	WaitingMax = 1 << 16
	// overhead is what a command takes beside itself.
	overhead = 8
)

// Line is the commands of a node on their way to the log: how many entries are under way, and who
// waits for one of them to end. The zero Line is empty. Nobody waits while nothing is under way;
// beside fewer entries than Most nobody waits if they have few commands, and fewer than ManyMin
// if they have more.
type Line[T any] struct {
	Most        int // entries under way, for tests; 0: UnderwayMax
	underway    int
	commands    int // in them
	waiting     int
	first, last *Call[T]
}

// Call is a command that waits, and whose it is.
type Call[T any] struct {
	Cmd        []byte // must not change while it waits
	Of         T
	prev, next *Call[T]
	waits      bool
}

// Begin reports whether a command may go at once, alone. It is under way then, until End.
func (l *Line[T]) Begin() bool {
	if !l.free() || l.waiting > 0 {
		return false
	}
	l.underway++
	l.commands++
	return true
}

// Wait adds a command that may not go at once to those that wait. It returns false if there are too
// many.
func (l *Line[T]) Wait(c *Call[T]) bool {
	if l.waiting >= WaitingMax {
		return false
	}
	l.waiting++
	c.waits, c.prev, c.next = true, l.last, nil
	if l.last == nil {
		l.first = c
	} else {
		l.last.next = c
	}
	l.last = c
	return true
}

// Leave takes a command out that nobody waits for any more. It returns false if that has gone
// already.
func (l *Line[T]) Leave(c *Call[T]) bool {
	if !c.waits {
		return false
	}
	l.remove(c)
	return true
}

// free reports whether an entry may go.
func (l *Line[T]) free() bool {
	return l.underway == 0 || l.underway < cmp.Or(l.Most, UnderwayMax) && (l.commands <= FewMax || l.waiting >= ManyMin)
}

// End says that an entry of so many commands is not under way any more.
func (l *Line[T]) End(commands int) {
	l.underway--
	l.commands -= commands
}

// Next returns, after End and Wait, what goes next in one entry: in the order of arrival, nothing
// if nobody waits or what is under way is enough. That is under way then.
func (l *Line[T]) Next() (together []*Call[T]) {
	if !l.free() {
		return nil
	}
	bytes := 0
	for c := l.first; c != nil && len(together) < CommandsMax; c = l.first {
		bytes += len(c.Cmd) + overhead
		if bytes > BytesMax && len(together) > 0 {
			break
		}
		if together == nil {
			together = make([]*Call[T], 0, min(l.waiting, CommandsMax))
		}
		l.remove(c)
		together = append(together, c)
	}
	if len(together) > 0 {
		l.underway++
		l.commands += len(together)
	}
	return together
}

// Waiting is how many wait.
func (l *Line[T]) Waiting() int { return l.waiting }

func (l *Line[T]) remove(c *Call[T]) {
	if c.prev == nil {
		l.first = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next == nil {
		l.last = c.prev
	} else {
		c.next.prev = c.prev
	}
	c.waits, c.prev, c.next = false, nil, nil
	l.waiting--
}
