package lease_test

import (
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/lease"
	"pgregory.net/rapid"
)

const (
	ms  = lease.Instant(time.Millisecond)
	ttl = 1200 * time.Millisecond
)

func noJitter() float64 { return 0 }

// newPlan returns a plan without drift: with this ttl it is valid for 1176 ms after sent, half of
// it 588 ms, a renewal due after 400 ms and again every 100 ms.
func newPlan() *lease.Plan { return lease.NewPlan(0, noJitter) }

func TestAutomaticSessionIsRenewedAtAThirdThenInJeopardyAtHalfThenLostAtTheEndOfItsValidity(t *testing.T) {
	t.Parallel()
	p := newPlan()
	p.Open(7, ttl, 0, true)
	var at []lease.Instant
	jeopardy, lost := lease.Instant(-1), lease.Instant(-1)
	for now := lease.Instant(0); now < 2000*ms; {
		a := p.Step(now)
		if len(a.Renew) > 0 {
			at = append(at, now/ms)
		}
		if len(a.Jeopardy) > 0 && jeopardy < 0 {
			jeopardy = now / ms
		} else if len(a.Jeopardy) > 0 {
			t.Errorf("jeopardy again at %v", now/ms)
		}
		if len(a.Lost) > 0 && lost < 0 {
			lost = now / ms
		} else if len(a.Lost) > 0 {
			t.Errorf("lost again at %v", now/ms)
		}
		if a.Next <= now {
			t.Fatalf("next step at %v is not after now %v", a.Next, now)
		}
		now = a.Next
	}
	if want := []lease.Instant{400, 500, 600, 700, 800, 900, 1000, 1100}; !slices.Equal(at, want) {
		t.Errorf("renewals at %v ms, want %v", at, want)
	}
	if jeopardy != 588 || lost != 1176 {
		t.Errorf("jeopardy at %v ms, lost at %v ms; want 588 and 1176", jeopardy, lost)
	}
}

func TestManualSessionIsNeverRenewedNorInJeopardyButIsLost(t *testing.T) {
	t.Parallel()
	p := newPlan()
	validUntil := p.Open(7, ttl, 0, false)
	if a := p.Step(validUntil - 1); len(a.Renew)+len(a.Jeopardy)+len(a.Lost) != 0 || a.Next != validUntil {
		t.Errorf("before the end of the validity: %+v", a)
	}
	if a := p.Step(validUntil); !slices.Equal(a.Lost, []uint64{7}) || a.Next != lease.Never {
		t.Errorf("at the validUntil: %+v", a)
	}
}

func TestSessionThatStopsBeingAutomaticRunsToItsEndOfValidity(t *testing.T) {
	t.Parallel()
	p := newPlan()
	validUntil := p.Open(7, ttl, 0, true)
	if got := p.Open(7, ttl, 900*ms, false); got != validUntil {
		t.Errorf("opening again moved the validUntil from %v to %v", validUntil, got)
	}
	if a := p.Step(validUntil - 1); len(a.Renew)+len(a.Jeopardy) != 0 {
		t.Errorf("still kept alive: %+v", a)
	}
	if a := p.Step(validUntil); len(a.Lost) != 1 {
		t.Errorf("not lost: %+v", a)
	}
}

func TestRenewalAfterTheEndOfValidityDoesNotBringTheLeaseBack(t *testing.T) {
	t.Parallel()
	p := newPlan()
	validUntil := p.Open(7, ttl, 0, true)
	// The answer comes before the timer that ends the lease has fired.
	if _, _, ok := p.Renewed(7, validUntil-1, validUntil); ok {
		t.Error("renewed at the end of its validity, before the step that says lost")
	}
	if a := p.Step(validUntil); !slices.Equal(a.Lost, []uint64{7}) {
		t.Errorf("not told lost: %+v", a)
	}
	if _, _, ok := p.Renewed(7, validUntil, validUntil+1); ok {
		t.Error("renewed after it was told lost")
	}
}

func TestLateAnswerToAnOldRenewalDoesNotMoveTheEndOfValidityBack(t *testing.T) {
	t.Parallel()
	p := newPlan()
	p.Open(7, ttl, 0, true)
	newer, _, _ := p.Renewed(7, 500*ms, 520*ms)
	older, _, ok := p.Renewed(7, 400*ms, 530*ms)
	if !ok || older != newer {
		t.Errorf("validUntil %v after the older answer, want %v", older, newer)
	}
	if a := p.Step(540 * ms); a.Next != 900*ms {
		t.Errorf("next renewal at %v ms, want 900", a.Next/ms)
	}
}

