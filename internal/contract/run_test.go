package contract_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/sim"
)

func TestARunThatIsFinishedIsRememberedAndOneThatIsAbandonedLeavesTheKeyOpen(t *testing.T) {
	t.Parallel()
	c := single(t, func(cfg *holdfast.Config) { cfg.Name = "host-a" })
	ctx := within(t, time.Minute)
	if r, err := c.InspectOnce(ctx, "mail"); err != nil || r.Finished || r.Token != 0 {
		t.Errorf("a key that nobody has run: %+v, %v", r, err)
	}
	first, r, err := c.BeginOnce(ctx, "mail", holdfast.WithLabel("by hand"))
	if err != nil || first == nil || !r.Ran || r.Finished || r.Token != first.Lease().Token() {
		t.Fatalf("%+v, %v", r, err)
	}
	for what, look := range map[string]func() (holdfast.OnceResult, error){
		"InspectOnce": func() (holdfast.OnceResult, error) { return c.InspectOnce(ctx, "mail") },
		"BeginOnce": func() (holdfast.OnceResult, error) {
			run, r, err := c.BeginOnce(ctx, "mail")
			if run != nil {
				t.Error("two run the key")
			}
			return r, err
		},
		"Once": func() (holdfast.OnceResult, error) { return c.Once(ctx, "mail", nothing) },
	} {
		if r, err := look(); err != nil || r.Ran || r.Finished || r.Token != first.Lease().Token() || r.By.Label != "by hand" || r.By.Node != "host-a" {
			t.Errorf("%s while it runs: %+v, %v", what, r, err)
		}
	}
	for range 2 {
		if err := first.Abandon(ctx); err != nil {
			t.Error(err)
		}
	}
	if err := first.Finish(ctx); !errors.Is(err, holdfast.ErrReleased) {
		t.Errorf("Finish after Abandon: %v", err)
	}
	second, _, err := c.BeginOnce(ctx, "mail", holdfast.WithKeepFor(time.Hour))
	if err != nil || second == nil || second.Lease().Token() <= first.Lease().Token() {
		t.Fatalf("%v, %v", second, err)
	}
	for range 2 {
		if err := second.Finish(ctx); err != nil {
			t.Error(err)
		}
	}
	if err := second.Abandon(ctx); err != nil {
		t.Errorf("Abandon after Finish: %v", err)
	}
	if run, r, err := c.BeginOnce(ctx, "mail"); run != nil || err != nil || !r.Finished || r.Token != second.Lease().Token() {
		t.Errorf("after Finish: %+v, %v", r, err)
	}
	if r, err := c.InspectOnce(ctx, "mail"); err != nil || !r.Finished || r.Token != second.Lease().Token() || r.By.NodeID != c.ID() {
		t.Errorf("after Finish: %+v, %v", r, err)
	}
	_, _, err = c.BeginOnce(ctx, "mail", holdfast.WithKeepFor(0))
	wantField(t, err, "WithKeepFor")
}

func TestARunThatWasLostCannotBeFinished(t *testing.T) {
	t.Parallel()
	c := single(t)
	ctx := within(t, time.Minute)
	run, _, err := c.BeginOnce(ctx, "key")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := run.Finish(ctx); !errors.Is(err, holdfast.ErrLost) || !errors.Is(err, holdfast.ErrClosed) {
		t.Errorf("Finish after the end of the node: %v", err)
	}
	if err := run.Abandon(ctx); !errors.Is(err, holdfast.ErrLost) {
		t.Errorf("Abandon after the end of the node: %v", err)
	}
}

func TestALeaseReadsItsLocksValue(t *testing.T) {
	t.Parallel()
	c := single(t)
	ctx := within(t, time.Minute)
	want := func(l *holdfast.Lease, value string) {
		t.Helper()
		if got := string(l.Value()); got != value {
			t.Errorf("got %q, want %q", got, value)
		}
	}
	l := acquire(t, c, "lock")
	want(l, "")
	if err := l.Set(ctx, []byte("offset 7")); err != nil {
		t.Fatal(err)
	}
	want(l, "offset 7")
	if err := l.Release(ctx); err != nil {
		t.Fatal(err)
	}
	next := acquire(t, c, "lock")
	want(next, "offset 7")
	want(l, "")
	if err := next.Release(ctx); err != nil {
		t.Fatal(err)
	}
	want(acquire(t, c, "lock", holdfast.WithValue([]byte("mine"))), "mine")
}

