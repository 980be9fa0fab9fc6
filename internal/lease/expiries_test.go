package lease_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/lease"
	"pgregory.net/rapid"
)

const (
	stagger = 300 * time.Millisecond
	retry   = 200 * time.Millisecond
)

func session(n uint64) fsm.SessionID { return fsm.SessionID{Number: n} }

func TestSessionIsDueAtItsTTLOnTheRaftLeaderAndStaggerLaterElsewhere(t *testing.T) {
	t.Parallel()
	for _, leads := range []bool{true, false} {
		e := lease.NewExpiries(stagger, retry)
		e.Renewed(session(1), 10, ttl, 0)
		lag := lease.Instant(stagger)
		if leads {
			lag = 0
		}
		first := lease.Instant(ttl) + lag
		due, next := e.Step(first-1, leads, 1000)
		if len(due) != 0 || next != first {
			t.Errorf("raft leader %v, before: due %v, next %v", leads, due, next)
		}
		due, next = e.Step(first, leads, 1000)
		if len(due) != 1 || due[0] != (lease.Due{ID: session(1), Renewed: 10}) {
			t.Errorf("raft leader %v, at: due %v", leads, due)
		}
		if want := first + lag + lease.Instant(retry); next != want {
			t.Errorf("raft leader %v: proposed again at %v, want %v", leads, next, want)
		}
	}
}

func TestNewRaftLeaderDoesNotRestartTheTTL(t *testing.T) {
	t.Parallel()
	e := lease.NewExpiries(stagger, retry)
	e.Renewed(session(1), 10, ttl, 0)
	e.Step(1000*ms, false, 1000)
	if due, _ := e.Step(lease.Instant(ttl), true, 1000); len(due) != 1 {
		t.Error("not due at its TTL on a raft leader elected meanwhile")
	}
}

func TestDuplicateAndOlderRenewalsChangeNothing(t *testing.T) {
	t.Parallel()
	e := lease.NewExpiries(stagger, retry)
	e.Renewed(session(1), 10, ttl, 0)
	e.Renewed(session(1), 10, ttl, 500*ms)
	e.Renewed(session(1), 9, ttl, 600*ms)
	if due, _ := e.Step(lease.Instant(ttl), true, 1000); len(due) != 1 || due[0].Renewed != 10 {
		t.Errorf("due %v", due)
	}
}

func TestRestoredSessionIsTimedAnewSoItIsOnlyLate(t *testing.T) {
	t.Parallel()
	e := lease.NewExpiries(stagger, retry)
	e.Renewed(session(1), 10, ttl, 0)
	e.Renewed(session(2), 11, ttl, 0)
	e.Reset()
	e.Renewed(session(1), 10, ttl, 1000*ms)
	due, next := e.Step(lease.Instant(ttl), true, 1000)
	if len(due) != 0 || next != 2200*ms {
		t.Errorf("due %v, next %v ms", due, next/ms)
	}
	if _, _, known := e.Ended(session(2), 0); known {
		t.Error("a session that the snapshot does not have is still known")
	}
}

func TestEndedSessionAnswersItsAgeAndIsNeverDueAgain(t *testing.T) {
	t.Parallel()
	e := lease.NewExpiries(stagger, retry)
	e.Renewed(session(1), 10, ttl, 100*ms)
	age, was, known := e.Ended(session(1), 1400*ms)
	if age != 1300*time.Millisecond || was != ttl || !known {
		t.Errorf("age %v, ttl %v, known %v", age, was, known)
	}
	if _, _, known := e.Ended(session(1), 1400*ms); known {
		t.Error("ended twice")
	}
	if due, next := e.Step(lease.Never-1, true, 1000); len(due) != 0 || next != lease.Never {
		t.Errorf("due %v, next %v", due, next)
	}
}

func TestSteppingClockNeverMakesASessionDueEarly(t *testing.T) {
	t.Parallel()
	e := lease.NewExpiries(stagger, retry)
	e.Renewed(session(1), 10, ttl, 1000*ms)
	e.Renewed(session(1), 11, ttl, 400*ms) // the clock went back, against its contract
	if due, _ := e.Step(2199*ms, true, 1000); len(due) != 0 {
		t.Error("due early")
	}
}

func TestSessionsAreDueNeverEarlyAndAtMostStaggerPlusRetryLate(t *testing.T) {
	t.Parallel()
	neverEarly(t, func() timed[lease.Due] {
		e, index := lease.NewExpiries(stagger, retry), uint64(0)
		return timed[lease.Due]{
			step: func(now lease.Instant, leads bool) ([]lease.Due, lease.Instant) { return e.Step(now, leads, 1000) },
			key:  func(d lease.Due) uint64 { return d.ID.Number },
			begin: func(t *rapid.T, ttl time.Duration, now lease.Instant) lease.Due {
				index++
				d := lease.Due{ID: session(rapid.Uint64Range(1, 5).Draw(t, "session")), Renewed: index}
				e.Renewed(d.ID, index, ttl, now)
				return d
			},
			end: func(t *rapid.T, number uint64, live bool, now lease.Instant) {
				if _, _, known := e.Ended(session(number), now); known != live {
					t.Fatalf("known %v", known)
				}
			},
		}
	})
}

func TestRenewalWithAShorterTTLIsDueAtItsOwnTime(t *testing.T) {
	t.Parallel()
	e := lease.NewExpiries(stagger, retry)
	e.Renewed(session(1), 10, time.Hour, 0)
	e.Renewed(session(1), 11, ttl, 0)
	if due, _ := e.Step(lease.Instant(ttl), true, 1000); len(due) != 1 {
		t.Error("timed by the longer TTL of the earlier renewal")
	}
}
