package contract_test

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/sim"
)

// lateEnd is how late the end of a rest may be noticed: an election, and a proposal.
const lateEnd = 2 * time.Second

func TestAReleasedLockStaysTakenUntilItsMinimumHoldTimeAlsoWhenTheRaftLeaderDies(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
		const hold = 10 * time.Second
		for i, opts := range [][]holdfast.Option{nil, {holdfast.WithManualRenew()}, nil} {
			leader := s.RaftLeader()
			a, b := s.Node((leader.Index()+1)%3).Cluster(), s.Node((leader.Index()+2)%3).Cluster()
			began := time.Now()
			l := get(t, a, "rationed", append(opts, holdfast.WithMinHold(hold), holdfast.WithTTL(4*time.Second))...)
			if err := l.Release(until(time.Minute)); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took > time.Second {
				t.Errorf("Release took %v", took)
			}
			if _, err := b.TryAcquire(until(time.Minute), "rationed"); !errors.Is(err, holdfast.ErrHeld) {
				t.Errorf("right after: %v", err)
			}
			if info, err := b.Inspect(until(time.Minute), "rationed"); err != nil || len(info.Holders) != 0 || info.LastToken != l.Token() || info.Delayed != 1 {
				t.Errorf("%+v, %v", info, err)
			}
			if i > 0 {
				leader.Crash()
			}
			next := get(t, b, "rationed")
			if took := time.Since(began); took < hold || took > hold+lateEnd {
				t.Errorf("%d: granted again after %v", i, took)
			}
			if next.Token() <= l.Token() {
				t.Errorf("token %d after %d", next.Token(), l.Token())
			}
			if err := next.Release(until(time.Minute)); err != nil {
				t.Fatal(err)
			}
			if i > 0 {
				leader.Open()
				leader.Ready()
			}
		}
	})
}

func TestALockHeldForLongerThanItsMinimumIsFreeAtOnceAndALostOneDoesNotRest(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
		c := s.Node(0).Cluster()
		l := get(t, c, "x", holdfast.WithMinHold(2*time.Second))
		time.Sleep(3 * time.Second)
		if err := l.Release(until(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.TryAcquire(until(time.Minute), "x"); err != nil {
			t.Errorf("after its time: %v", err)
		}
		const ttl = 2 * time.Second
		get(t, c, "lost", holdfast.WithMinHold(time.Hour), holdfast.WithTTL(ttl))
		began := time.Now()
		s.Node(0).Isolate()
		get(t, s.Node(1).Cluster(), "lost")
		if took := time.Since(began); took > ttl+lateMax {
			t.Errorf("a lost lock was granted again after %v", took)
		}
	})
}

// A rate limit holds also where a hold has a bound: a holder that hangs gives no place to more than one in d.
func TestALeaseThatItsMaximumEndsKeepsTheRestOfItsMinimum(t *testing.T) {
	t.Parallel()
	virtual(t, func(c *holdfast.Cluster) {
		const ttl, most, least = 2 * time.Second, 3 * time.Second, 10 * time.Second
		l := get(t, c, "rationed", holdfast.WithTTL(ttl), holdfast.WithMaxHold(most), holdfast.WithMinHold(least))
		began := time.Now()
		<-l.Done()
		if took, err := time.Since(began), l.Err(); took > most || !errors.Is(err, holdfast.ErrMaxHold) {
			t.Errorf("ended after %v: %v", took, err)
		}
		get(t, c, "rationed")
		if took := time.Since(began); took < least || took > least+lateEnd {
			t.Errorf("granted again after %v", took)
		}
	})
}

