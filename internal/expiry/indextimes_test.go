package expiry

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/lease"
)

// The age is shown to people. It may be rough, and must cost no more memory on a node that runs for
// a year.
func TestTheAgeOfACommandIsKnownRoughlyAndInBoundedMemory(t *testing.T) {
	t.Parallel()
	const commands, gap = 200_000, 20 * time.Millisecond
	var a IndexTimes
	if _, known := a.At(1, noon); known {
		t.Error("the age of a command is known before there is one")
	}
	at := func(n int) lease.Instant { return noon.Add(time.Duration(n) * gap) }
	for n := range commands {
		a.Note(uint64(n+1), at(n+1))
	}
	if len(a.samples) > samplesMax {
		t.Errorf("%d samples are kept, at most %d", len(a.samples), samplesMax)
	}
	for _, n := range []int{commands / 2, commands - 1, commands} {
		got, known := a.At(uint64(n), at(commands))
		if off := got.Sub(at(n)); !known || off < 0 || off > commands*gap/500 {
			t.Errorf("command %d was applied %v later than it was, known %v", n, off, known)
		}
	}
	if got, _ := a.At(commands+1, at(commands+7)); got != at(commands+7) {
		t.Error("what is not applied yet is not of now")
	}
	if d := a.Between(commands/2, commands, at(commands)); (d - commands/2*gap).Abs() > commands*gap/500 {
		t.Errorf("between the middle and the end lie %v", d)
	}
	a.Note(commands+1, at(commands)+2)
	if got, _ := a.At(commands+1, at(commands)+1); got != at(commands)+1 {
		t.Error("a command was applied after the moment at which one looks: what remains would be more than the whole")
	}
	a.Restore(5, noon)
	if _, known := a.At(4, noon); known {
		t.Error("the age of what came as a whole is known")
	}
}