func TestAllMistakesOfAConfigAreToldAtOnce(t *testing.T) {
	t.Parallel()
	_, err := holdfast.Open(t.Context(), holdfast.Config{Voters: 4, TTL: time.Millisecond, Zone: "a\nb", Join: []string{"host:notaport"}})
	for _, field := range []string{"Config.Voters", "Config.TTL", "Config.Zone", "Config.Join"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s is not told: %v", field, err)
		}
	}
}

// The group is out of reach. A second Finish waited for the first one, whatever its context said.
func TestFinishHeedsItsContextWhileAnotherOneIsUnderWay(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
		run, _, err := s.Node(0).Cluster().BeginOnce(until(time.Minute), "key", holdfast.WithTTL(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		s.Partition([]int{0}, []int{1}, []int{2})
		first := make(chan error, 1)
		go func() { first <- run.Finish(until(time.Hour)) }()
		time.Sleep(time.Second)
		began := time.Now()
		if err := run.Finish(until(time.Second)); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 2*time.Second {
			t.Errorf("the second one ended after %v: %v", time.Since(began), err)
		}
		s.Heal()
		if err := <-first; err != nil {
			t.Error(err)
		}
	})
}

// A signal that ends a service ends its contexts, too. The lease of the run was given up for a command
// that was never sent: the job had succeeded, and ran again.
func TestAFinishThatIsNotSentGivesNothingUp(t *testing.T) {
	t.Parallel()
	c := single(t)
	over, end := context.WithCancel(t.Context())
	end()
	for i := range 20 { // a select of two that are ready goes either way
		key := fmt.Sprint("key", i)
		run, _, err := c.BeginOnce(within(t, time.Minute), key)
		if err != nil {
			t.Fatal(err)
		}
		if err := run.Finish(over); !errors.Is(err, context.Canceled) || !run.Lease().Valid() {
			t.Errorf("%v; the lease is valid: %t", err, run.Lease().Valid())
		}
		if err := run.Finish(within(t, time.Minute)); err != nil {
			t.Error(err)
		}
		if r, err := c.InspectOnce(within(t, time.Minute), key); err != nil || !r.Finished {
			t.Errorf("%+v, %v", r, err)
		}
	}
}

// A second Finish answered ErrReleased, whatever the group had done with the first.
func TestAFurtherFinishSaysWhatBecameOfTheRun(t *testing.T) {
	t.Parallel()
	for _, carriedOut := range []bool{true, false} {
		sim.Run(t, sim.Options{Nodes: 3, Config: longTTL}, func(s *sim.Sim) {
			deaf, other, cut := deafen(s)
			run, _, err := deaf.Cluster().BeginOnce(until(time.Minute), "key", holdfast.WithTTL(time.Hour))
			if err != nil {
				t.Fatal(err)
			}
			if carriedOut {
				cut()
			} else {
				s.Partition([]int{0}, []int{1}, []int{2})
			}
			if err := run.Finish(until(time.Second)); !errors.Is(err, holdfast.ErrUnknownOutcome) {
				t.Errorf("carried out: %t: the first answers %v", carriedOut, err)
			}
			s.Heal()
			time.Sleep(time.Minute)
			err = run.Finish(until(time.Minute))
			r, inspected := other.Cluster().InspectOnce(until(time.Minute), "key")
			if inspected != nil || r.Finished != (err == nil) || carriedOut && err != nil || err != nil && !errors.Is(err, holdfast.ErrLost) {
				t.Errorf("carried out: %t: the second answers %v, and the key is %+v, %v", carriedOut, err, r, inspected)
			}
		})
	}
}

// "defer l.Release(ctx)" is what every other lease is given back with.
func TestARunWhoseLeaseItsFunctionReleasesIsNoSuccess(t *testing.T) {
	t.Parallel()
	c := single(t)
	r, err := c.Once(within(t, time.Minute), "key", func(_ context.Context, l *holdfast.Lease) error {
		_ = l.Release(t.Context())
		return nil
	})
	if !errors.Is(err, holdfast.ErrReleased) || !r.Ran || r.Finished {
		t.Errorf("%+v, %v", r, err)
	}
}

// The runtime ends a process that takes the finalizer from a copy within something else.
func TestACopyOfALeaseReleasesIt(t *testing.T) {
	t.Parallel()
	c := single(t)
	ctx := within(t, time.Minute)
	l := acquire(t, c, "lock")
	copies := make([]holdfast.Lease, 2)
	reflect.ValueOf(&copies[1]).Elem().Set(reflect.ValueOf(l).Elem()) // go vet finds a plain copy
	if err := copies[1].Release(ctx); err != nil || l.Valid() {
		t.Errorf("released: %v, valid: %t", err, l.Valid())
	}
	if err := l.Release(ctx); err != nil {
		t.Error(err)
	}
}