func TestALostLockIsFreeOfHoldersForItsDelayAndAReleasedOneIsNot(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
		const ttl, delay = 2 * time.Second, 8 * time.Second
		opts := []holdfast.Option{holdfast.WithTTL(ttl), holdfast.WithLockDelay(delay)}
		a, b := s.Node(0), s.Node(1).Cluster()
		if err := get(t, a.Cluster(), "x", opts...).Release(until(time.Minute)); err != nil {
			t.Fatal(err)
		}
		l, err := b.TryAcquire(until(time.Minute), "x", opts...)
		if err != nil {
			t.Fatalf("after a release: %v", err)
		}
		if err := b.ForceRelease(until(time.Minute), "x", l.Token(), "a test"); err != nil {
			t.Fatal(err)
		}
		if l, err = b.TryAcquire(until(time.Minute), "x"); err != nil {
			t.Fatalf("after a forced release: %v", err)
		}
		if err := l.Release(until(time.Minute)); err != nil {
			t.Fatal(err)
		}

		// Not renewed in time.
		l = get(t, a.Cluster(), "x", opts...)
		a.Isolate()
		<-l.Done()
		began := time.Now()
		next := get(t, b, "x")
		if took := time.Since(began); took < delay || took > ttl+lateMax+delay+lateEnd {
			t.Errorf("after a loss, granted again after %v", took)
		}
		if err := next.Release(until(time.Minute)); err != nil {
			t.Fatal(err)
		}
		a.Rejoin()

		// Past its maximum hold time, and on a node that is closed.
		l = get(t, a.Cluster(), "x", append(opts, holdfast.WithMaxHold(time.Second))...)
		<-l.Done()
		began = time.Now()
		next = get(t, b, "x")
		if took := time.Since(began); took < delay || took > delay+lateEnd {
			t.Errorf("after the maximum hold time, granted again after %v", took)
		}
		if err := next.Release(until(time.Minute)); err != nil {
			t.Fatal(err)
		}
		get(t, a.Cluster(), "x", opts...)
		began = time.Now()
		a.Close()
		get(t, b, "x")
		if took := time.Since(began); took < delay || took > delay+lateEnd {
			t.Errorf("after Close, granted again after %v", took)
		}
	})
}

// While the group has no majority nobody can end a rest; what was tried then must be tried again.
func TestARestThatEndsWithoutAMajorityEndsWhenThereIsOneAgain(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
		const hold = 20 * time.Second
		l := get(t, s.Node(0).Cluster(), "rationed", holdfast.WithMinHold(hold))
		if err := l.Release(until(time.Minute)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(hold / 4)
		s.Partition([]int{0}, []int{1}, []int{2}) // long before, so that no raft leader is left to take the proposal
		time.Sleep(2 * hold)
		s.Heal()
		began := time.Now()
		get(t, s.Node(1).Cluster(), "rationed")
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("granted again %v after the heal", took)
		}
	})
}

// The group learns with a release how much of the minimum is left. An outage before it hears of that
// comes on top.
func TestAnOutageAtTheReleaseMakesAMinimumLongerByItsLength(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
		const hold, ttl = 30 * time.Second, 15 * time.Second
		const outage = ttl / 3 // shorter than the TTL: the lease is not lost to the group
		l := get(t, s.Node(0).Cluster(), "rationed", holdfast.WithMinHold(hold), holdfast.WithTTL(ttl))
		granted := time.Now()
		s.Partition([]int{0}, []int{1}, []int{2})
		time.AfterFunc(outage, s.Heal)
		if err := l.Release(until(time.Minute)); err != nil {
			t.Fatal(err)
		}
		heard := time.Since(granted)
		get(t, s.Node(1).Cluster(), "rationed")
		if took := time.Since(granted); heard < outage || took < hold || took > hold+heard+lateEnd {
			t.Errorf("granted again %v after the grant, released %v after it", took, heard)
		}
	})
}

func TestHoldTimesOutOfRangeAreRefused(t *testing.T) {
	t.Parallel()
	c := single(t)
	for _, d := range []time.Duration{0, -1, time.Microsecond, holdfast.HoldMax + 1} {
		for _, opt := range []holdfast.Option{holdfast.WithMinHold(d), holdfast.WithLockDelay(d)} {
			if _, err := c.Acquire(t.Context(), "x", opt); !errors.Is(err, holdfast.ErrInvalid) {
				t.Errorf("%v: %v", d, err)
			}
		}
		for _, opt := range []holdfast.Option{holdfast.WithTTL(d), nil} {
			if _, err := c.Once(t.Context(), "x", nothing, opt); !errors.Is(err, holdfast.ErrInvalid) {
				t.Errorf("%v: %v", d, err)
			}
		}
		if d <= 0 {
			if _, err := c.Once(t.Context(), "x", nothing, holdfast.WithKeepFor(d)); !errors.Is(err, holdfast.ErrInvalid) {
				t.Errorf("%v: %v", d, err)
			}
		}
	}
}
