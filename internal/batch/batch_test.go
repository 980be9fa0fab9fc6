package batch

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// In any order of arrivals, withdrawals, answers and commands put off: at most UnderwayMax entries
// are under way, a second one only beside FewMax commands or when ManyMin wait; no command waits
// without need; an entry is in the order of arrival of each line, the small commands first, and
// within the bounds; both lines are served; commands that were put off go first; and each command is
// in an entry until it is carried out, or is removed once.
func TestCommandsAreBatchedOnceInOrderAndWithinTheBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		q := checked{T: t}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			switch act := rapid.IntRange(0, 9).Draw(t, "act"); {
			case act < 6: // commands arrive, now and then as many as are enough
				q.arrive()
			case act == 6 && q.waits() > 0: // a caller gives up
				c := rapid.SampledFrom(slices.Concat(q.small, q.large)).Draw(t, "waiting")
				q.forget(c)
				if !q.Remove(c) || q.Remove(c) {
					t.Fatal("a call that waits can be removed, once")
				}
			case act == 7 && len(q.underway) > 0: // a caller gives up too late
				entry := rapid.SampledFrom(q.underway).Draw(t, "of").Calls
				if len(entry) > 1 && q.Remove(rapid.SampledFrom(entry).Draw(t, "caller")) {
					t.Fatal("a call under way was removed")
				}
			case len(q.underway) > 0: // an answer comes
				q.answer()
			}
			if len(q.underway) > UnderwayMax || q.waits() > 0 && len(q.underway) == 0 || q.Len() != q.waits() {
				t.Fatalf("%d under way, %d wait, %d by its own account", len(q.underway), q.waits(), q.Len())
			}
		}
	})
}

// checked is a Queue, and what a test expects of it.
type checked struct {
	*rapid.T
	Queue[int]
	next         int
	small, large []*Call[int]
	underway     []Entry[int]
	quiet        int // entries since a small command came
}

func (q *checked) waits() int { return len(q.small) + len(q.large) }

func (q *checked) forget(c *Call[int]) {
	is := func(other *Call[int]) bool { return other == c }
	q.small, q.large = slices.DeleteFunc(q.small, is), slices.DeleteFunc(q.large, is)
}

// arrive has one command come, or now and then as many as are enough.
func (q *checked) arrive() {
	if q.Begin() {
		q.underway, q.quiet = append(q.underway, Entry[int]{Calls: []*Call[int]{{}}}), 0
		return
	}
	if many := rapid.IntRange(0, 20).Draw(q.T, "many") == 0; many {
		cost := rapid.SampledFrom([]int{1, 64}).Draw(q.T, "of")
		for range ManyMin - 1 {
			q.wait(1, cost)
		}
	}
	q.wait(rapid.SampledFrom([]int{1, 100, BytesMax / 3, BytesMax, 2 * BytesMax}).Draw(q.T, "size"),
		rapid.SampledFrom([]int{1, LargeMin - 1, LargeMin, 64, CostMax / 3, 2 * CostMax}).Draw(q.T, "cost"))
}

func (q *checked) wait(size, cost int) {
	c := &Call[int]{Cmd: make([]byte, size), Cost: cost, Of: q.next}
	q.next++
	if !q.Push(c) {
		q.Fatal("no room")
	}
	if cost < LargeMin {
		q.small, q.quiet = append(q.small, c), 0
	} else {
		q.large = append(q.large, c)
	}
	q.start()
}

// answer ends an entry, of which the last commands were put off.
func (q *checked) answer() {
	at := rapid.IntRange(0, len(q.underway)-1).Draw(q.T, "which")
	e := q.underway[at]
	q.underway = slices.Delete(q.underway, at, at+1)
	if len(e.Calls) == 1 && e.Calls[0].Cmd == nil && e.Calls[0].Cost == 0 {
		q.Alone()
	} else {
		later := e.Calls[rapid.IntRange(1, len(e.Calls)).Draw(q.T, "carried out"):]
		q.End(e, later)
		stay := slices.DeleteFunc(slices.Clone(later), func(c *Call[int]) bool { return c.Cmd == nil })
		large := slices.IndexFunc(stay, func(c *Call[int]) bool { return c.Cost >= LargeMin })
		if large < 0 {
			large = len(stay)
		}
		q.small, q.large = slices.Concat(stay[:large], q.small), slices.Concat(stay[large:], q.large)
	}
	q.start()
}

