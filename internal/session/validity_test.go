package session

import (
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/lease"
)

// Mutants showed that no test looked at these: a fleet in good health answers so fast that counting
// from the answer does no harm, and a lease seldom ends in the moment in which it is renewed.

// timed is a table, and a session of it whose first command was sent an hour before now.
func timed(t *testing.T) (table *Table, s *Session, now, sent lease.Instant) {
	t.Helper()
	table = newTable()
	c, _ := asks(t, table, 24*time.Hour, false, begins)
	return table, c.Session, begins.Add(time.Hour), begins
}

func TestValidityCountsFromBeforeTheFirstCommandWasSent(t *testing.T) {
	t.Parallel()
	table, s, now, sent := timed(t)
	if !table.Opened(s, false, now) || s.Until() != lease.ValidUntil(sent, s.TTL(), 0) {
		t.Errorf("valid until %v after the first command was sent", s.Until().Sub(sent))
	}
	sound(t, table, now)
}

// Many calls that open one session have their grants from one entry of the log. One that came
// between the first of them and the validity that it set found a session without validity, and
// ended it for all.
func TestCallsThatOpenASessionAtOnceAllFindItValid(t *testing.T) {
	t.Parallel()
	for range 200 {
		table, s, now, _ := timed(t)
		var all sync.WaitGroup
		table.mu.Lock() // the first of them gets no further than here
		for range 8 {
			all.Go(func() {
				if !table.Opened(s, false, now) || !table.Alive(s, now) {
					t.Error("not valid")
				}
			})
		}
		for range 100 {
			runtime.Gosched()
		}
		table.mu.Unlock()
		all.Wait()
		if t.Failed() {
			return
		}
	}
}

func TestValidityCountsFromBeforeTheRenewalWasSent(t *testing.T) {
	t.Parallel()
	table, s, now, _ := timed(t)
	table.Opened(s, false, now)
	k, sent := table.Renewal(now, s), now
	now = now.Add(time.Hour)
	table.Answered(k, fsm.Outcome{}, now)
	if s.Until() != lease.ValidUntil(sent, s.TTL(), 0) {
		t.Errorf("valid until %v after the renewal was sent", s.Until().Sub(sent))
	}
	sound(t, table, now)
}

// A holder that was told that its lease is not valid is never told that it is, whatever answer comes
// later.
func TestValidityThatWasDeniedDoesNotComeBack(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*Session){
		"lapsed":             func(s *Session) { s.Lapse(s.Until()) },
		"ended by the group": func(s *Session) { s.endedByGroup(ErrExpired) },
		"over":               func(s *Session) { s.end(errors.New("over")) },
	} {
		table, s, now, _ := timed(t)
		table.Opened(s, false, now)
		end(s)
		if s.Until() != never {
			t.Errorf("%s: valid until %v", name, s.Until())
		}
		if s.extend(now.Add(time.Hour)) || s.Until() != never {
			t.Errorf("%s: a renewal made it valid until %v", name, s.Until())
		}
	}
}

// A renewal came between a holder's look at the end of its validity and at the clock: Valid was false, and
// true at the next call.
func TestAnEndThatARenewalHasMovedIsNotTheEnd(t *testing.T) {
	t.Parallel()
	table, s, now, _ := timed(t)
	table.Opened(s, false, now)
	seen := s.Until()
	if !s.extend(seen.Add(time.Second)) || s.Lapse(seen) || s.Until() == never {
		t.Error("the end that was seen before the renewal counts")
	}
	if !s.Lapse(s.Until()) || !s.Lapse(seen) {
		t.Error("a validity that is over is not told")
	}
}

// The local apply tells of the end of a session that there was. Of one that the group has never
// known, because the command that was to open it got lost, the outcome of a keepalive alone does.
func TestASessionThatTheGroupDoesNotKnowIsOver(t *testing.T) {
	t.Parallel()
	table, s, now, _ := timed(t)
	table.Opened(s, false, now)
	table.Answered(table.Renewal(now, s), fsm.Outcome{Lost: []uint64{s.id.Number}}, now)
	if _, _, err := s.Begin(now); !errors.Is(err, ErrExpired) {
		t.Errorf("a further call was told %v", err)
	}
	sound(t, table, now)
}

func TestAHolderIsWarnedOnceAndThenThatItIsSafeAgain(t *testing.T) {
	t.Parallel()
	table, now, h := newTable(), begins, &hold{}
	c, _ := asks(t, table, time.Hour, false, now)
	table.Opened(c.Session, false, now)
	if !h.take(c, 1, Terms{}, now) {
		t.Fatal("not taken")
	}
	now = now.Add(40 * time.Minute)
	work := table.Step(now)
	table.Step(now)
	if len(work.Keepalives) != 1 || len(h.warnings) != 1 || h.warnings[0] {
		t.Fatalf("%d keepalives, warnings %v", len(work.Keepalives), h.warnings)
	}
	table.Answered(work.Keepalives[0], fsm.Outcome{}, now.Add(time.Second))
	if len(h.warnings) != 2 || !h.warnings[1] || !h.valid(now.Add(50*time.Minute)) {
		t.Errorf("warnings %v, valid for %v", h.warnings, h.grant.Remaining(now))
	}
	sound(t, table, now)
}

// ending is a holder that does something when its lease ends.
type ending struct {
	hold
	then func()
}

func (e *ending) Ended(error) { e.then() }

// One session lapses in the Step that finds the renewal of another in trouble, and while the holders of
// the former are told, the renewal of the latter is answered. Its holder heard that all is well, and then
// that it is not, and nothing more: it paused for good.
func TestTroubleIsNotToldAfterItsEnd(t *testing.T) {
	t.Parallel()
	table, now := newTable(), begins
	long, _ := asks(t, table, 90*time.Second, false, now)
	short, _ := asks(t, table, time.Minute, false, now)
	kept, lost := &hold{}, &ending{}
	table.Opened(long.Session, false, now)
	table.Opened(short.Session, false, now)
	if !kept.take(long, 1, Terms{}, now) || !short.Take(&lost.grant, lost, "lost", 2, Terms{}, now) {
		t.Fatal("not taken")
	}
	now = now.Add(62 * time.Second)
	k := table.Renewal(now, long.Session)
	told := 0
	lost.then = func() {
		told++
		table.Answered(k, fsm.Outcome{}, now)
	}
	table.Step(now)
	if told != 1 || len(kept.warnings) == 0 || !kept.warnings[len(kept.warnings)-1] {
		t.Errorf("%d leases ended, and the other holder was told %v", told, kept.warnings)
	}
}

// A holder that has changed its TTL once renews for that one from then on: Renew sends what TTL says.
func TestASessionHasTheTTLThatTheGroupLastAgreedTo(t *testing.T) {
	t.Parallel()
	table, now := newTable(), begins
	c, _ := asks(t, table, time.Minute, true, now)
	s := c.Session
	table.Opened(s, false, now)
	k := table.Retiming(now, s, time.Hour)
	if s.TTL() != time.Minute {
		t.Errorf("%v before the group has agreed", s.TTL())
	}
	table.Answered(k, fsm.Outcome{}, now.Add(time.Second))
	if s.TTL() != time.Hour || s.Until() != lease.ValidUntil(now, time.Hour, 0) {
		t.Errorf("TTL %v, valid for %v", s.TTL(), s.Until().Sub(now))
	}
	sound(t, table, now)
}
