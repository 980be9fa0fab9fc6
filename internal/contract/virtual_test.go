package contract_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/sim"
)

// The tests of this file run real nodes under virtual time: what depends on time.

func TestAnIsolatedHolderLosesItsLeaseBeforeAnotherIsGrantedTheLock(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
		for i := range 3 {
			const ttl = 5 * time.Second
			holder, other := s.Node(i), s.Node((i+1)%3)
			l := get(t, holder.Cluster(), "lock", holdfast.WithTTL(ttl))
			began := time.Now()
			holder.Isolate()
			next := get(t, other.Cluster(), "lock", holdfast.WithTTL(ttl))
			took := time.Since(began)
			if l.Valid() || next.Token() <= l.Token() {
				t.Errorf("two holders: the old one is valid=%v with token %d, the new one has %d", l.Valid(), l.Token(), next.Token())
			}
			select {
			case <-l.Done():
			default:
				t.Error("the isolated holder was not told by its own clock")
			}
			if err := l.Err(); !errors.Is(err, holdfast.ErrLost) || !errors.Is(err, holdfast.ErrExpired) {
				t.Errorf("the isolated holder was told %v", err)
			}
			if took > ttl+lateMax {
				t.Errorf("granted again after %v, with a TTL of %v", took, ttl)
			}
			holder.Rejoin()
			if err := next.Release(until(time.Minute)); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestTheLockOfADeadHolderIsGrantedInTimeAlsoWhenTheRaftLeaderDiesAtTheWorstMoment(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 5, Config: func(_ int, c *holdfast.Config) { c.Voters = 5 }}, func(s *sim.Sim) {
		const ttl = 5 * time.Second
		for round := range 4 {
			leader := s.RaftLeader()
			var rest []*sim.Node
			for _, n := range s.Nodes() {
				if n != leader {
					rest = append(rest, n)
				}
			}
			holder, waiter := rest[0], rest[1]
			get(t, holder.Cluster(), "lock", holdfast.WithTTL(ttl))
			began := time.Now()
			holder.Isolate()
			granted := make(chan time.Duration, 1)
			go func() {
				l, err := waiter.Cluster().Acquire(until(time.Minute), "lock", holdfast.WithTTL(ttl))
				if err != nil {
					t.Error(err)
				} else if err := l.Release(until(time.Minute)); err != nil {
					t.Error(err)
				}
				granted <- time.Since(began)
			}()
			// Just before the raft leader would propose the expiry.
			time.Sleep(ttl - time.Duration(round)*50*time.Millisecond)
			leader.Isolate()
			if took := <-granted; took > ttl+lateMax {
				t.Errorf("round %d: granted after %v, with a TTL of %v", round, took, ttl)
			}
			holder.Rejoin()
			leader.Rejoin()
			leader.Ready()
			holder.Ready()
		}
	})
}

func TestARestartedReplicaThatBecomesRaftLeaderExpiresNobodyEarly(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
		const ttl = 10 * time.Second
		l := get(t, s.Node(0).Cluster(), "lock", holdfast.WithTTL(ttl))
		for round := range 6 {
			n := s.Node(1 + round%2)
			n.Crash()
			n.Open()
			n.Ready()
			if !l.Valid() || l.Err() != nil {
				t.Fatalf("round %d: the lease of a living holder ended: %v", round, l.Err())
			}
			if err := s.Node(2).Cluster().Verify(until(10*time.Second), "lock", l.Token()); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
		}
	})
}

func TestAKilledNodeFreesItsLocksWhenItStartsAgain(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 3, Config: longTTL}, func(s *sim.Sim) {
		l := get(t, s.Node(0).Cluster(), "lock", holdfast.WithTTL(time.Hour))
		s.Node(0).Kill()
		if _, err := s.Node(1).Cluster().TryAcquire(until(10*time.Second), "lock"); !errors.Is(err, holdfast.ErrHeld) {
			t.Errorf("before the restart: %v", err)
		}
		began := time.Now()
		s.Node(0).Open()
		next := get(t, s.Node(1).Cluster(), "lock")
		if took := time.Since(began); took > 5*time.Second || next.Token() <= l.Token() {
			t.Errorf("granted %v after the restart with token %d after %d", took, next.Token(), l.Token())
		}
	})
}

