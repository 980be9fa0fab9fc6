package lease_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/lease"
	"pgregory.net/rapid"
)

func place(token uint64) fsm.Grant { return fsm.Grant{Name: "x", Token: token} }

func TestARestIsDueAtItsTimeOnTheRaftLeaderAndStaggerLaterElsewhere(t *testing.T) {
	t.Parallel()
	for _, leads := range []bool{true, false} {
		e := lease.NewTimers(stagger, retry)
		e.RestBegan(place(1), ttl, 0)
		first := lease.Instant(ttl)
		if !leads {
			first += lease.Instant(stagger)
		}
		if due, next := e.RestsDue(first-1, leads, 64); len(due) != 0 || next != first {
			t.Errorf("raft leader %v, before: due %v, next %v", leads, due, next)
		}
		if due, next := e.RestsDue(first, leads, 64); len(due) != 1 || due[0] != fsm.EndRest(place(1)) || next <= first {
			t.Errorf("raft leader %v, at: due %v, next %v", leads, due, next)
		}
		e.RestEnded(place(1))
		if due, next := e.RestsDue(lease.Never-1, leads, 64); len(due) != 0 || next != lease.Never || e.Len() != 0 {
			t.Errorf("raft leader %v, after its end: due %v, next %v", leads, due, next)
		}
	}
}

// A replica that was restored does not know how old a rest is: it must not end it by what it knew
// before.
func TestARestThatIsTimedAnewIsOnlyLate(t *testing.T) {
	t.Parallel()
	e := lease.NewTimers(stagger, retry)
	e.RestBegan(place(1), ttl, 0)
	e.Reset()
	e.RestBegan(place(1), ttl, 1000*ms)
	if due, next := e.RestsDue(lease.Instant(ttl), true, 64); len(due) != 0 || next != lease.Instant(ttl)+1000*ms {
		t.Errorf("due %v, next %v", due, next)
	}
}

func TestNoMoreRestsAreDueAtATimeThanTheCallerTakes(t *testing.T) {
	t.Parallel()
	e := lease.NewTimers(stagger, retry)
	for token := range uint64(5) {
		e.RestBegan(place(token+1), ttl, 0)
	}
	now := lease.Instant(ttl)
	due, next := e.RestsDue(now, true, 3)
	if len(due) != 3 || next != now {
		t.Fatalf("%d due, next %v", len(due), next)
	}
	if due, next = e.RestsDue(now, true, 3); len(due) != 2 || next != now.Add(retry) {
		t.Errorf("%d due, next %v", len(due), next)
	}
}

// A turn that is proposed before its period is over lets keys be forgotten early; one that nobody
// proposes lets them be remembered for ever. A new raft leader goes on with what it has timed all
// along.
func TestATurnIsDueOnePeriodAfterTheOneBefore(t *testing.T) {
	t.Parallel()
	e := lease.NewTimers(stagger, retry)
	class := []fsm.Class{{Keep: time.Second, Last: 7}}
	period := lease.Instant(fsm.OncePeriod(time.Second))
	e.TurnsDue(0, false, class)
	if due, _ := e.TurnsDue(period-1, true, class); len(due) != 0 {
		t.Fatalf("early: %v", due)
	}
	due, next := e.TurnsDue(period, true, class)
	if len(due) != 1 || due[0] != fsm.Command(fsm.Turn{Keep: time.Second, Last: 7}) || next != period.Add(retry) {
		t.Fatalf("due %v, next %v", due, next)
	}
	if due, _ = e.TurnsDue(next-1, true, class); len(due) != 0 {
		t.Errorf("at once again: %v", due)
	}
	if due, _ = e.TurnsDue(next, true, class); len(due) != 1 {
		t.Error("a turn that was lost is not proposed again")
	}
	class[0].Last = 9
	at := next + 10*ms
	e.TurnsDue(at, true, class)
	if due, _ = e.TurnsDue(at+period-1, true, class); len(due) != 0 {
		t.Errorf("the next one is early: %v", due)
	}
	if due, _ = e.TurnsDue(at+period, true, class); len(due) != 1 {
		t.Error("the next one does not come")
	}
}

