package contract_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/sim"
)

func TestWhyBlockedTellsWhoHasALockForHowLongAndWhoComesBefore(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
		const ttl = 10 * time.Second
		a, b, c := s.Node(0).Cluster(), s.Node(1).Cluster(), s.Node(2).Cluster()
		if free, err := a.WhyBlocked(until(time.Minute), "x"); err != nil || free.Name != "x" || len(free.Holders)+len(free.Before)+free.Waiting != 0 {
			t.Errorf("a free lock: %+v, %v", free, err)
		}
		l := get(t, a, "x", holdfast.WithTTL(ttl), holdfast.WithLabel("nightly"))
		for i, node := range []*holdfast.Cluster{b, c, b} {
			go func() {
				if l, err := node.Acquire(until(5*time.Minute), "x"); err != nil {
					t.Error(err)
				} else if err := l.Release(until(time.Minute)); err != nil {
					t.Error(err)
				}
			}()
			time.Sleep(time.Duration(i+1) * 10 * time.Second)
		}
		why, err := c.WhyBlocked(until(time.Minute), "x")
		if err != nil || len(why.Holders) != 1 || len(why.Before) != 1 || why.Before[0].NodeID != b.ID() || why.Waiting != 1 || len(why.Cycles) != 0 {
			t.Fatalf("%+v, %v", why, err)
		}
		h := why.Holders[0]
		if h.Label != "nightly" || h.Token != l.Token() || h.Remaining < ttl/3 || h.Remaining > ttl {
			t.Errorf("%+v", h)
		}
		known := 0
		for _, node := range []*holdfast.Cluster{a, b, c} {
			why, err := node.WhyBlocked(until(time.Minute), "x")
			if err != nil || len(why.Holders) != 1 {
				t.Fatalf("%+v, %v", why, err)
			}
			switch held := why.Holders[0].Held; {
			case held >= 59*time.Second && held <= 61*time.Second:
				known++
			case held != 0: // a replica that had just begun, or was given a snapshot, does not know
				t.Errorf("held for %v", held)
			}
		}
		if known == 0 {
			t.Error("nobody knows for how long it is held")
		}
		if why, _ = a.WhyBlocked(until(time.Minute), "x"); len(why.Before) != 3 || why.Waiting != 0 {
			t.Errorf("for one who does not wait: %+v", why)
		}
		// The raft leader dies; the others still know.
		n := s.RaftLeader()
		if n.Index() == 0 {
			t.Log("the holder's node is raft leader")
		}
		if err := l.Release(until(time.Minute)); err != nil {
			t.Error(err)
		}
		rationed := get(t, a, "y", holdfast.WithMinHold(time.Minute))
		if err := rationed.Release(until(time.Minute)); err != nil {
			t.Error(err)
		}
		time.Sleep(20 * time.Second)
		n.Crash()
		other := s.Node((n.Index() + 1) % 3).Cluster()
		why, err = other.WhyBlocked(until(time.Minute), "y")
		if err != nil || len(why.Holders) != 0 || len(why.Rests) != 1 || why.Rests[0].Token != rationed.Token() ||
			why.Rests[0].Remaining < 38*time.Second || why.Rests[0].Remaining > 41*time.Second {
			t.Errorf("%+v, %v", why, err)
		}
	})
}

