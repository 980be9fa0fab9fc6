package session

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/lease"
)

// Seed 6154 of the model: a lease was released before its minimum hold was over, and its session,
// on which nothing hung any more, was closed as unused in the same moment. The end of the session
// came first: the lock was free at once, and the release, which would have kept it taken, found
// nothing to release.
func TestASessionIsNotClosedAsUnusedBeforeTheGroupHeardOfARestThatItsLeaseLeaves(t *testing.T) {
	t.Parallel()
	for name, terms := range map[string]Terms{
		"minimum hold": {MinHold: 40 * time.Hour},
		"lock delay":   {Delay: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			table, now, h := newTable(), begins, &hold{}
			c, _ := asks(t, table, 24*time.Hour, false, now)
			table.Opened(c.Session, false, now)
			if !h.take(c, 1, terms, now) {
				t.Fatal("not taken")
			}
			if !h.grant.Leave(Lost(errors.New("its time is over"))) || h.grant.Leave(ErrReleased) {
				t.Fatal("it did not end, or twice")
			}
			h.grant.ReleaseLater(now)
			now += begins + 24*begins
			if table.retire(c.Session, now) {
				t.Fatal("closed while the release was under way")
			}
			d := table.Owed()
			if cmd, ok := d.Command().(fsm.Release); !ok || cmd.Rest == 0 {
				t.Fatalf("%#v is owed", d.Command())
			}
			d.Paid(fsm.Outcome{}, now)
			now += begins + 24*begins
			if !c.Session.unused(now) {
				t.Error("never closed")
			}
		})
	}
}

// Short runs that no keepalive came upon: the session counted from its first request as unused, and was
// closed while the end of its last lease was under way. The group answered that end with NotHeld, and a
// run that had succeeded ran again.
func TestASessionIsUsedByEachRequest(t *testing.T) {
	t.Parallel()
	const ttl = 15 * time.Second
	table, now, h := newTable(), begins, &hold{}
	c, _ := asks(t, table, ttl, false, now)
	table.Opened(c.Session, false, now)
	if !h.take(c, 1, Terms{}, now) || !h.grant.End(ErrReleased) {
		t.Fatal("not taken, or not ended")
	}
	for range 3 {
		now += lease.Instant(ttl / 2)
		table.Answered(table.Renewal(now, c.Session), fsm.Outcome{}, now)
	}
	c, _ = asks(t, table, ttl, false, now)
	if h = (&hold{}); !h.take(c, 2, Terms{}, now) || !h.grant.End(ErrReleased) {
		t.Fatal("the second is not taken, or not ended")
	}
	if c.Session.unused(now + lease.Instant(ttl/2)) {
		t.Error("it is unused half a TTL after its last request")
	}
	if !c.Session.unused(now + 2*lease.Instant(ttl)) {
		t.Error("it is never closed")
	}
}

func TestAGrantThatWasReleasedSaysWhatBecameOfIt(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		code    fsm.Code
		unknown bool
		past    *fsm.PastGrant
		want    Released
	}{
		"released":                      {code: fsm.CodeOK, want: Done},
		"lost before":                   {code: fsm.CodeStaleToken, want: Stale},
		"released by the first attempt": {code: fsm.CodeStaleToken, unknown: true, past: &fsm.PastGrant{Reason: fsm.ReasonReleased}, want: Done},
		"expired before it came":        {code: fsm.CodeStaleToken, unknown: true, past: &fsm.PastGrant{Reason: fsm.ReasonExpired}, want: Stale},
		"long forgotten":                {code: fsm.CodeStaleToken, unknown: true, want: Unknown},
	} {
		for _, manual := range []bool{false, true} {
			table, h := newTable(), &hold{}
			c, _ := asks(t, table, time.Minute, manual, begins)
			table.Opened(c.Session, false, begins)
			if !h.take(c, 1, Terms{}, begins) || !h.grant.Leave(ErrReleased) {
				t.Fatal("not taken, or not left")
			}
			end := func() *fsm.PastGrant { return x.past }
			if got := h.grant.ReleaseAnswered(fsm.Outcome{Code: x.code}, x.unknown, end); got != x.want {
				t.Errorf("%s: %v", name, got)
			}
			if manual != table.Empty() || table.Owes() || len(h.ended) != 1 || h.grant.Err() != ErrReleased {
				t.Errorf("%s, manual %v: empty %v, owes %v, told of its end %d times: %v",
					name, manual, table.Empty(), table.Owes(), len(h.ended), h.grant.Err())
			}
			sound(t, table, begins)
		}
	}
}

func TestHowLongAPlaceStaysTakenDependsOnHowItsGrantEnded(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		terms Terms
		end   error
		want  time.Duration
	}{
		"no terms":                  {end: ErrReleased},
		"a minimum hold":            {terms: Terms{MinHold: time.Minute}, end: ErrReleased, want: 59 * time.Second},
		"a minimum that is over":    {terms: Terms{MinHold: time.Second}, end: ErrReleased},
		"a delay after a release":   {terms: Terms{Delay: time.Minute}, end: ErrReleased},
		"a delay after a loss":      {terms: Terms{Delay: time.Minute}, end: Lost(ErrExpired), want: time.Minute},
		"both, and the longer wins": {terms: Terms{MinHold: time.Hour, Delay: time.Minute}, end: Lost(nil), want: time.Hour - time.Second},
		"the longest that there is": {terms: Terms{MinHold: 1000 * fsm.RestMax}, end: ErrReleased, want: fsm.RestMax},
	} {
		table, h := newTable(), &hold{}
		c, _ := asks(t, table, time.Minute, false, begins)
		table.Opened(c.Session, false, begins)
		h.take(c, 1, x.terms, begins)
		h.grant.End(x.end)
		if got := h.grant.Rest(begins.Add(time.Second)).Truncate(time.Millisecond); got != x.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Timers stand still while a machine is suspended. After that a lease was valid for as long as its
// session, though the longest time that its holder wanted to have it was over.
func TestAGrantIsValidNoLongerThanItsMaximumAndItsSessionGoesOn(t *testing.T) {
	t.Parallel()
	const most = 10 * time.Second
	table, capped, free := newTable(), &hold{}, &hold{}
	for _, h := range []*hold{capped, free} {
		c, _ := asks(t, table, time.Minute, false, begins)
		table.Opened(c.Session, false, begins)
		terms := Terms{}
		if h == capped {
			terms.MaxHold = most
		}
		if !h.take(c, 1, terms, begins) {
			t.Fatal("not taken")
		}
	}
	over := begins.Add(most)
	if !capped.valid(over-1) || capped.grant.Spent(over-1) {
		t.Error("it ends too early")
	}
	if capped.valid(over) || !capped.grant.Spent(over) || capped.grant.Remaining(over) != 0 {
		t.Errorf("valid until %v, its maximum is %v", capped.grant.Until(), over)
	}
	capped.grant.Lapse(capped.grant.Until())
	if !free.valid(over) || free.grant.Spent(lease.Never-1) {
		t.Error("the end of one lease ends another of its session")
	}
	capped.grant.End(ErrReleased)
	if capped.grant.Until() != never {
		t.Error("a lease that is over is valid")
	}
}
