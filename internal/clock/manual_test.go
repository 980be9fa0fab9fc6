package clock

import (
	"testing"
	"time"
)

func TestASkewedClockRunsAtItsRate(t *testing.T) {
	t.Parallel()
	base := NewManual()
	c := Skewed(base, 1.5)
	before := c.Now()
	base.Advance(10 * time.Second)
	if got := since(before, c.Now()); got != 15*time.Second {
		t.Errorf("10 s at rate 1.5: %v", got)
	}
	c.Rate(0.5)
	base.Advance(10 * time.Second)
	if got := since(before, c.Now()); got != 20*time.Second {
		t.Errorf("10 s more at rate 0.5: %v in all", got)
	}
	c.Rate(-3)
	base.Advance(time.Second)
	if got := since(before, c.Now()); got != 20*time.Second {
		t.Errorf("a negative rate took the clock to %v", got)
	}
}

func TestSuspensionIsAJumpForward(t *testing.T) {
	t.Parallel()
	base := NewManual()
	c := Skewed(base, 1)
	before := c.Now()
	c.Suspend(time.Minute)
	c.Suspend(-time.Hour)
	if got := since(before, c.Now()); got != time.Minute {
		t.Errorf("the clock moved by %v", got)
	}
}

func TestAFrozenClockStandsStillAndCatchesUp(t *testing.T) {
	t.Parallel()
	base := NewManual()
	c := Skewed(base, 2)
	before := c.Now()
	c.Freeze()
	base.Advance(time.Second)
	c.Freeze()
	c.Suspend(time.Minute)
	if got := since(before, c.Now()); got != 0 {
		t.Errorf("frozen, the clock moved by %v", got)
	}
	c.Thaw()
	if got := since(before, c.Now()); got != time.Minute+2*time.Second {
		t.Errorf("thawed, the clock had moved by %v", got)
	}
}

func TestAManualClockNeverGoesBack(t *testing.T) {
	t.Parallel()
	m := NewManual()
	before := m.Now()
	m.Advance(-time.Second)
	m.Advance(time.Second)
	if got := since(before, m.Now()); got != time.Second {
		t.Errorf("the clock moved by %v", got)
	}
}

func TestAWrongWallClockMovesNothingElse(t *testing.T) {
	t.Parallel()
	base := NewManual()
	c := Skewed(base, 1)
	base.Advance(time.Minute)
	c.SetWall(time.Hour)
	if ahead := c.Wall().Sub(base.Wall()); ahead != time.Hour {
		t.Errorf("the wall clock is ahead by %v", ahead)
	}
	c.SetWall(-time.Hour)
	if ahead := c.Wall().Sub(base.Wall()); ahead != -time.Hour {
		t.Errorf("the wall clock is ahead by %v", ahead)
	}
	if got := c.Now(); got != base.Now() {
		t.Errorf("the clock shows %v, not %v", got, base.Now())
	}
}

func TestAClockThatThawsLateHasLostTheTime(t *testing.T) {
	t.Parallel()
	base := NewManual()
	c := Skewed(base, 2)
	before, wall := c.Now(), c.Wall()
	c.Suspend(time.Minute)
	c.Freeze()
	base.Advance(time.Hour)
	c.ThawLate()
	c.ThawLate()
	base.Advance(time.Second)
	if now, progress, shown := since(before, c.Now()), since(before, c.Progress()), c.Wall().Sub(wall); now != time.Minute+2*time.Second || progress != 2*time.Second || shown != time.Second {
		t.Errorf("the clock moved by %v, %v without the suspension, the wall clock by %v", now, progress, shown)
	}
}
