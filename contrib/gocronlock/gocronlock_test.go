package gocronlock_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/jonboulle/clockwork"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/contrib/gocronlock"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/sim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const every = 10 * time.Second

// ahead is a clock that is ahead of the right time.
type ahead struct {
	clockwork.Clock
	by time.Duration
}

func (a ahead) Now() time.Time { return a.Clock.Now().Add(a.by) }

// runs are the runs of one job, over all schedulers.
type runs struct {
	mu sync.Mutex
	at []time.Time
	by []int
}

func (r *runs) add(node int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at, r.by = append(r.at, time.Now()), append(r.by, node)
}

// ticks is how often each tick was run, in the order of the ticks.
func (r *runs) ticks() (counts []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var last time.Time
	for _, at := range r.at {
		if tick := at.Round(every); tick != last {
			counts, last = append(counts, 0), tick
		}
		counts[len(counts)-1]++
	}
	return counts
}

// reset forgets the runs, and returns who ran.
func (r *runs) reset() (by []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	by = r.by
	r.at, r.by = nil, nil
	return by
}

// scheduler is a service that runs a job every ten seconds of its clock until its node ends.
func scheduler(skew time.Duration, option func(*holdfast.Cluster) (gocron.SchedulerOption, error), job func(*sim.Node)) func(context.Context, *sim.Node, *holdfast.Cluster) error {
	return func(ctx context.Context, n *sim.Node, c *holdfast.Cluster) error {
		distributed, err := option(c)
		if err != nil {
			return err
		}
		clock := ahead{clockwork.NewRealClock(), time.Duration(n.Index()) * skew}
		s, err := gocron.NewScheduler(gocron.WithClock(clock), gocron.WithLocation(time.UTC), distributed)
		if err != nil {
			return err
		}
		if _, err := s.NewJob(gocron.CronJob("*/10 * * * * *", true), gocron.NewTask(func() { job(n) }), gocron.WithName("report")); err != nil {
			return err
		}
		s.Start()
		<-ctx.Done()
		return s.Shutdown()
	}
}

// untilBetween waits in virtual time for the middle between two ticks, after so many ticks.
func untilBetween(ticks int) {
	time.Sleep(time.Until(time.Now().Truncate(every).Add(time.Duration(ticks)*every + every/2)))
}

// naive is a Locker as one writes it first: it gives the lock back when the job has ended.
type naive struct{ c *holdfast.Cluster }

func (k naive) Lock(ctx context.Context, job string) (gocron.Lock, error) {
	lease, err := k.c.TryAcquire(ctx, job)
	if err != nil {
		return nil, err
	}
	return naiveLock{lease}, nil
}

type naiveLock struct{ lease *holdfast.Lease }

func (l naiveLock) Unlock(ctx context.Context) error { return l.lease.Release(ctx) }

// Each scheduler of the naive Locker has ended the job before the next one tries.
func TestATickRunsOnceThoughTheSchedulersClocksDiffer(t *testing.T) {
	t.Parallel()
	ours := func(c *holdfast.Cluster) (gocron.SchedulerOption, error) {
		k, err := gocronlock.NewLocker(c, every)
		return gocron.WithDistributedLocker(k), err
	}
	for _, test := range []struct {
		name   string
		option func(*holdfast.Cluster) (gocron.SchedulerOption, error)
		skew   time.Duration
		want   int
	}{
		{"naive", func(c *holdfast.Cluster) (gocron.SchedulerOption, error) {
			return gocron.WithDistributedLocker(naive{c}), nil
		}, 50 * time.Millisecond, 3},
		{"50 ms", ours, 50 * time.Millisecond, 1},
		{"2.3 s", ours, 2300 * time.Millisecond, 1}, // the third is ahead of the first by almost half of ten seconds
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var r runs
			sim.Run(t, sim.Options{Nodes: 3, Service: scheduler(test.skew, test.option, func(n *sim.Node) { r.add(n.Index()) })}, func(s *sim.Sim) {
				untilBetween(1)
				r.reset()
				untilBetween(10)
			})
			if got := r.ticks(); !slices.Equal(got, slices.Repeat([]int{test.want}, 10)) {
				t.Errorf("the runs of each tick: %v", got)
			}
		})
	}
}

// What gocron hands to Unlock has ended when the scheduler is shut down in the middle of a run.
func TestTheLockOfAJobIsFreeAfterAShutdown(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
		c := s.Node(0).Cluster()
		k, err := gocronlock.NewLocker(c, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		sched, err := gocron.NewScheduler(gocron.WithDistributedLocker(k))
		if err != nil {
			t.Fatal(err)
		}
		started := make(chan struct{})
		task := func(ctx context.Context) {
			close(started)
			<-ctx.Done()
		}
		if _, err := sched.NewJob(gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()), gocron.NewTask(task), gocron.WithName("long")); err != nil {
			t.Fatal(err)
		}
		sched.Start()
		<-started
		time.Sleep(time.Minute) // the lease renews itself while the job runs
		if info, err := c.Inspect(context.Background(), gocronlock.Prefix+"long"); err != nil || len(info.Holders) != 1 {
			t.Errorf("while the job runs: %+v, %v", info, err)
		}
		if err := sched.Shutdown(); err != nil {
			t.Error(err)
		}
		if info, err := c.Inspect(context.Background(), gocronlock.Prefix+"long"); err != nil || len(info.Holders) != 0 || info.Delayed != 0 {
			t.Errorf("after the shutdown: %+v, %v", info, err)
		}
	})
}

