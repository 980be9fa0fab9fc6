package contract_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/sim"
)

// beside is a node other than the raft leader, and a third one.
func beside(s *sim.Sim) (leader *sim.Node, a, b *holdfast.Cluster) {
	leader = s.RaftLeader()
	return leader, s.Node((leader.Index() + 1) % 3).Cluster(), s.Node((leader.Index() + 2) % 3).Cluster()
}

// manual takes a manually renewed lease of 20 s, gives it another TTL, and lets the raft leader
// die.
func manual(t *testing.T, s *sim.Sim, ttl time.Duration) (l *holdfast.Lease, other *holdfast.Cluster, began time.Time) {
	t.Helper()
	leader, a, b := beside(s)
	l = get(t, a, "lock", holdfast.WithManualRenew(), holdfast.WithTTL(20*time.Second))
	for range 2 { // the second time changes nothing
		began = time.Now()
		if err := l.RenewFor(until(time.Second), ttl); err != nil {
			t.Fatal(err)
		}
	}
	if left := l.Remaining(); left > ttl || left < ttl*9/10 {
		t.Errorf("%v remain of %v", left, ttl)
	}
	leader.Crash()
	return l, b, began
}

func TestALeaseWithAShorterTTLEndsAndItsLockIsFreeByThat(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
		const ttl = 4 * time.Second
		l, b, began := manual(t, s, ttl)
		next := get(t, b, "lock")
		if took := time.Since(began); took < ttl*9/10 || took > ttl+lateMax { // clocks drift
			t.Errorf("granted again after %v", took)
		}
		if l.Valid() || !errors.Is(l.Err(), holdfast.ErrLost) || next.Token() <= l.Token() {
			t.Errorf("valid %v, %v, token %d after %d", l.Valid(), l.Err(), next.Token(), l.Token())
		}
	})
}

func TestALeaseWithALongerTTLLivesForItThoughTheRaftLeaderDies(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
		const ttl = time.Minute
		l, b, began := manual(t, s, ttl)
		if _, err := b.Acquire(until(ttl-5*time.Second), "lock"); !errors.Is(err, holdfast.ErrHeld) {
			t.Errorf("while it is held: %v", err)
		}
		if !l.Valid() {
			t.Errorf("over after %v: %v", time.Since(began), l.Err())
		}
		if err := l.Renew(until(time.Second)); err != nil {
			t.Error(err)
		}
		if left := l.Remaining(); left < ttl*9/10 {
			t.Errorf("Renew left %v: not the TTL of RenewFor", left)
		}
		if err := l.Release(until(time.Second)); err != nil {
			t.Error(err)
		}
		get(t, b, "lock")
	})
}

// A holder that asks for a shorter TTL and hears nothing must take it that the group has heard.
func TestAShorterTTLThatIsNotConfirmedEndsTheLeaseUnlessALaterRenewalIs(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
		const long, short = 20 * time.Second, 2 * time.Second
		n := s.Node((s.RaftLeader().Index() + 1) % 3)
		lease := func(name string) *holdfast.Lease {
			return get(t, n.Cluster(), name, holdfast.WithManualRenew(), holdfast.WithTTL(long))
		}
		kept, ends, spared := lease("kept"), lease("ends"), lease("spared")
		n.Isolate()
		began := time.Now()
		for _, l := range []*holdfast.Lease{kept, ends} {
			if err := l.RenewFor(until(100*time.Millisecond), short); !errors.Is(err, holdfast.ErrNoQuorum) {
				t.Errorf("without a majority: %v", err)
			}
			if left := l.Remaining(); left > short {
				t.Errorf("%v remain, though the group may have heard of %v", left, short)
			}
		}
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		if err := spared.RenewFor(ended, short); !errors.Is(err, context.Canceled) || spared.Remaining() < long/2 {
			t.Errorf("a call that sent nothing: %v, %v remain", err, spared.Remaining())
		}
		n.Rejoin()
		if err := kept.Renew(until(short)); err != nil {
			t.Fatal(err)
		}
		if left := kept.Remaining(); left < long*9/10 {
			t.Errorf("after a renewal that was confirmed %v remain", left)
		}
		<-ends.Done()
		if took := time.Since(began); took > short+100*time.Millisecond {
			t.Errorf("ended after %v", took)
		}
	})
}

func TestRenewForIsForManuallyRenewedLeasesThatAreHeld(t *testing.T) {
	t.Parallel()
	virtual(t, func(c *holdfast.Cluster) {
		l := get(t, c, "manual", holdfast.WithManualRenew())
		auto := get(t, c, "automatic")
		var none context.Context
		for what, err := range map[string]error{
			"automatic": auto.RenewFor(until(time.Second), time.Minute),
			"too short": l.RenewFor(until(time.Second), holdfast.TTLMin-1),
			"too long":  l.RenewFor(until(time.Second), holdfast.TTLMax+1),
			"nil":       l.RenewFor(none, time.Minute),
		} {
			if !errors.Is(err, holdfast.ErrInvalid) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if err := l.Release(until(time.Second)); err != nil {
			t.Fatal(err)
		}
		if err := l.RenewFor(until(time.Second), time.Minute); !errors.Is(err, holdfast.ErrReleased) {
			t.Errorf("released: %v", err)
		}
		lost := get(t, c, "lost", holdfast.WithManualRenew(), holdfast.WithTTL(time.Second))
		<-lost.Done()
		if err := lost.RenewFor(until(time.Second), time.Minute); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("lost: %v", err)
		}
	})
}