func TestACycleOfWaitersIsSeenAndRefusedToTheYoungestIfItAsks(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
		a, b := s.Node(0).Cluster(), s.Node(1).Cluster()
		inner := func(c *holdfast.Cluster, outer, name string, opts ...holdfast.Option) error {
			return c.Do(until(time.Minute), outer, func(ctx context.Context, _ *holdfast.Lease) error {
				time.Sleep(time.Second) // so that the other has its first lock, too
				l, err := c.Acquire(ctx, name, opts...)
				if err != nil {
					return err
				}
				return l.Release(ctx)
			})
		}
		ended := make(chan error, 1)
		go func() { ended <- inner(a, "x", "y") }()
		time.Sleep(100 * time.Millisecond)
		if err := inner(b, "y", "x", holdfast.WithDeadlockCheck()); !errors.Is(err, holdfast.ErrDeadlock) {
			t.Errorf("the youngest was told %v", err)
		}
		if err := <-ended; err != nil {
			t.Errorf("the other was told %v", err)
		}

		go func() { ended <- inner(a, "x", "y") }()
		go func() { ended <- inner(b, "y", "x") }()
		time.Sleep(10 * time.Second)
		for _, name := range []string{"x", "y"} {
			why, err := s.Node(2).Cluster().WhyBlocked(until(time.Minute), name)
			if err != nil || len(why.Cycles) != 1 || len(why.Cycles[0]) != 2 || why.Cycles[0][0].Name != name {
				t.Fatalf("%s: %+v, %v", name, why, err)
			}
			if why.Cycles[0][0].NodeID == why.Cycles[0][1].NodeID {
				t.Errorf("%+v", why.Cycles)
			}
		}
		// An operator breaks it.
		why, err := a.WhyBlocked(until(time.Minute), "x")
		if err != nil {
			t.Fatal(err)
		}
		if err := a.ForceRelease(until(time.Minute), "x", why.Holders[0].Token, "a cycle"); err != nil {
			t.Error(err)
		}
		for range 2 {
			<-ended
		}
		if why, err = a.WhyBlocked(until(time.Minute), "x"); err != nil || len(why.Cycles) != 0 {
			t.Errorf("%+v, %v", why, err)
		}
	})
}

// A caller may go on under the context of an inner lease that is over; it still keeps the outer
// one.
func TestACycleIsSeenThroughTheLeaseAroundOneThatIsOver(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
		a, b := s.Node(0).Cluster(), s.Node(1).Cluster()
		held, ended := make(chan struct{}), make(chan error, 1)
		err := b.Do(until(time.Minute), "z", func(ctx context.Context, l *holdfast.Lease) error {
			go func() {
				ended <- a.Do(until(time.Minute), "x", func(ctx context.Context, _ *holdfast.Lease) error {
					inner, err := a.Acquire(ctx, "y")
					if err != nil {
						return err
					}
					if err := inner.Release(ctx); err != nil {
						return err
					}
					close(held)
					return a.Do(context.WithoutCancel(inner.Context()), "z", nothing)
				})
			}()
			<-held
			<-l.Wanted()
			_, err := b.Acquire(ctx, "x", holdfast.WithDeadlockCheck())
			return err
		})
		if !errors.Is(err, holdfast.ErrDeadlock) {
			t.Errorf("who would close the cycle was told %v", err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestInspectTellsTheLastGrantsThatAreOver(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
		const ttl = 3 * time.Second
		a, b := s.Node(0), s.Node(1).Cluster()
		first := get(t, a.Cluster(), "x", holdfast.WithLabel("first"))
		if _, err := b.Inspect(until(time.Minute), "x"); err != nil { // it counts from when it has heard of the grant
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if err := first.Release(until(time.Minute)); err != nil {
			t.Fatal(err)
		}
		second := get(t, b, "x")
		time.Sleep(5 * time.Second)
		if err := b.ForceRelease(until(time.Minute), "x", second.Token(), "stuck"); err != nil {
			t.Fatal(err)
		}
		third := get(t, a.Cluster(), "x", holdfast.WithTTL(ttl))
		a.Isolate()
		fourth := get(t, b, "x")
		info, err := b.Inspect(until(time.Minute), "x")
		if err != nil || len(info.Past) != 3 || info.Holders[0].Token != fourth.Token() {
			t.Fatalf("%+v, %v", info, err)
		}
		about := func(d, want time.Duration) bool {
			return d > want-200*time.Millisecond && d < want+200*time.Millisecond
		}
		if p := info.Past[2]; p.Token != first.Token() || p.Label != "first" || p.NodeID == b.ID() || p.How != holdfast.EventReleased || !about(p.Held, 10*time.Second) {
			t.Errorf("%+v", p)
		}
		if p := info.Past[1]; p.Token != second.Token() || p.NodeID != b.ID() || p.How != holdfast.EventForced || !about(p.Held, 5*time.Second) {
			t.Errorf("%+v", p)
		}
		if p := info.Past[0]; p.Token != third.Token() || p.How != holdfast.EventExpired || p.Reason == "" || p.Held < ttl-time.Second || p.Held > ttl+lateMax { // this node may have heard of the grant late
			t.Errorf("%+v", p)
		}
		a.Rejoin()
	})
}