func TestATickWithoutAMajorityIsSkippedAndNotMadeGoodLater(t *testing.T) {
	t.Parallel()
	var r runs
	ours := func(c *holdfast.Cluster) (gocron.SchedulerOption, error) {
		k, err := gocronlock.NewLocker(c, every)
		return gocron.WithDistributedLocker(k), err
	}
	sim.Run(t, sim.Options{Nodes: 3, Service: scheduler(0, ours, func(n *sim.Node) { r.add(n.Index()) })}, func(s *sim.Sim) {
		untilBetween(1)
		r.reset()
		s.Partition([]int{0}, []int{1}, []int{2})
		untilBetween(2)             // two ticks
		time.Sleep(2 * time.Second) // Lock has given up by now
		s.Heal()
		time.Sleep(2 * time.Second) // before the next tick
		if by := r.reset(); len(by) != 0 {
			t.Errorf("nodes without a majority ran a job: %v", by)
		}
		untilBetween(3)
	})
	if got := r.ticks(); len(got) == 0 || slices.Max(got) != 1 {
		t.Errorf("the runs of each tick after the cut: %v", got)
	}
}

func TestTheJobOfADeadSchedulerIsRunByAnother(t *testing.T) {
	t.Parallel()
	var r runs
	ours := func(c *holdfast.Cluster) (gocron.SchedulerOption, error) {
		k, err := gocronlock.NewLocker(c, every)
		return gocron.WithDistributedLocker(k), err
	}
	job := func(n *sim.Node) {
		r.add(n.Index())
		if n.Index() == 2 {
			<-n.Context().Done() // it dies with the lock in its hands
		}
	}
	// The third one is first at each tick, as its clock is ahead.
	sim.Run(t, sim.Options{Nodes: 3, Service: scheduler(50*time.Millisecond, ours, job)}, func(s *sim.Sim) {
		untilBetween(2)
		if by := r.reset(); !slices.Equal(by, []int{2}) {
			t.Fatalf("before the third one dies: %v", by)
		}
		s.Node(2).Kill()
		untilBetween(5) // its lease lives for 15 s: some ticks are skipped
	})
	if by := r.reset(); len(by) < 3 || slices.Contains(by, 2) {
		t.Errorf("after the third one died: %v", by)
	}
}

func TestOnlyTheLeadersSchedulerRunsJobs(t *testing.T) {
	t.Parallel()
	var r runs
	sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
		var wg sync.WaitGroup
		electors := make([]gocronlock.Elector, 3)
		ends := make([]context.CancelFunc, 3)
		for i, n := range s.Nodes() {
			campaign, err := n.Cluster().Campaign(context.Background(), "reports")
			if err != nil {
				t.Fatal(err)
			}
			electors[i] = gocronlock.Elector{Campaign: campaign}
			option := func(*holdfast.Cluster) (gocron.SchedulerOption, error) {
				return gocron.WithDistributedElector(electors[i]), nil
			}
			ctx, end := context.WithCancel(context.Background())
			ends[i] = end
			wg.Go(func() {
				if err := scheduler(50*time.Millisecond, option, func(n *sim.Node) { r.add(n.Index()) })(ctx, n, n.Cluster()); err != nil {
					t.Error(err)
				}
			})
		}
		untilBetween(1)
		r.reset()
		untilBetween(5)
		by := r.reset()
		if len(by) != 5 || slices.Min(by) != slices.Max(by) {
			t.Fatalf("%v ran the jobs of five ticks", by)
		}
		first := by[0]
		if err := electors[first].IsLeader(context.Background()); err != nil {
			t.Error(err)
		}
		ends[first]()
		if err := electors[first].Close(context.Background()); err != nil {
			t.Error(err)
		}
		if err := electors[first].IsLeader(context.Background()); !errors.Is(err, gocronlock.ErrNotLeader) {
			t.Errorf("after the end of its campaign: %v", err)
		}
		untilBetween(5)
		by = r.reset()
		if len(by) != 5 || slices.Min(by) != slices.Max(by) || by[0] == first {
			t.Errorf("%v ran those of the next five, after %d", by, first)
		}
		for i := range electors {
			ends[i]()
			if err := electors[i].Close(context.Background()); err != nil {
				t.Error(err)
			}
		}
		wg.Wait()
	})
}

func TestWhatIsWrongIsSaidBeforeTheFirstTick(t *testing.T) {
	t.Parallel()
	c := holdfasttest.Fleet(t, 1)[0]
	if _, err := gocronlock.NewLocker(nil, time.Hour); !errors.Is(err, holdfast.ErrInvalid) {
		t.Errorf("no cluster: %v", err)
	}
	for _, every := range []time.Duration{0, -time.Hour, 2*time.Millisecond - 1} {
		if _, err := gocronlock.NewLocker(c, every); !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("every %v: %v", every, err)
		}
	}
	for _, option := range []holdfast.Option{holdfast.WithTTL(1), holdfast.WithShared(), holdfast.WithMinHold(0), holdfast.WithPriority(1)} {
		if _, err := gocronlock.NewLocker(c, time.Hour, option); !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("a wrong option: %v", err)
		}
	}
	if _, err := gocronlock.NewLocker(c, 30*24*time.Hour, holdfast.WithMinHold(time.Hour), holdfast.WithLabel("reports")); err != nil {
		t.Error(err)
	}
	campaign, err := c.Campaign(t.Context(), "reports")
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	<-campaign.Done()
	if err := (gocronlock.Elector{Campaign: campaign}).IsLeader(t.Context()); !errors.Is(err, gocronlock.ErrNotLeader) || !errors.Is(err, holdfast.ErrClosed) {
		t.Errorf("after the node was closed: %v", err)
	}
}