func TestJeopardyEndsOnlyWithAnAnswerThatIsFreshEnough(t *testing.T) {
	t.Parallel()
	p := newPlan()
	p.Open(7, ttl, 0, true)
	if a := p.Step(700 * ms); len(a.Jeopardy) != 1 {
		t.Fatalf("no jeopardy: %+v", a)
	}
	// Sent at 400, so half of its validity ends at 988: an answer at 1000 is a reprieve, not
	// safety.
	if _, safe, ok := p.Renewed(7, 400*ms, 1000*ms); safe || !ok {
		t.Errorf("safe again %v, ok %v by an old answer", safe, ok)
	}
	if a := p.Step(1001 * ms); len(a.Jeopardy) != 0 {
		t.Error("jeopardy told twice for one trouble")
	}
	if _, safe, _ := p.Renewed(7, 1001*ms, 1010*ms); !safe {
		t.Error("not safe again by a fresh answer")
	}
	if _, safe, _ := p.Renewed(7, 1005*ms, 1011*ms); safe {
		t.Error("safe again told twice")
	}
	if a := p.Step(1700 * ms); len(a.Jeopardy) != 1 {
		t.Errorf("the next trouble is not told: %+v", a)
	}
}

func TestSuspensionBeyondTheEndOfValidityTellsLostAloneAtTheFirstStep(t *testing.T) {
	t.Parallel()
	p := newPlan()
	p.Open(7, ttl, 0, true)
	a := p.Step(lease.Instant(time.Hour))
	if !slices.Equal(a.Lost, []uint64{7}) || len(a.Renew)+len(a.Jeopardy) != 0 {
		t.Errorf("after waking: %+v", a)
	}
}

func TestRenewalsAreSpreadAndNeverLaterThanAThird(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := lease.NewPlan(0.01, func() float64 { return rapid.Float64Range(0, 0.999).Draw(t, "jitter") })
		p.Open(1, ttl, 0, true)
		if next := p.Step(0).Next; next > 400*ms || next < 360*ms {
			t.Fatalf("first renewal after %v", time.Duration(next))
		}
	})
}

func TestRemovedSessionIsNeverHeardOfAgain(t *testing.T) {
	t.Parallel()
	p := newPlan()
	p.Open(7, ttl, 0, true)
	p.Remove(7)
	p.Remove(7)
	a := p.Step(lease.Instant(time.Hour))
	if len(a.Renew)+len(a.Lost)+len(a.Jeopardy) != 0 || a.Next != lease.Never {
		t.Errorf("heard of: %+v", a)
	}
}

// A change of the TTL is on its way: it may be carried out, now or later, or never.
func TestAShorterTTLCountsFromBeforeItIsSent(t *testing.T) {
	t.Parallel()
	p := newPlan()
	long := p.Open(7, 10*ttl, 0, false)
	if validUntil, ok := p.Retime(7, 1, ttl, 100*ms); !ok || validUntil != lease.ValidUntil(100*ms, ttl, 0) {
		t.Errorf("validUntil %v, not %v", validUntil, lease.ValidUntil(100*ms, ttl, 0))
	}
	if validUntil, _, ok := p.Renewed(7, 200*ms, 210*ms); !ok || validUntil > lease.ValidUntil(100*ms, ttl, 0) {
		t.Errorf("a renewal that may come before the change counts for %v", validUntil)
	}
	if validUntil, known, ok := p.Retimed(7, 1, ttl, 100*ms, 300*ms); !ok || known != ttl || validUntil != lease.ValidUntil(100*ms, ttl, 0) {
		t.Errorf("confirmed: validUntil %v, TTL %v", validUntil, known)
	}
	if a := p.Step(long); len(a.Lost) != 1 {
		t.Error("not lost")
	}
}

