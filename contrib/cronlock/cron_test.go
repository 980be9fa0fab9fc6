package cronlock_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/contrib/cronlock"
	"github.com/holdfast-go/holdfast/sim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// runLog is what was done and reported, by tick.
type runLog struct {
	mu     sync.Mutex
	runs   map[time.Time][]int // nodes
	errors map[time.Time][]error
}

func newRunLog() *runLog {
	return &runLog{runs: make(map[time.Time][]int), errors: make(map[time.Time][]error)}
}

func (b *runLog) ran(tick time.Time, node int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.runs[tick] = append(b.runs[tick], node)
}

func (b *runLog) report(tick time.Time, _ holdfast.OnceResult, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		b.errors[tick] = append(b.errors[tick], err)
	}
}

// clear forgets what was done and reported, and returns it.
func (b *runLog) clear() (runs map[time.Time][]int, errs map[time.Time][]error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	runs, errs = b.runs, b.errors
	b.runs, b.errors = make(map[time.Time][]int), make(map[time.Time][]error)
	return runs, errs
}

// check fails the test unless so many ticks were run, one after the other, each once.
func (b *runLog) check(t *testing.T, ticks int) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	var last time.Time
	for _, tick := range slices.SortedFunc(maps.Keys(b.runs), time.Time.Compare) {
		if !last.IsZero() && tick.Sub(last) != 10*time.Second || len(b.runs[tick]) != 1 {
			t.Errorf("tick %v, after %v, was run by %v", tick, last, b.runs[tick])
		}
		last = tick
	}
	if len(b.runs) != ticks {
		t.Errorf("%d ticks were run, not %d", len(b.runs), ticks)
	}
}

// service runs a job every ten seconds. Node i begins each tick late by i times skew, as one whose
// clock is behind.
func service(b *runLog, skew time.Duration, work func(ctx context.Context, n *sim.Node) error, options ...holdfast.Option) func(context.Context, *sim.Node, *holdfast.Cluster) error {
	return func(ctx context.Context, n *sim.Node, c *holdfast.Cluster) error {
		schedule, err := cron.NewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow).Parse("*/10 * * * * *")
		if err != nil {
			return err
		}
		late := func(j cron.Job) cron.Job {
			return cron.FuncJob(func() {
				time.Sleep(time.Duration(n.Index()) * skew)
				j.Run()
			})
		}
		cr := cron.New(cron.WithLocation(time.UTC), cron.WithChain(late))
		run := func(ctx context.Context, l *holdfast.Lease) error {
			tick, err := time.Parse("report@"+time.RFC3339Nano, l.Name())
			if err != nil {
				return err
			}
			if err := work(ctx, n); err != nil {
				return err
			}
			b.ran(tick, n.Index())
			return nil
		}
		if _, err := cronlock.Add(ctx, cr, c, cronlock.Job{Name: "report", Schedule: schedule, Run: run, Options: options, Report: b.report}); err != nil {
			return err
		}
		cr.Start()
		<-ctx.Done()
		<-cr.Stop().Done()
		return nil
	}
}

func quick(context.Context, *sim.Node) error { return nil }

// untilBetween waits in virtual time for the middle between two ticks, after so many ticks.
func untilBetween(ticks int) {
	time.Sleep(time.Until(time.Now().Truncate(10 * time.Second).Add(time.Duration(ticks)*10*time.Second + 9*time.Second)))
}

func TestEachTickRunsOnceThoughTheClocksDiffer(t *testing.T) {
	t.Parallel()
	for _, skew := range []time.Duration{0, 50 * time.Millisecond, 4 * time.Second} {
		t.Run(skew.String(), func(t *testing.T) {
			t.Parallel()
			b := newRunLog()
			sim.Run(t, sim.Options{Nodes: 3, Service: service(b, skew, quick)}, func(s *sim.Sim) {
				untilBetween(0)
				b.clear()
				untilBetween(12)
			})
			b.check(t, 12)
		})
	}
}

