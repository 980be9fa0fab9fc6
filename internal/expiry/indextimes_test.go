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

// A client learns what its replica remembers: for what was before its own memory, and for the state
// that it was given as a whole.
func TestWhatAnotherNodeRemembersIsLearntAndNeverMoreThanThat(t *testing.T) {
	t.Parallel()
	const s = lease.Instant(time.Second)
	var other IndexTimes
	other.Restore(10, noon) // it remembers nothing before
	for n := range uint64(90) {
		other.Note(11+n, noon+lease.Instant(n+1)*s)
	}
	now := noon + 95*s                    // 100 was applied at 90 s
	const behind = lease.Instant(1e6) * s // of the clock of the one that learns
	check := func(what string, a *IndexTimes, number uint64, want lease.Instant, known bool) {
		t.Helper()
		if got, ok := a.At(number, now-behind); ok != known || ok && got != want-behind {
			t.Errorf("%s: command %d was applied at %v, known %v; want %v, %v", what, number, got+behind-noon, ok, want-noon, known)
		}
	}
	var fresh IndexTimes
	fresh.Learn(other.Ages(now), now-behind)
	check("of nothing", &fresh, 9, 0, false)
	check("of nothing", &fresh, 10, noon, true)
	check("of nothing", &fresh, 50, noon+40*s, true)
	check("of nothing", &fresh, 101, now, true)

	var after IndexTimes // it was told up to 40, then got the state of 97
	after.Note(40, noon+31*s-behind)
	after.Restore(97, noon+94*s-behind)
	after.Learn(other.Ages(now), now-behind)
	after.Note(101, now-behind)
	for n := uint64(11); n <= 97; n++ {
		check("after a gap", &after, n, noon+lease.Instant(n-10)*s, true)
	}
	check("after a gap", &after, 101, now, true)

	var ahead IndexTimes // its state is later than all that the other was told of
	ahead.Restore(120, now-behind)
	ahead.Learn(other.Ages(now), now-behind)
	check("ahead", &ahead, 100, noon+90*s, true)
	check("ahead", &ahead, 101, now, true)

	var longer IndexTimes // it has been there for longer than the other
	longer.Note(3, noon-100*s-behind)
	longer.Note(60, noon+50*s-behind)
	longer.Learn(other.Ages(now), now-behind)
	check("of a younger one", &longer, 3, noon-100*s, true)
	check("of a younger one", &longer, 60, noon+50*s, true)

	longer.Forget()
	check("forgotten", &longer, 60, 0, false)
	longer.Learn(longer.Ages(now), now)
	check("of one that knows nothing", &longer, 60, 0, false)
}

func TestWhatIsLearntTakesNoMoreMemory(t *testing.T) {
	t.Parallel()
	var other, own IndexTimes
	for n := range uint64(samplesMax) {
		other.Note(n, noon+lease.Instant(n)*lease.Instant(time.Second))
		own.Note(samplesMax+n, noon+lease.Instant(samplesMax+n)*lease.Instant(time.Second))
	}
	now := noon + 2*samplesMax*lease.Instant(time.Second)
	own.Learn(other.Ages(now), now)
	if len(own.samples) > samplesMax {
		t.Errorf("%d samples", len(own.samples))
	}
	if at, known := own.At(samplesMax/2, now); !known || at.Sub(noon) < samplesMax/2*time.Second || at.Sub(noon) > (samplesMax/2+2)*time.Second {
		t.Errorf("%v after noon, known %v", at.Sub(noon), known)
	}
}

// The numbers begin anew with another group, and with a replica that applies the log again.
func TestALowerNumberEndsWhatWasKnown(t *testing.T) {
	t.Parallel()
	var a IndexTimes
	a.Note(100, noon)
	a.Note(5, noon+lease.Instant(time.Hour))
	if at, known := a.At(5, noon+lease.Instant(time.Hour)); !known || at != noon+lease.Instant(time.Hour) {
		t.Errorf("it is as old as a command of the former group: %v, %v", at, known)
	}
}

// Found with the command holdfast: of three nodes that had just started one never knew for how long the
// lock of a leader was held, as the first sample took in the grant.
func TestMemoryBeginsWithTheFirstCommandAndNotWithWhatComesJustAfterIt(t *testing.T) {
	t.Parallel()
	var a IndexTimes
	a.Restore(10, noon)
	soon := noon + lease.Instant(sampleGap/5)
	a.Note(11, soon)
	a.Note(12, soon+1)
	if at, known := a.At(11, noon+lease.Instant(time.Minute)); !known || at < soon || at > soon+1 {
		t.Errorf("%v after it came as a whole, known %v", at.Sub(noon), known)
	}
	if _, known := a.At(9, noon+lease.Instant(time.Minute)); known {
		t.Error("what was before is known")
	}
}
