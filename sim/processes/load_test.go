//go:build unix

package processes_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/process/processtest"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

// The rule by which calls are let in is tested under virtual time, in admission_test.go. Here a
// real fleet shows that the rule fits it. What it does is counted per second of processor time,
// because other programs take theirs, and the callers' own work is in it too.

// calls is what became of the calls of a load.
type calls struct {
	mu      sync.Mutex
	served  []time.Duration // how long those took
	refused []time.Duration // how long it took those to be told so
	limit   int             // of them, that the node is overloaded
	unknown int             // of them, in vain
	wall    float64         // seconds that the load took, and of the processors
	cpu     float64
}

func (r *calls) note(began time.Time, err error) {
	took := time.Since(began)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil:
		r.served = append(r.served, took)
		return
	case errors.Is(err, holdfast.ErrExhausted):
		r.limit++
	case errors.Is(err, holdfast.ErrUnknownOutcome):
		r.unknown++
	}
	r.refused = append(r.refused, took)
}

func quantile(list []time.Duration, q float64) time.Duration {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[int(q*float64(len(list)-1))]
}

func (r *calls) String() string {
	return fmt.Sprintf("%.0f/s on %.2f processors, in %v, p99 %v; refused %d (%d for their number, %d in vain) in %v, p99 %v",
		float64(len(r.served))/r.wall, r.cpu/r.wall, quantile(r.served, 0.5), quantile(r.served, 0.99),
		len(r.refused), r.limit, r.unknown, quantile(r.refused, 0.5), quantile(r.refused, 0.99))
}

// yield is how many calls were served for a second of processor time.
func (r *calls) yield() float64 { return float64(len(r.served)) / r.cpu }

// used is how many seconds of processor time this process has had.
func used() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// measured runs a load.
func measured(t testing.TB, what string, f func(r *calls)) *calls {
	t.Helper()
	began, before, r := time.Now(), used(), &calls{}
	f(r)
	r.wall, r.cpu = time.Since(began).Seconds(), used()-before
	t.Logf("%s: %v", what, r)
	return r
}

// both takes a lock and gives it back.
func both(ctx context.Context, c *holdfast.Cluster, name string) error {
	l, err := c.Acquire(ctx, name)
	if err != nil {
		return err
	}
	return l.Release(ctx)
}

// throng is callers that have made a call each, and wait to be set to work. What it takes to start
// ten thousand, and to look through their stacks for garbage, is more than their calls take, and is
// not the fleet's: it is the same however many of them are at work.
type throng struct {
	nodes   []*holdfast.Cluster
	callers []chan func(caller int)
}

// gather starts a throng, which goes home with the test.
func gather(t testing.TB, nodes []*holdfast.Cluster, callers int) *throng {
	c := &throng{nodes: nodes}
	var all, begun sync.WaitGroup
	for i := range callers {
		work := make(chan func(int), 1)
		c.callers = append(c.callers, work)
		begun.Add(1)
		all.Go(func() {
			if err := both(t.Context(), nodes[i%len(nodes)], fmt.Sprint("press/", i)); err != nil {
				t.Error(err)
			}
			begun.Done()
			for do := range work {
				do(i)
			}
		})
	}
	begun.Wait()
	t.Cleanup(func() {
		for _, work := range c.callers {
			close(work)
		}
		all.Wait()
	})
	return c
}

// during is for how long a throng works.
func during(d time.Duration) (more func() bool) {
	end := time.Now().Add(d)
	return func() bool { return time.Now().Before(end) }
}

// times is how many calls a throng makes altogether.
func times(n int) (more func() bool) {
	var made atomic.Int64
	return func() bool { return made.Add(1) <= int64(n) }
}

// press has callers take and give back locks while there is more to do, each as fast as it goes.
func (c *throng) press(callers int, more func() bool) func(*calls) {
	return func(r *calls) {
		var all sync.WaitGroup
		all.Add(callers)
		for _, work := range c.callers[:callers] {
			work <- func(i int) {
				defer all.Done()
				for more() {
					began := time.Now()
					ctx, cancel := context.WithTimeout(context.Background(), patience)
					r.note(began, both(ctx, c.nodes[i%len(c.nodes)], fmt.Sprint("press/", i)))
					cancel()
				}
			}
		}
		all.Wait()
	}
}