func TestATickWhoseRunnerDiesIsRunByOneThatWaits(t *testing.T) {
	t.Parallel()
	b := newRunLog()
	var mu sync.Mutex
	var began []int // nodes
	long := func(ctx context.Context, n *sim.Node) error {
		mu.Lock()
		began = append(began, n.Index())
		mu.Unlock()
		select {
		case <-time.After(3 * time.Second): // virtual time
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	sim.Run(t, sim.Options{Nodes: 3, Service: service(b, 0, long, holdfast.WithWait(), holdfast.WithTTL(2*time.Second))}, func(s *sim.Sim) {
		untilBetween(0)
		b.clear()
		mu.Lock()
		began = nil
		mu.Unlock()
		time.Sleep(2 * time.Second) // a second into the run of a tick
		mu.Lock()
		first := began[len(began)-1]
		mu.Unlock()
		s.Node(first).Kill()
		untilBetween(3)
		mu.Lock()
		defer mu.Unlock()
		if len(began) < 5 {
			t.Errorf("nodes %v began runs: none died in one", began)
		}
	})
	b.check(t, 4)
}

func TestATickThatFailedIsRunAgainByOneThatWaits(t *testing.T) {
	t.Parallel()
	b := newRunLog()
	var mu sync.Mutex
	failures := 0
	work := func(context.Context, *sim.Node) error {
		mu.Lock()
		defer mu.Unlock()
		if failures++; failures%2 == 1 {
			return errors.New("every second run fails")
		}
		return nil
	}
	sim.Run(t, sim.Options{Nodes: 3, Service: service(b, 0, work, holdfast.WithWait())}, func(s *sim.Sim) {
		untilBetween(0)
		b.clear()
		untilBetween(3)
	})
	b.check(t, 3)
}

func TestATickThatCannotBeginBeforeTheNextIsMissed(t *testing.T) {
	t.Parallel()
	b := newRunLog()
	sim.Run(t, sim.Options{Nodes: 3, Service: service(b, 0, quick)}, func(s *sim.Sim) {
		untilBetween(1)
		s.Partition([]int{0}, []int{1}, []int{2})
		b.clear()
		untilBetween(3)
		time.Sleep(2 * time.Second) // past the tick after
		runs, errs := b.clear()
		if len(runs) != 0 {
			t.Errorf("without a majority: %v", runs)
		}
		missed := slices.Concat(slices.Collect(maps.Values(errs))...)
		if len(missed) != 9 { // three ticks on three nodes
			t.Errorf("%d runs were reported as missed: %v", len(missed), missed)
		}
		for _, err := range missed {
			if !errors.Is(err, cronlock.ErrMissed) {
				t.Error(err)
			}
		}
		s.Heal()
		untilBetween(1)
		b.clear()
		untilBetween(3)
	})
	b.check(t, 3)
}

// A page that shows the next five runs asks the entry's schedule for them. When the schedule of an
// entry noted what it was asked, the next run took the key of a tick that was to come.
func TestALookAtTheTicksToComeMovesNone(t *testing.T) {
	t.Parallel()
	cr, schedule := cron.New(), cronlock.Every(time.Hour)
	run := func(context.Context, *holdfast.Lease) error { return nil }
	id, err := cronlock.Add(t.Context(), cr, &holdfast.Cluster{}, cronlock.Job{Name: "a", Schedule: schedule, Run: run})
	if err != nil || cr.Entry(id).Schedule != schedule {
		t.Errorf("the entry asks %v, not the job's schedule (%v)", cr.Entry(id).Schedule, err)
	}
}

// A run without a tick has no key: it would be that of the zero time on every node.
func TestARunBeforeTheFirstTickIsReported(t *testing.T) {
	t.Parallel()
	var reported error
	cr := cron.New()
	id, err := cronlock.Add(t.Context(), cr, &holdfast.Cluster{}, cronlock.Job{
		Name: "a", Schedule: cronlock.Every(time.Hour),
		Run:    func(context.Context, *holdfast.Lease) error { return nil },
		Report: func(_ time.Time, _ holdfast.OnceResult, err error) { reported = err },
	})
	if err != nil {
		t.Fatal(err)
	}
	cr.Entry(id).Job.Run()
	if !errors.Is(reported, cronlock.ErrMissed) {
		t.Error(reported)
	}
}

func TestOnlyTheLeaderRuns(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
		ctx := context.Background()
		var mu sync.Mutex
		var ran []int
		for i, n := range s.Nodes() {
			k, err := n.Cluster().Campaign(ctx, "cron")
			if err != nil {
				t.Fatal(err)
			}
			cr := cron.New(cron.WithChain(cronlock.SkipIfNotLeader(k)))
			cr.Schedule(cronlock.Every(10*time.Second), cron.FuncJob(func() {
				mu.Lock()
				defer mu.Unlock()
				ran = append(ran, i)
			}))
			cr.Start()
			defer func() {
				<-cr.Stop().Done()
				if err := k.Close(ctx); err != nil {
					t.Error(err)
				}
			}()
		}
		untilBetween(0)
		mu.Lock()
		ran = nil
		mu.Unlock()
		untilBetween(3)
		mu.Lock()
		defer mu.Unlock()
		if len(ran) != 3 || slices.Min(ran) != slices.Max(ran) {
			t.Errorf("%v have run the jobs of three ticks", ran)
		}
	})
}

func TestASchedulesPhaseIsNotThatOfAProcess(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 2, 3, 4, 5, 6, 7, time.UTC)
	if got := cronlock.Every(15 * time.Minute).Next(at); !got.Equal(time.Date(2026, 2, 3, 4, 15, 0, 0, time.UTC)) {
		t.Errorf("the next quarter of an hour after %v is not %v", at, got)
	}
	spec, err := cron.ParseStandard("@every 15m")
	if err != nil {
		t.Fatal(err)
	}
	run := func(context.Context, *holdfast.Lease) error { return nil }
	for _, j := range []cronlock.Job{
		{Name: "a", Schedule: spec, Run: run}, {Name: "a", Schedule: cron.Every(time.Hour), Run: run},
		{Schedule: cronlock.Every(1), Run: run}, {Name: "a", Run: run}, {Name: "a", Schedule: cronlock.Every(1)},
		{Name: "a", Schedule: cronlock.Every(1), Run: run}, // without a Cluster
	} {
		if _, err := cronlock.Add(t.Context(), cron.New(), nil, j); !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("%+v: %v", j, err)
		}
	}
}
