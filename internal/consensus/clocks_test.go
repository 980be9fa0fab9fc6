package consensus

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
)

func TestTheMedianIsNotMovedByOneWrongClock(t *testing.T) {
	t.Parallel()
	const now, minute, year = (1 << 30) * time.Second, time.Minute, 365 * 24 * time.Hour
	for name, c := range map[string]struct {
		known        []time.Duration
		voters       int
		enough, sure bool
		median       time.Duration
	}{
		"a single voter has its own":                     {[]time.Duration{now}, 1, true, true, now},
		"of two the lower":                               {[]time.Duration{now, now + year}, 2, true, true, now},
		"of three one is behind":                         {[]time.Duration{now - year, now, now + 1}, 3, true, true, now},
		"of three one is ahead":                          {[]time.Duration{now, now + 1, now + year}, 3, true, true, now + 1},
		"two of three agree":                             {[]time.Duration{now, now + minute}, 3, true, true, now},
		"two of three do not agree":                      {[]time.Duration{now, now + minute + 1}, 3, true, false, now},
		"one of three is a minority":                     {[]time.Duration{now}, 3, false, false, now},
		"one of two is a minority":                       {[]time.Duration{now}, 2, false, false, now},
		"two of five are a minority, though they agree":  {[]time.Duration{now, now}, 5, false, false, now},
		"three of five, one of them ahead":               {[]time.Duration{now, now + 1, now + year}, 5, true, false, now + 1},
		"four of five, one of them behind":               {[]time.Duration{now - year, now, now + 1, now + 2}, 5, true, false, now},
		"five of five, one of them behind and one ahead": {[]time.Duration{now - year, now, now + 1, now + 2, now + year}, 5, true, true, now + 1},
	} {
		s := survey{known: c.known, voters: c.voters}
		if s.majority() != c.enough || s.sure() != c.sure || s.median() != c.median {
			t.Errorf("%s: enough %v, sure %v, median %v", name, s.majority(), s.sure(), s.median())
		}
	}
	if s := (survey{}); s.majority() || s.sure() {
		t.Error("a group whose voters are not known is sure of its clocks")
	}
}

func TestAClockGoesOnAfterItWasTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		own := time.Unix(1000, 5)
		c := newClocks(func() time.Time { return own })
		voters := map[uint64]string{1: "a", 2: "b", 3: "c"}
		s, told := c.of(voters, 1)
		if s.majority() || s.voters != 3 {
			t.Fatalf("at the start: %+v", s)
		}
		c.tell("b", 2000*time.Second, time.Now().Add(-time.Second))
		c.tell("i", 3000*time.Second, time.Now()) // of no voter
		select {
		case <-told:
		default:
			t.Error("that a clock was told is not told")
		}
		time.Sleep(5 * time.Second)
		own = time.Unix(50, 5) // somebody has set it
		if s, _ = c.of(voters, 1); !slices.Equal(s.known, []time.Duration{50*time.Second + 5, 2006 * time.Second}) {
			t.Errorf("after five seconds: %+v", s)
		}
		c.tell("b", 1500*time.Second, time.Now()) // its next process
		c.tell("c", -7, time.Now())
		own = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
		if s, _ = c.of(voters, 1); !slices.Equal(s.known, []time.Duration{0, 1500 * time.Second, clockMax}) {
			t.Errorf("of a new process, and of clocks that cannot be right: %+v", s)
		}
	})
}

func TestNotAnyNumberOfClocksIsRemembered(t *testing.T) {
	t.Parallel()
	c := newClocks(time.Now)
	for n := range clocksMax + 10 {
		c.tell(nodeID(n), 1, time.Now())
	}
	c.tell(nodeID(5), 2, time.Now())
	if len(c.heard) != clocksMax || c.heard[nodeID(5)].wall != 2 {
		t.Errorf("%d clocks are remembered", len(c.heard))
	}
}

// With whole seconds, what was granted since a start and what is granted after the next one in the
// same second had the same tokens.
func TestTokensHaveTheResolutionOfTheClock(t *testing.T) {
	t.Parallel()
	const second = 1_700_000_000 * time.Second
	for wall, want := range map[time.Duration]uint64{
		0:                               0,
		time.Microsecond:                1,
		second:                          1_700_000_000 << 20,
		second + 500*time.Millisecond:   1_700_000_000<<20 + 1<<19,
		second + time.Second - 1:        1_700_000_001<<20 - 1,
		clockMax + 999*time.Millisecond: 1<<52 - 1<<20 + 1047527,
	} {
		if got := fsm.TokensIn(wall); got != want || got > fsm.TokenMax {
			t.Errorf("at %v: %d, not %d", wall, got, want)
		}
	}
}