// A node that stood still for minutes must not flood the group with turns: one, and then one for
// each retry.
func TestAfterALongPauseOneTurnIsProposedAtATime(t *testing.T) {
	t.Parallel()
	e := lease.NewTimers(stagger, retry)
	class := []fsm.Class{{Keep: time.Second, Last: 7}}
	e.TurnsDue(0, true, class)
	proposed := 0
	for now := lease.Instant(0).Add(time.Minute); now < lease.Instant(0).Add(time.Minute+retry); now += ms {
		due, _ := e.TurnsDue(now, true, class)
		proposed += len(due)
	}
	if proposed != 1 {
		t.Errorf("%d turns within the time of one retry", proposed)
	}
}

func TestOnlyTheRaftLeaderSweeps(t *testing.T) {
	t.Parallel()
	for _, leads := range []bool{true, false} {
		e := lease.NewTimers(stagger, retry)
		due, _ := e.TurnsDue(0, leads, []fsm.Class{{Keep: time.Second, Last: 7, Over: 5}})
		if swept := len(due) == 1 && due[0] == fsm.Command(fsm.Sweep{Keep: time.Second, Upto: 5}); swept != leads {
			t.Errorf("raft leader %v: %v", leads, due)
		}
	}
}

// A million keys fall due at one turn, and each answer of the group wakes the timekeeper: the sweeps came
// one after the other as fast as the log committed them.
func TestSweepsAreApartHoweverOftenOneAsks(t *testing.T) {
	t.Parallel()
	e := lease.NewTimers(stagger, retry)
	class := []fsm.Class{{Keep: time.Hour, Last: 7, Over: 5}}
	sweeps := 0
	const steps = 1000
	for now := lease.Instant(0); now < steps*ms; now += ms {
		due, next := e.TurnsDue(now, true, class)
		sweeps += len(due)
		if next <= now || next > now.Add(50*time.Millisecond) {
			t.Fatalf("at %v the next look is at %v", now, next)
		}
	}
	if sweeps != steps/50 {
		t.Errorf("%d sweeps in a second", sweeps)
	}
}

func TestRestsAreDueNeverEarlyAndAtMostStaggerPlusRetryLate(t *testing.T) {
	t.Parallel()
	neverEarly(t, func() timed[fsm.EndRest] {
		e, token := lease.NewTimers(stagger, retry), uint64(0)
		return timed[fsm.EndRest]{
			step: func(now lease.Instant, leads bool) ([]fsm.EndRest, lease.Instant) {
				return e.RestsDue(now, leads, 1000)
			},
			key: func(d fsm.EndRest) uint64 { return d.Token },
			begin: func(_ *rapid.T, d time.Duration, now lease.Instant) fsm.EndRest {
				token++
				e.RestBegan(place(token), d, now)
				return fsm.EndRest(place(token))
			},
			end: func(_ *rapid.T, token uint64, _ bool, _ lease.Instant) { e.RestEnded(place(token)) },
		}
	})
}

// Nothing else happens in a group whose only business is the end of a node with a million locks:
// each step has to be proposed as soon as the one before was taken, by somebody, and again if it
// was lost on the way.
func TestAStepIsDueOnTheRaftLeaderAtOnceAndStaggerLaterElsewhere(t *testing.T) {
	t.Parallel()
	for _, leads := range []bool{true, false} {
		lag := lease.Instant(stagger)
		if leads {
			lag = 0
		}
		e := lease.NewTimers(stagger, retry)
		for i, last := range []uint64{0, 7, 9} {
			seen := lease.Instant(i) * 1000 * ms
			if due, next := e.StepDue(seen, leads, last, true); due != leads || !leads && next != seen+lag {
				t.Errorf("raft leader %v, step %d, when it is seen: due %v, next %v", leads, i, due, next)
			}
			if due, _ := e.StepDue(seen+lag, leads, last, true); due == leads {
				t.Errorf("raft leader %v, step %d, in its time: due %v", leads, i, due)
			}
			again := seen + lag + lag + lease.Instant(retry)
			if due, _ := e.StepDue(again-1, leads, last, true); due {
				t.Errorf("raft leader %v, step %d: due again at once", leads, i)
			}
			if due, _ := e.StepDue(again, leads, last, true); !due {
				t.Errorf("raft leader %v, step %d: never due again", leads, i)
			}
		}
		if due, next := e.StepDue(9000*ms, leads, 9, false); due || next != lease.Never {
			t.Errorf("raft leader %v, nothing left: due %v, next %v", leads, due, next)
		}
		if due, _ := e.StepDue(9000*ms, leads, 9, true); due != leads {
			t.Errorf("raft leader %v, another end that goes on with the same step: due %v", leads, due)
		}
	}
}
