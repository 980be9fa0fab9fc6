package history_test

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/sim/internal/history"
)

func TestHistogramCountsInDoublingBucketsAndKeepsTheMaximum(t *testing.T) {
	t.Parallel()
	var h, other history.Histogram
	for _, d := range []time.Duration{-time.Second, 0, 999 * time.Microsecond, time.Millisecond, 3 * time.Millisecond, 240 * time.Hour} {
		h.Add(d)
	}
	other.Add(3 * time.Millisecond)
	h.Merge(&other)
	if h.Count != 7 || h.Max != 240*time.Hour || h.Buckets[0] != 3 || h.Buckets[1] != 1 || h.Buckets[2] != 2 || h.Buckets[19] != 1 {
		t.Errorf("%+v", h)
	}
	if want := "below 1ms: 3, below 2ms: 1, below 4ms: 2"; !strings.HasPrefix(h.String(), want) || !strings.HasSuffix(h.String(), "; max 240h0m0s") {
		t.Errorf("%v", h.String())
	}
}

// The lock of a holder that was last seen valid for another four seconds, granted nine seconds
// later to one who waited all the time, is five seconds late. A waiter who came after the end makes
// nobody late.
func TestLatenessCountsFromTheEndOfTheHoldersValidity(t *testing.T) {
	t.Parallel()
	h := script(ask(1, 0), grant(1, 0, 10), at(2*time.Second, held(0, 10)), ask(2, 1), at(11*time.Second, grant(2, 1, 11)),
		held(1, 11), at(30*time.Second, ask(3, 2)), grant(3, 2, 12))
	f := history.Measure(h)
	if f.Late.Count != 1 || f.Late.Max != 5*time.Second {
		t.Errorf("late %v", f.Late.String())
	}
}

func TestAReleasedLockIsNotLate(t *testing.T) {
	t.Parallel()
	h := script(ask(1, 0), grant(1, 0, 10), held(0, 10), ask(2, 1), on(history.Release, 0, 10), at(time.Minute, grant(2, 1, 11)))
	if f := history.Measure(h); f.Late.Count != 0 {
		t.Errorf("late %v", f.Late.String())
	}
}

func TestRecoveryIsTheTimeUntilTheLastNodeServes(t *testing.T) {
	t.Parallel()
	h := script(append(well(0, 1), at(10*time.Second, on(history.Over, 0, 0)), on(history.Served, 1, 0), on(history.Served, 1, 0),
		at(17*time.Second, on(history.Served, 0, 0)), on(history.Served, 0, 0))...)
	if f := history.Measure(h); f.Resumed != 7*time.Second {
		t.Errorf("resumed after %v", f.Resumed)
	}
	if f := history.Measure(h[:len(h)-2]); f.Resumed != 0 {
		t.Errorf("resumed after %v although a node never served", f.Resumed)
	}
}

// A run that tried nothing proves nothing: each thing that it lacks is named.
func TestAVacuousRunIsRefused(t *testing.T) {
	t.Parallel()
	h := good()
	least := history.Figures{Calls: 3, Grants: 3, Expired: 1, Verified: 2, Looked: 2, Sets: 1, Ills: 1}
	if what := history.Shortfall(h, least); what != "" {
		t.Error(what)
	}
	for want, more := range map[string]func(*history.Figures){
		"calls": func(f *history.Figures) { f.Calls++ }, "grants": func(f *history.Figures) { f.Grants++ },
		"refusals": func(f *history.Figures) { f.Refused = 1 }, "leases expired": func(f *history.Figures) { f.Expired++ },
		"tokens verified": func(f *history.Figures) { f.Verified++ }, "looks at queues": func(f *history.Figures) { f.Looked++ },
		"values set": func(f *history.Figures) { f.Sets++ }, "runs": func(f *history.Figures) { f.Runs = 1 },
		"grants of sets": func(f *history.Figures) { f.Wholes = 1 }, "grants that rest": func(f *history.Figures) { f.Rests = 1 },
		"grants freed by force": func(f *history.Figures) { f.Freed = 1 }, "TTL of their own": func(f *history.Figures) { f.Longs = 1 },
		"nodes revoked": func(f *history.Figures) { f.Revoked = 1 }, "reads of leaders": func(f *history.Figures) { f.LeaderReads = 1 },
		"leaders observed": func(f *history.Figures) { f.Observed = 1 }, "changes told": func(f *history.Figures) { f.Told = 1 },
		"gaps told":           func(f *history.Figures) { f.Resyncs = 1 },
		"nodes that fell ill": func(f *history.Figures) { f.Ills++ }, "changes of raft leader": func(f *history.Figures) { f.Leaders = 1 },
	} {
		f := least
		more(&f)
		if what := history.Shortfall(h, f); !strings.Contains(what, want) {
			t.Errorf("%s: %q", want, what)
		}
	}
	twice := history.Measure(h)
	twice.Merge(history.Measure(h))
	least.Grants *= 2
	if what := twice.Shortfall(least); what != "" {
		t.Error(what)
	}
	leaders := script(on(history.Led, 0, 0), on(history.Led, 1, 0))
	if what := history.Shortfall(leaders, history.Figures{Leaders: 1}); what != "" {
		t.Error(what)
	}
}