func TestWithoutAQuorumCallsAnswerInTimeLeasesEndAndServiceResumesByItself(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
		const ttl = 5 * time.Second
		c := s.Node(0).Cluster()
		l := get(t, c, "held", holdfast.WithTTL(ttl))
		s.Partition([]int{0}, []int{1}, []int{2})
		began := time.Now()
		for name, call := range map[string]func(context.Context) error{
			"Acquire":    func(ctx context.Context) error { _, err := c.Acquire(ctx, "other"); return err },
			"TryAcquire": func(ctx context.Context) error { _, err := c.TryAcquire(ctx, "other"); return err },
			"Verify":     func(ctx context.Context) error { return c.Verify(ctx, "held", l.Token()) },
			"Inspect":    func(ctx context.Context) error { _, err := c.Inspect(ctx, "held"); return err },
			"Renew":      l.Renew,
			"Ready":      c.Ready,
		} {
			began := time.Now()
			err := call(until(300 * time.Millisecond))
			if !errors.Is(err, holdfast.ErrNoQuorum) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s without a quorum: %v", name, err)
			}
			if took := time.Since(began); took > 400*time.Millisecond {
				t.Errorf("%s answered %v after its deadline of 300 ms", name, took)
			}
		}
		<-l.Done()
		if took := time.Since(began); took > ttl {
			t.Errorf("the lease of %v ended after %v", ttl, took)
		}
		time.Sleep(time.Minute)
		s.Heal()
		began = time.Now()
		next := get(t, s.Node(1).Cluster(), "held")
		if took := time.Since(began); took > 20*time.Second || next.Token() <= l.Token() {
			t.Errorf("service resumed after %v, token %d after %d", took, next.Token(), l.Token())
		}
	})
}

func TestTokensRiseAfterAllDataIsLost(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
		var last holdfast.Token
		for round := range 3 {
			for i := range 3 {
				l := get(t, s.Node(i).Cluster(), "lock")
				if l.Token() <= last {
					t.Fatalf("round %d: token %d after %d", round, l.Token(), last)
				}
				last = l.Token()
				if err := l.Release(until(time.Minute)); err != nil {
					t.Fatal(err)
				}
			}
			for _, n := range s.Nodes() {
				n.Crash()
				n.Wipe()
			}
			for _, n := range s.Nodes() {
				n.Open()
			}
			for _, n := range s.Nodes() {
				n.Ready()
			}
		}
	})
}

func TestWaitersOfAllNodesAreServedInTheOrderOfTheirArrival(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
		l := get(t, s.Node(0).Cluster(), "queue")
		var mu sync.Mutex
		var got []int
		var all sync.WaitGroup
		for i := range 30 {
			all.Go(func() {
				l, err := s.Node(i%3).Cluster().Acquire(until(time.Hour), "queue")
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				got = append(got, i)
				mu.Unlock()
				time.Sleep(10 * time.Millisecond)
				if err := l.Release(until(time.Minute)); err != nil {
					t.Error(err)
				}
			})
			time.Sleep(100 * time.Millisecond) // so that each has arrived before the next
		}
		if err := l.Release(until(time.Minute)); err != nil {
			t.Error(err)
		}
		all.Wait()
		if !slices.IsSorted(got) || len(got) != 30 {
			t.Errorf("served in the order %v", got)
		}
	})
}

func TestADeadWaiterBlocksNobody(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
		l := get(t, s.Node(0).Cluster(), "queue")
		dead := make(chan error, 1)
		c := s.Node(1).Cluster()
		go func() {
			_, err := c.Acquire(until(time.Hour), "queue", holdfast.WithTTL(5*time.Second))
			dead <- err
		}()
		time.Sleep(time.Second)
		next := make(chan *holdfast.Lease, 1)
		go func() {
			l, err := s.Node(2).Cluster().Acquire(until(time.Hour), "queue")
			if err != nil {
				t.Error(err)
			}
			next <- l
		}()
		time.Sleep(time.Second)
		s.Node(1).Crash()
		if err := <-dead; !errors.Is(err, holdfast.ErrClosed) {
			t.Errorf("the waiter of the crashed node was told %v", err)
		}
		began := time.Now()
		if err := l.Release(until(time.Minute)); err != nil {
			t.Error(err)
		}
		<-next
		if took := time.Since(began); took > 5*time.Second+lateMax {
			t.Errorf("the waiter behind a dead one waited %v", took)
		}
	})
}

func TestJeopardyIsToldAtHalfOfTheValidityAndWhenItIsSafeAgain(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
		const ttl = 12 * time.Second
		l := get(t, s.Node(0).Cluster(), "lock", holdfast.WithTTL(ttl))
		s.Node(0).Isolate()
		began := time.Now()
		j := <-l.Jeopardy()
		if took := time.Since(began); j.Safe || j.Cause == nil || took > ttl/2 {
			t.Errorf("after %v: %+v", took, j)
		}
		if !l.Valid() || j.Remaining > ttl/2 || j.Remaining <= 0 {
			t.Errorf("in jeopardy: valid=%v, %v remain", l.Valid(), j.Remaining)
		}
		s.Node(0).Rejoin()
		if j = <-l.Jeopardy(); !j.Safe {
			t.Errorf("after the end of the trouble: %+v", j)
		}
		if l.Err() != nil {
			t.Error(l.Err())
		}
	})
}

