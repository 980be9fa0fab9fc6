package clock

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/lease"
)

// machine is what a system clock reads, under the test's control.
type machine struct {
	awake, wall time.Duration
	slept       time.Duration
	known       bool
	asked       int
}

func (m *machine) clock() *system { return newSystem(m.progress, m.suspended) }

func (m *machine) progress() (awake, wall time.Duration) { return m.awake, m.wall }

func (m *machine) run(d time.Duration) {
	m.awake += d
	m.wall += d
}

func (m *machine) suspended() (time.Duration, bool) {
	m.asked++
	return m.slept, m.known
}

func (m *machine) sleep(d time.Duration) {
	m.wall += d
	m.slept += d
}

func since(before, after lease.Instant) time.Duration { return time.Duration(after - before) }

func TestSleepCountsWhereTheSystemTellsOfIt(t *testing.T) {
	t.Parallel()
	m := &machine{known: true}
	m.slept = time.Hour // before the clock was made
	c := m.clock()
	before := c.Now()
	m.run(time.Second)
	m.sleep(30 * time.Second)
	if got := since(before, c.Now()); got != 31*time.Second {
		t.Errorf("after 1 s awake and 30 s asleep the clock moved by %v", got)
	}
	m.sleep(time.Minute)
	if got := since(before, c.Now()); got != 91*time.Second {
		t.Errorf("after a second sleep the clock had moved by %v", got)
	}
}

func TestStepsOfTheWallClockMoveNothing(t *testing.T) {
	t.Parallel()
	m := &machine{known: true}
	c := m.clock()
	before := c.Now()
	for _, step := range []time.Duration{time.Hour, -2 * time.Hour, 20 * time.Millisecond, -24 * time.Hour} {
		m.wall += step
		m.run(time.Second)
		now := c.Now()
		if got := since(before, now); got != time.Second {
			t.Errorf("step of %v: the clock moved by %v in a second", step, got)
		}
		before = now
	}
}

func TestAStepDuringSleepHidesNoSleep(t *testing.T) {
	t.Parallel()
	m := &machine{known: true}
	c := m.clock()
	before := c.Now()
	m.sleep(time.Minute)
	m.wall -= time.Hour
	if got := since(before, c.Now()); got != time.Minute {
		t.Errorf("the clock moved by %v during a minute of sleep", got)
	}
}

func TestAJumpForwardCountsWhereTheSystemSaysNothing(t *testing.T) {
	t.Parallel()
	m := &machine{}
	c := m.clock()
	before := c.Now()
	m.wall += time.Minute
	if got := since(before, c.Now()); got != time.Minute {
		t.Errorf("a jump forward by a minute moved the clock by %v", got)
	}
	m.wall -= time.Hour
	if got := since(before, c.Now()); got != time.Minute {
		t.Errorf("a jump back moved the clock to %v", got)
	}
	if got := since(before, c.Progress()); got != 0 {
		t.Errorf("to the others the clock shows %v", got)
	}
}

func TestTheSystemIsAskedOncePerParting(t *testing.T) {
	t.Parallel()
	m := &machine{known: true}
	c := m.clock()
	m.asked = 0
	for range 100 {
		m.run(time.Second)
		c.Now()
	}
	m.sleep(time.Minute)
	for range 100 {
		m.run(time.Second)
		c.Now()
	}
	if m.asked != 1 {
		t.Errorf("asked %d times for one sleep", m.asked)
	}
}

func TestConcurrentReadersNeverSeeTheClockGoBack(t *testing.T) {
	t.Parallel()
	c := System()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			last := c.Now()
			for range 100_000 {
				now := c.Now()
				if now < last {
					t.Errorf("%d after %d", now, last)
					return
				}
				last = now
			}
		})
	}
	wg.Wait()
}

func TestSystemFollowsVirtualTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := System()
		before := c.Now()
		<-time.After(time.Hour)
		if got := since(before, c.Now()); got != time.Hour {
			t.Errorf("a virtual hour moved the clock by %v", got)
		}
	})
}

func TestReadingTheClockAllocatesNothing(t *testing.T) {
	c := System()
	if n := testing.AllocsPerRun(1000, func() { c.Now() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestTheFirstReadingIsNotTheZeroInstant(t *testing.T) {
	t.Parallel()
	if System().Now() <= 0 || NewManual().Now() <= 0 {
		t.Error("a new clock reads zero or less, which callers take for never")
	}
}

func BenchmarkSystem(b *testing.B) {
	c := System()
	for b.Loop() {
		c.Now()
	}
}
