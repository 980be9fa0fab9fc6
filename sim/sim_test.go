package sim_test

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/process/processtest"
	"github.com/holdfast-go/holdfast/sim"
)

func TestMain(m *testing.M) {
	if processtest.MayLeave() {
		os.Exit(m.Run()) // a failed run may leave goroutines
	}
	goleak.VerifyTestMain(m)
}

// victim runs the calling test in a process of its own and returns what it wrote, and whether it
// failed; there, it answers that it is there.
func victim(t *testing.T, env ...string) (out string, failed, here bool) {
	t.Helper()
	if processtest.Here(t) {
		return "", false, true
	}
	t.Parallel()
	env = append([]string{processtest.Leaving, sim.RepeatVar + "=0", sim.DirVar + "=" + t.TempDir()}, env...)
	b, err := processtest.Command(t, env...).CombinedOutput()
	return string(b), err != nil, false
}

// until returns a context with a deadline on virtual time.
func until(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	context.AfterFunc(ctx, cancel)
	return ctx
}

func acquire(t *testing.T, c *holdfast.Cluster, name string, opts ...holdfast.Option) *holdfast.Lease {
	t.Helper()
	l, err := c.Acquire(until(time.Minute), name, opts...)
	if err != nil {
		t.Fatalf("acquiring %s: %v", name, err)
	}
	return l
}

func release(t *testing.T, l *holdfast.Lease) {
	t.Helper()
	if err := l.Release(until(time.Minute)); err != nil {
		t.Error(err)
	}
}

func TestVirtualTimePassesWithoutRealTime(t *testing.T) {
	t.Parallel()
	began := time.Now()
	sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
		l := acquire(t, s.Node(0).Cluster(), "lock")
		time.Sleep(10 * time.Minute)
		if !l.Valid() {
			t.Error("the lease of a healthy node ended")
		}
	})
	if took := time.Since(began); took > 5*time.Minute {
		t.Errorf("ten virtual minutes took %v", took)
	}
}

// A test writes the context of the run where it would write t.Context, which belongs to no bubble.
func TestTheContextOfARunServesCallsAndEndsBeforeTheNodesAreClosed(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	sim.Run(t, sim.Options{}, func(s *sim.Sim) {
		c := s.Node(0).Cluster()
		ctx, cancel := context.WithTimeout(s.Context(), time.Hour)
		defer cancel()
		l, err := c.Acquire(ctx, "lock")
		if err != nil {
			t.Fatal(err)
		}
		release(t, l)
		go func() {
			ended <- c.Do(s.Context(), "lock", func(ctx context.Context, l *holdfast.Lease) error {
				<-ctx.Done()
				return l.Err() // the node still runs
			})
		}()
		time.Sleep(time.Second)
	})
	if err := <-ended; err != nil {
		t.Errorf("the call ended with %v", err)
	}
}

func TestEachSeedIsASubtestOfItsName(t *testing.T) {
	t.Setenv(sim.SeedVar, "41")
	t.Setenv(sim.SeedsVar, "2")
	var mu sync.Mutex // the seeds run side by side
	var got []uint64
	t.Run("all", func(t *testing.T) {
		sim.Seeds(t, 5, func(t *testing.T, seed uint64) {
			t.Cleanup(func() {
				mu.Lock()
				defer mu.Unlock()
				got = append(got, seed)
			})
			if want := "/seed_4"; !strings.Contains(t.Name(), want) {
				t.Errorf("the test's name is %s", t.Name())
			}
		})
	})
	if len(got) != 2 || got[0]+got[1] != 41+42 {
		t.Errorf("ran the seeds %v, want 41 and 42", got)
	}
}

func TestASeedInTheEnvironmentIsTheDefault(t *testing.T) {
	t.Setenv(sim.SeedVar, "1234")
	var first, second, other int
	count := func(opts sim.Options, n *int) {
		sim.Run(t, opts, func(s *sim.Sim) {
			for range 50 {
				*n = *n*3 + s.Chance(3)
			}
		})
	}
	count(sim.Options{Late: true}, &first)
	count(sim.Options{Late: true, Seed: 1234}, &second)
	count(sim.Options{Late: true, Seed: 5}, &other)
	if first != second || first == other {
		t.Errorf("lots of seed 1234 by the environment %d, by Options %d; of seed 5 %d", first, second, other)
	}
}
