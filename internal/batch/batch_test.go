package batch

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Whatever comes, leaves and ends in whatever order: no more than UnderwayMax entries are under
// way, a second one only beside FewMax commands, nobody waits while nothing is under way or just
// few commands are, what travels is in the order of arrival and within the bounds, and everybody
// travels or leaves once.
func TestWhatWaitsTravelsOnceInOrderAndWithinTheBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var l Line[int]
		var underway []int // commands in each entry
		next := 0
		var waiting []*Call[int]
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			switch act := rapid.IntRange(0, 9).Draw(t, "act"); {
			case act < 6: // a command arrives
				if l.Begin() {
					underway = append(underway, 1)
					break
				}
				size := rapid.SampledFrom([]int{1, 100, BytesMax / 3, BytesMax, 2 * BytesMax}).Draw(t, "size")
				c := &Call[int]{Cmd: make([]byte, size), Of: next}
				next++
				if !l.Wait(c) {
					t.Fatal("no room")
				}
				waiting = append(waiting, c)
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
				others := slices.Clone(underway)
				if together := l.End(n); len(together) > 0 {
					underway = append(underway, len(together))
					waiting = travel(t, waiting, together)
				} else if len(waiting) > 0 && (len(others) == 0 || others[0] <= FewMax) {
					t.Fatalf("%d wait beside %v", len(waiting), others)
				}
			}
			if len(underway) > UnderwayMax || len(waiting) > 0 && len(underway) == 0 || l.Waiting() != len(waiting) {
				t.Fatalf("%v under way, %d wait, %d by its own account", underway, len(waiting), l.Waiting())
			}
		}
	})
}

// travel checks what goes and answers who is left.
func travel(t *rapid.T, waiting, together []*Call[int]) []*Call[int] {
	size := 0
	for i, c := range together {
		if c != waiting[i] {
			t.Fatalf("%d goes before %d, which came first", c.Of, waiting[i].Of)
		}
		size += len(c.Cmd)
	}
	left := waiting[len(together):]
	fits := len(left) > 0 && len(together) < CommandsMax && size+len(left[0].Cmd)+overhead*(len(together)+1) <= BytesMax
	if len(together) > CommandsMax || size > BytesMax && len(together) > 1 || fits || len(together) == 0 && len(left) > 0 {
		t.Fatalf("%d commands of %d bytes travel, %d stay", len(together), size, len(left))
	}
	return left
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
	if n := len(l.End(1)); n != CommandsMax {
		t.Fatalf("%d travel together", n)
	}
	if beside := l.End(1); len(beside) != 0 {
		t.Fatalf("%d travel beside them", len(beside))
	}
	if last := l.End(CommandsMax); len(last) != 1 || last[0].Of != CommandsMax {
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