// start starts the next entry, and checks it.
func (q *checked) start() {
	largeBefore, commands := 0, 0
	for _, e := range q.underway {
		commands += len(e.Calls)
		for _, c := range e.Calls {
			if c.Cost >= LargeMin {
				largeBefore += c.Cost
			}
		}
	}
	may := len(q.underway) == 0 || len(q.underway) == 1 && (commands <= FewMax || q.waits() >= ManyMin)
	e := q.Next()
	small := slices.IndexFunc(e.Calls, func(c *Call[int]) bool { return c.Cost >= LargeMin })
	if small < 0 {
		small = len(e.Calls)
	}
	large := len(e.Calls) - small
	crowded := len(q.small) > 0 || q.quiet < quietMin
	held := crowded && largeBefore > 0 // large commands may have to wait for others
	if !may && len(e.Calls) > 0 || may && len(e.Calls) == 0 && (len(q.small) > 0 || len(q.large) > 0 && !held) {
		q.Fatalf("of %d that wait %d are batched beside %d entries", q.waits(), len(e.Calls), len(q.underway))
	}
	if len(e.Calls) == 0 {
		return
	}
	if !slices.Equal(e.Calls[:small], q.small[:small]) || !slices.Equal(e.Calls[small:], q.large[:large]) {
		q.Fatalf("an entry of %d small and %d large ones is not in the order of arrival", small, large)
	}
	if len(q.large) > 0 && large == 0 && !held {
		q.Fatal("the large ones get nothing")
	}
	size, cost, largeCost := 0, 0, 0
	for i, c := range e.Calls {
		size, cost = size+len(c.Cmd)+overhead, cost+c.Cost
		if i >= small {
			largeCost += c.Cost
		}
	}
	if crowded && largeBefore+largeCost > LargeMax && (large > 1 || large == 1 && largeBefore > 0) {
		q.Fatalf("large ones of cost %d go beside others of %d while small ones come", largeCost, largeBefore)
	}
	q.small, q.large, q.quiet = q.small[small:], q.large[large:], q.quiet+1
	fits := len(q.small) > 0 && len(e.Calls) < CommandsMax && size+q.small[0].size() <= BytesMax && cost+q.small[0].Cost <= CostMax
	if len(e.Calls) > CommandsMax || (size > BytesMax || cost > CostMax) && len(e.Calls) > 1 || fits {
		q.Fatalf("%d commands of %d bytes and cost %d are batched, %d stay", len(e.Calls), size, cost, len(q.small))
	}
	q.underway = append(q.underway, e)
}

// Sets alone fill an entry: nobody waits behind them.
func TestLargeCommandsFillAnEntryWhereNoSmallOnesCome(t *testing.T) {
	t.Parallel()
	var q Queue[int]
	q.Begin()
	for range 1000 {
		q.Push(&Call[int]{Cost: 64})
	}
	q.Alone()
	for i := range quietMin + 1 {
		e := q.Next()
		want := LargeMax / 64
		if i >= quietMin {
			want = CostMax / 64
		}
		if len(e.Calls) != want {
			t.Fatalf("entry %d has %d, not %d", i, len(e.Calls), want)
		}
		q.End(e, nil)
	}
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
	q.Alone()
	full := q.Next()
	if n := len(full.Calls); n != CommandsMax {
		t.Fatalf("%d share an entry", n)
	}
	q.Alone()
	if beside := q.Next(); len(beside.Calls) != 0 {
		t.Fatalf("%d are batched beside them", len(beside.Calls))
	}
	q.End(full, nil)
	if last := q.Next().Calls; len(last) != 1 || last[0].Of != CommandsMax {
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
	q.Alone()
	many := q.Next()
	q.Alone()
	for i := range 2 {
		q.Push(&Call[int]{Cost: CostMax, Of: i})
	}
	q.End(many, nil)
	if entry := q.Next().Calls; len(many.Calls) != FewMax+1 || len(entry) != 1 || q.Len() != 1 || !q.free() {
		t.Fatalf("%d and %d commands shared an entry, %d wait", len(many.Calls), len(entry), q.Len())
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