func TestALongerTTLCountsFromItsOutcomeOn(t *testing.T) {
	t.Parallel()
	p := newPlan()
	validUntil := p.Open(7, ttl, 0, false)
	if same, _ := p.Retime(7, 1, 10*ttl, 100*ms); same != validUntil {
		t.Errorf("not yet confirmed, and valid until %v, not %v", same, validUntil)
	}
	if longer, known, ok := p.Retimed(7, 1, 10*ttl, 100*ms, 300*ms); !ok || known != 10*ttl || longer != lease.ValidUntil(100*ms, 10*ttl, 0) {
		t.Errorf("validUntil %v, TTL %v", longer, known)
	}
	if _, _, ok := p.Retimed(7, 2, ttl, 0, lease.Instant(time.Hour)); ok {
		t.Error("a lease came back")
	}
}

func TestOfTwoChangesOfTheTTLTheLaterOneCounts(t *testing.T) {
	t.Parallel()
	p := newPlan()
	p.Open(7, 5*ttl, 0, false)
	p.Retime(7, 1, 10*ttl, 0)
	p.Retime(7, 2, 2*ttl, 0)
	if validUntil, _, _ := p.Retimed(7, 1, 10*ttl, 0, 10*ms); validUntil > lease.ValidUntil(0, 2*ttl, 0) {
		t.Errorf("the earlier one is confirmed, and counts until %v though the later one may be carried out", validUntil)
	}
	p.Retimed(7, 2, 2*ttl, 0, 20*ms)
	if validUntil, known, _ := p.Retimed(7, 1, 10*ttl, 0, 30*ms); known != 2*ttl || validUntil > lease.ValidUntil(0, 2*ttl, 0) {
		t.Errorf("a late answer to the earlier one: TTL %v, validUntil %v", known, validUntil)
	}
}

// A naive plan, one struct per session, says what every call may answer; P1 to P4 follow.
func TestPlanKeepsItsRulesUnderRandomCalls(t *testing.T) {
	t.Parallel()
	type model struct {
		validUntil  lease.Instant
		auto, shaky bool
	}
	rapid.Check(t, func(t *rapid.T) {
		p := lease.NewPlan(0.01, noJitter)
		live := map[uint64]*model{}
		now, next := lease.Instant(0), uint64(0)
		t.Repeat(map[string]func(*rapid.T){
			"open": func(t *rapid.T) {
				next++
				auto := rapid.Bool().Draw(t, "auto")
				sent := now - ms*lease.Instant(rapid.IntRange(0, 300).Draw(t, "ago"))
				live[next] = &model{validUntil: p.Open(next, ttl, sent, auto), auto: auto}
			},
			"renewed": func(t *rapid.T) {
				n := rapid.Uint64Range(0, next).Draw(t, "session")
				sent := now - ms*lease.Instant(rapid.IntRange(0, 900).Draw(t, "ago"))
				validUntil, safe, ok := p.Renewed(n, sent, now)
				m := live[n]
				if ok != (m != nil && now < m.validUntil) {
					t.Fatalf("renewed %d at %v: ok %v, model %+v", n, now, ok, m)
				}
				if !ok {
					return
				}
				if want := max(m.validUntil, lease.ValidUntil(sent, ttl, 0.01)); validUntil != want || safe && !m.shaky {
					t.Fatalf("validUntil %v, safe again %v; want %v of %+v", validUntil, safe, want, m)
				}
				m.validUntil, m.shaky = validUntil, m.shaky && !safe
			},
			"remove": func(t *rapid.T) {
				n := rapid.Uint64Range(0, next).Draw(t, "session")
				p.Remove(n)
				delete(live, n)
			},
			"step": func(t *rapid.T) {
				now += ms * lease.Instant(rapid.IntRange(0, 500).Draw(t, "later"))
				a := p.Step(now)
				for _, n := range a.Lost {
					if m := live[n]; m == nil || now < m.validUntil {
						t.Fatalf("%d lost at %v, model %+v", n, now, m)
					}
					delete(live, n)
				}
				for _, n := range a.Renew {
					if m := live[n]; m == nil || !m.auto {
						t.Fatalf("%d to be renewed, model %+v", n, m)
					}
				}
				for _, n := range a.Jeopardy {
					if m := live[n]; m == nil || !m.auto || m.shaky {
						t.Fatalf("%d in jeopardy, model %+v", n, m)
					}
					live[n].shaky = true
				}
				for n, m := range live {
					if now >= m.validUntil {
						t.Fatalf("%d not told lost at %v, validUntil %v", n, now, m.validUntil)
					}
				}
				if a.Next <= now {
					t.Fatalf("next %v is not after now %v", a.Next, now)
				}
			},
		})
	})
}
