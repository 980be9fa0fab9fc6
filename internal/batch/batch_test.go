package batch

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Whatever comes, leaves and ends in whatever order: no more than UnderwayMax entries are under
// way, a second one only beside FewMax commands or when ManyMin wait, nobody waits while nothing is
// under way or just few commands are, nor so many beside one entry, what travels is in the order of
// arrival and within the bounds, and everybody travels or leaves once.
func TestWhatWaitsTravelsOnceInOrderAndWithinTheBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var l Line[int]
		var underway []int // commands in each entry
		next := 0
		var waiting []*Call[int]
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			switch act := rapid.IntRange(0, 9).Draw(t, "act"); {
			case act < 6: // commands arrive, now and then as many as are enough
				if l.Begin() {
					underway = append(underway, 1)
					break
				}
				if many := rapid.IntRange(0, 20).Draw(t, "many") == 0; many {
					for range ManyMin - 1 {
						c := &Call[int]{Cmd: make([]byte, 1), Of: next}
						next++
						l.Wait(c)
						waiting = append(waiting, c)
						waiting, underway = travel(t, &l, waiting, underway)
					}
				}
				size := rapid.SampledFrom([]int{1, 100, BytesMax / 3, BytesMax, 2 * BytesMax}).Draw(t, "size")
				c := &Call[int]{Cmd: make([]byte, size), Of: next}
				next++
				if !l.Wait(c) {
					t.Fatal("no room")
				}
				waiting = append(waiting, c)
				waiting, underway = travel(t, &l, waiting, underway)
			case act == 6 && len(waiting) > 0: // somebody gives up
				at := rapid.IntRange(0, len(waiting)-1).Draw(t, "who")
				c := waiting[at]
				waiting = slices.Delete(waiting, at, at+1)
				if !l.Leave(c) || l.Leave(c) {
					t.Fatal("who waits can leave, once")
				}
			case len(underway) > 0: // an answer comes
				at := rapid.IntRange(0, len(underway)-1).Draw(t, "which")
				n := underway[at]
				underway = slices.Delete(underway, at, at+1)
				l.End(n)
				waiting, underway = travel(t, &l, waiting, underway)
			}
			if len(underway) > UnderwayMax || len(waiting) > 0 && len(underway) == 0 || l.Waiting() != len(waiting) {
				t.Fatalf("%v under way, %d wait, %d by its own account", underway, len(waiting), l.Waiting())
			}
		}
	})
}

// travel lets the next entry go, checks it, and returns who is left and what is under way.
func travel(t *rapid.T, l *Line[int], waiting []*Call[int], underway []int) ([]*Call[int], []int) {
	may := len(underway) == 0 || len(underway) == 1 && (underway[0] <= FewMax || len(waiting) >= ManyMin)
	together := l.Next()
	if !may && len(together) > 0 || may && len(waiting) > 0 && len(together) == 0 {
		t.Fatalf("of %d that wait %d travel beside %v", len(waiting), len(together), underway)
	}
	if len(together) == 0 {
		return waiting, underway
	}
	size := 0
	for i, c := range together {
		if c != waiting[i] {
			t.Fatalf("%d goes before %d, which came first", c.Of, waiting[i].Of)
		}
		size += len(c.Cmd)
	}
	left := waiting[len(together):]
	fits := len(left) > 0 && len(together) < CommandsMax && size+len(left[0].Cmd)+overhead*(len(together)+1) <= BytesMax
	if len(together) > CommandsMax || size > BytesMax && len(together) > 1 || fits {
		t.Fatalf("%d commands of %d bytes travel, %d stay", len(together), size, len(left))
	}
	return left, append(underway, len(together))
}

func TestNoMoreThanTheBoundTravelTogether(t *testing.T) {
	t.Parallel()
	var l Line[int]
	for range UnderwayMax {
		if !l.Begin() {
			t.Fatal("one that meets nobody waits")
		}
	}
	for i := range CommandsMax + 1 {
		l.Wait(&Call[int]{Of: i})
	}
	next := func(ended int) []*Call[int] {
		l.End(ended)
		return l.Next()
	}
	if n := len(next(1)); n != CommandsMax {
		t.Fatalf("%d travel together", n)
	}
	if beside := next(1); len(beside) != 0 {
		t.Fatalf("%d travel beside them", len(beside))
	}
	if last := next(CommandsMax); len(last) != 1 || last[0].Of != CommandsMax {
		t.Fatalf("%d travel after them", len(last))
	}
}

func TestTheLineIsBounded(t *testing.T) {
	t.Parallel()
	var l Line[int]
	for range WaitingMax {
		l.Wait(&Call[int]{})
	}
	if l.Wait(&Call[int]{}) || l.Waiting() != WaitingMax {
		t.Fatal("one more waits")
	}
}