func TestAManuallyRenewedLeaseLivesByItsRenewalsAlone(t *testing.T) {
	t.Parallel()
	virtual(t, func(c *holdfast.Cluster) {
		l := get(t, c, "manual", holdfast.WithManualRenew(), holdfast.WithTTL(4*time.Second))
		other := get(t, c, "automatic", holdfast.WithTTL(4*time.Second))
		for range 3 {
			time.Sleep(3 * time.Second)
			if err := l.Renew(until(time.Second)); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		<-l.Done()
		if took := time.Since(began); took > 4*time.Second || took < 3*time.Second {
			t.Errorf("a lease of 4 s ended %v after its last renewal", took)
		}
		if err := l.Renew(until(time.Second)); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("renewing a lost lease: %v", err)
		}
		if other.Err() != nil {
			t.Errorf("it took another lease with it: %v", other.Err())
		}
		get(t, c, "manual")
	})
}

func TestMaxHoldEndsItsLeaseAndNoOther(t *testing.T) {
	t.Parallel()
	virtual(t, func(c *holdfast.Cluster) {
		const ttl, hold = 2 * time.Second, 10 * time.Second
		other := get(t, c, "other", holdfast.WithTTL(ttl))
		l := get(t, c, "capped", holdfast.WithTTL(ttl), holdfast.WithMaxHold(hold))
		began := time.Now()
		next := get(t, c, "capped", holdfast.WithTTL(ttl))
		if took := time.Since(began); took < hold || took > hold+ttl {
			t.Errorf("granted again after %v", took)
		}
		if err := l.Err(); !errors.Is(err, holdfast.ErrLost) || !errors.Is(err, holdfast.ErrMaxHold) {
			t.Errorf("the holder was told %v", err)
		}
		if other.Err() != nil || !next.Valid() {
			t.Error("it touched another lease")
		}
	})
}

// Found by sim/cmd/chaos: a lease that was to end in 30 ms said that 1.9 s remained.
func TestRemainingKnowsOfMaxHold(t *testing.T) {
	t.Parallel()
	virtual(t, func(c *holdfast.Cluster) {
		const hold = 10 * time.Second
		l := get(t, c, "capped", holdfast.WithTTL(8*time.Second), holdfast.WithMaxHold(hold))
		for began := time.Now(); time.Since(began) < hold; time.Sleep(time.Second) {
			if left, most := l.Remaining(), hold-time.Since(began); left > most {
				t.Errorf("%v remain, at most %v do", left, most)
			}
		}
	})
}

func TestASuspendedMachineFindsItsLeaseOverAtTheFirstLook(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{}, func(s *sim.Sim) {
		l := get(t, s.Node(0).Cluster(), "lock", holdfast.WithTTL(15*time.Second))
		s.Node(0).Suspend(time.Hour)
		if l.Valid() || l.Remaining() != 0 || !errors.Is(l.Err(), holdfast.ErrLost) {
			t.Errorf("valid=%v, %v remain, error %v", l.Valid(), l.Remaining(), l.Err())
		}
	})
}

func TestALeaseEndsInTimeOnClocksThatDriftWithinTheBound(t *testing.T) {
	t.Parallel()
	drift := func(_ int, c *holdfast.Config) { c.MaxClockDrift = 0.1 }
	sim.Run(t, sim.Options{Nodes: 3, Config: drift}, func(s *sim.Sim) {
		const ttl = 10 * time.Second
		s.Node(0).Drift(0.96)
		s.Node(1).Drift(1.04)
		s.Node(2).Drift(1.04)
		for range 5 {
			l := get(t, s.Node(0).Cluster(), "lock", holdfast.WithTTL(ttl))
			s.Node(0).Isolate()
			next := get(t, s.Node(1).Cluster(), "lock", holdfast.WithTTL(ttl))
			if l.Valid() {
				t.Error("two holders on drifting clocks")
			}
			s.Node(0).Rejoin()
			if err := next.Release(until(time.Minute)); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestTwoHalvesOfAFleetNeverFormTwoGroups(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 5, Late: true}, func(s *sim.Sim) {
		s.Partition([]int{0, 1}, []int{2, 3, 4})
		for _, n := range s.Nodes() {
			n.Open()
		}
		time.Sleep(time.Minute)
		for i, n := range s.Nodes()[:2] {
			if id := n.Cluster().Status().ClusterID; id != "" {
				t.Errorf("node %d of the smaller half formed group %s", i, id)
			}
		}
		s.Heal()
		for _, n := range s.Nodes() {
			n.Ready()
		}
		want := s.Node(4).Cluster().Status().ClusterID
		for i, n := range s.Nodes() {
			if id := n.Cluster().Status().ClusterID; id != want {
				t.Errorf("node %d belongs to group %s, others to %s", i, id, want)
			}
		}
	})
}