// flood makes so many calls a second, whatever becomes of them, each on a lock of its own.
func flood(nodes []*holdfast.Cluster, rate float64, d, deadline time.Duration) func(*calls) {
	return func(r *calls) {
		ticks := time.NewTicker(10 * time.Millisecond)
		defer ticks.Stop()
		var all sync.WaitGroup
		begin, made := time.Now(), 0
		for now := begin; now.Sub(begin) < d; now = <-ticks.C {
			ctx, cancel := context.WithTimeout(context.Background(), deadline) // one for all: a load of calls, not of contexts
			context.AfterFunc(ctx, cancel)
			for due := int(rate * now.Sub(begin).Seconds()); made < due; made++ {
				i := made
				all.Go(func() {
					began := time.Now()
					r.note(began, both(ctx, nodes[i%len(nodes)], fmt.Sprint("flood/", i)))
				})
			}
		}
		all.Wait()
	}
}

// patience is what a call of a throng may take on a machine that is busy otherwise.
const patience = time.Minute

// Ten and a hundred times as many callers as it takes to keep the group busy, each of which waits
// for its answer. How fast they are served is what BenchmarkCallers tells.
func TestTenAndAHundredTimesTheCallersAreAllServed(t *testing.T) {
	if !processtest.Alone(t) {
		return
	}
	crowd := gather(t, testkit.Fleet(t, 3), 12800)
	for _, callers := range []int{128, 1280, 12800} {
		r := measured(t, fmt.Sprint(callers, " callers"), crowd.press(callers, times(max(2*callers, 2000))))
		if len(r.refused) > 0 || len(r.served) < 2*callers {
			t.Errorf("of the calls of %d callers %d were served and %d failed, that had %v", callers, len(r.served), len(r.refused), patience)
		}
	}
}

// The yields are to be compared with each other, in runs of one machine: with 128 callers the group
// is busy, and ten and a hundred times as many are to cost it little (calls/cpu-s at least four
// fifths).
func BenchmarkCallers(b *testing.B) {
	crowd := gather(b, testkit.Fleet(b, 3), 12800)
	measured(b, "warm", crowd.press(128, during(200*time.Millisecond)))
	for _, callers := range []int{128, 1280, 12800} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			r := measured(b, fmt.Sprint(callers, " callers"), crowd.press(callers, times(b.N)))
			b.ReportMetric(r.yield(), "calls/cpu-s")
			if len(r.refused) > 0 {
				b.Errorf("%d calls failed that had %v", len(r.refused), patience)
			}
		})
	}
}

// Ten times as many calls as can be served, made whether or not the earlier ones were served. They
// are made on the machine that serves them, which takes most of it: how many are served then is
// told, and not judged.
func TestAFleetUnderTenTimesItsLoadServesOnAndRecoversAtOnce(t *testing.T) {
	if !processtest.Alone(t) {
		return
	}
	const deadline = time.Second
	nodes := testkit.Fleet(t, 3)
	crowd := gather(t, nodes, 128)
	measured(t, "warm", crowd.press(128, during(200*time.Millisecond)))
	best, served, vain, slow, late := 0.0, 0, 0, time.Hour, time.Hour
	for round := range 5 { // until the machine has had a quiet moment
		calm := measured(t, "calm", crowd.press(128, during(400*time.Millisecond)))
		full := measured(t, "full", flood(nodes, 10*float64(len(calm.served))/calm.wall, time.Second, deadline))
		after := measured(t, "after", crowd.press(128, during(400*time.Millisecond)))
		if len(after.refused) > 0 {
			t.Errorf("%d calls failed that came after the load", len(after.refused))
		}
		served, vain = served+len(full.served), vain+full.unknown
		if len(full.refused) > 0 {
			slow = min(slow, quantile(full.refused, 0.5))
		}
		late = min(late, quantile(full.served, 0.99))
		best = max(best, full.yield()/max(calm.yield(), after.yield()))
		if round > 0 && best > 0.7 && late <= 3*deadline {
			break
		}
	}
	t.Logf("under ten times the load the fleet serves %.2f of what it can, with what it takes to make the calls", best)
	if slow > deadline/2 {
		t.Errorf("what is refused is refused after %v", slow)
	}
	if late > 3*deadline {
		t.Errorf("served after %v, with a deadline of %v", late, deadline)
	}
	if vain > served {
		t.Errorf("%d were served, but %d were let in and had no answer in time", served, vain)
	}
}
