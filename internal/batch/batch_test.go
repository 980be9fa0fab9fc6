package batch

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// In any order of arrivals, withdrawals, answers and commands put off: at most UnderwayMax entries
// are under way, a second one only beside FewMax commands or when ManyMin wait; no command waits
// without need; an entry is in the order of arrival and within the bounds; commands that were put
// off go first; and each command is in an entry until it is carried out, or is removed once.
func TestCommandsAreBatchedOnceInOrderAndWithinTheBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		q := checked{T: t}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			switch act := rapid.IntRange(0, 9).Draw(t, "act"); {
			case act < 6: // commands arrive, now and then as many as are enough
				q.arrive()
			case act == 6 && len(q.waiting) > 0: // a caller gives up
				at := rapid.IntRange(0, len(q.waiting)-1).Draw(t, "waiting")
				c := q.waiting[at]
				q.waiting = slices.Delete(q.waiting, at, at+1)
				if !q.Remove(c) || q.Remove(c) {
					t.Fatal("a call that waits can be removed, once")
				}
			case act == 7 && len(q.underway) > 0: // a caller gives up too late
				entry := rapid.SampledFrom(q.underway).Draw(t, "of")
				if len(entry) > 1 && q.Remove(rapid.SampledFrom(entry).Draw(t, "caller")) {
					t.Fatal("a call under way was removed")
				}
			case len(q.underway) > 0: // an answer comes
				q.answer()
			}
			if len(q.underway) > UnderwayMax || len(q.waiting) > 0 && len(q.underway) == 0 || q.Len() != len(q.waiting) {
				t.Fatalf("%d under way, %d wait, %d by its own account", len(q.underway), len(q.waiting), q.Len())
			}
		}
	})
}

// checked is a Queue, and what a test expects of it.
type checked struct {
	*rapid.T
	Queue[int]
	next     int
	waiting  []*Call[int]
	underway [][]*Call[int] // the calls of each entry
}

// arrive has one command come, or now and then as many as are enough.
func (q *checked) arrive() {
	if q.Begin() {
		q.underway = append(q.underway, []*Call[int]{{}})
		return
	}
	if many := rapid.IntRange(0, 20).Draw(q.T, "many") == 0; many {
		for range ManyMin - 1 {
			q.wait(1, 1)
		}
	}
	q.wait(rapid.SampledFrom([]int{1, 100, BytesMax / 3, BytesMax, 2 * BytesMax}).Draw(q.T, "size"),
		rapid.SampledFrom([]int{1, 64, CostMax / 3, 2 * CostMax}).Draw(q.T, "cost"))
}

func (q *checked) wait(size, cost int) {
	c := &Call[int]{Cmd: make([]byte, size), Cost: cost, Of: q.next}
	q.next++
	if !q.Push(c) {
		q.Fatal("no room")
	}
	q.waiting = append(q.waiting, c)
	q.start()
}

// answer ends an entry, of which the last commands were put off.
func (q *checked) answer() {
	at := rapid.IntRange(0, len(q.underway)-1).Draw(q.T, "which")
	entry := q.underway[at]
	q.underway = slices.Delete(q.underway, at, at+1)
	done := rapid.IntRange(1, len(entry)).Draw(q.T, "carried out")
	q.End(len(entry))
	q.Return(entry[done:])
	stay := slices.DeleteFunc(slices.Clone(entry[done:]), func(c *Call[int]) bool { return c.Cmd == nil })
	q.waiting = append(stay, q.waiting...)
	q.start()
}

// start starts the next entry, and checks it.
func (q *checked) start() {
	may := len(q.underway) == 0 || len(q.underway) == 1 && (len(q.underway[0]) <= FewMax || len(q.waiting) >= ManyMin)
	entry := q.Next()
	if !may && len(entry) > 0 || may && len(q.waiting) > 0 && len(entry) == 0 {
		q.Fatalf("of %d that wait %d are batched beside %d entries", len(q.waiting), len(entry), len(q.underway))
	}
	if len(entry) == 0 {
		return
	}
	size, cost := 0, 0
	for i, c := range entry {
		if c != q.waiting[i] {
			q.Fatalf("%d goes before %d, which came first", c.Of, q.waiting[i].Of)
		}
		size, cost = size+len(c.Cmd), cost+c.Cost
	}
	left := q.waiting[len(entry):]
	fits := len(left) > 0 && len(entry) < CommandsMax && size+len(left[0].Cmd)+overhead*(len(entry)+1) <= BytesMax &&
		cost+left[0].Cost <= CostMax
	if len(entry) > CommandsMax || (size > BytesMax || cost > CostMax) && len(entry) > 1 || fits {
		q.Fatalf("%d commands of %d bytes and cost %d are batched, %d stay", len(entry), size, cost, len(left))
	}
	q.waiting, q.underway = left, append(q.underway, entry)
}

func TestNoMoreThanTheBoundShareAnEntry(t *testing.T) {
	t.Parallel()
	var q Queue[int]
	for range UnderwayMax {
		if !q.Begin() {
			t.Fatal("a command waits for none")
		}
	}
	for i := range CommandsMax + 1 {
		q.Push(&Call[int]{Of: i})
	}
	next := func(ended int) []*Call[int] {
		q.End(ended)
		return q.Next()
	}
	if n := len(next(1)); n != CommandsMax {
		t.Fatalf("%d share an entry", n)
	}
	if beside := next(1); len(beside) != 0 {
		t.Fatalf("%d are batched beside them", len(beside))
	}
	if last := next(CommandsMax); len(last) != 1 || last[0].Of != CommandsMax {
		t.Fatalf("%d are batched after them", len(last))
	}
}

// After a large entry one of few commands may be under way while others wait.
func TestACommandThatArrivesOvertakesNoneThatWaits(t *testing.T) {
	t.Parallel()
	var q Queue[int]
	q.Begin()
	q.Begin()
	for range FewMax + 1 {
		q.Push(&Call[int]{Cost: 1})
	}
	q.End(1)
	many := len(q.Next())
	q.End(1)
	for i := range 2 {
		q.Push(&Call[int]{Cost: CostMax, Of: i})
	}
	q.End(many)
	if entry := q.Next(); many != FewMax+1 || len(entry) != 1 || q.Len() != 1 || !q.free() {
		t.Fatalf("%d and %d commands shared an entry, %d wait", many, len(entry), q.Len())
	}
	if q.Begin() {
		t.Error("a command that has just arrived starts before one that waits")
	}
}

func TestTheQueueIsBounded(t *testing.T) {
	t.Parallel()
	var q Queue[int]
	for range WaitingMax {
		q.Push(&Call[int]{})
	}
	if q.Push(&Call[int]{}) || q.Len() != WaitingMax {
		t.Fatal("one more waits")
	}
}
