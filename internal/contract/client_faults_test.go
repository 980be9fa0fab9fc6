package contract_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/sim"
)

// withClients runs f with three nodes and two clients of theirs.
func withClients(t *testing.T, f func(s *sim.Sim, a, b *holdfast.Cluster)) {
	t.Helper()
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 5, Config: func(i int, cfg *holdfast.Config) {
		cfg.ClientOnly = i >= 3
		cfg.Bootstrap = 3
	}}, func(s *sim.Sim) { f(s, s.Node(3).Cluster(), s.Node(4).Cluster()) })
}

// Each node with a replica dies in turn, and so the one that a client hangs on and the raft leader:
// by SIGKILL, and by a power failure, which closes no connection.
func TestALeaseOfAClientOutlivesTheNodeThatItHangsOnAndTheRaftLeader(t *testing.T) {
	withClients(t, func(s *sim.Sim, a, b *holdfast.Cluster) {
		short := get(t, a, "short", holdfast.WithTTL(2*time.Second))
		waiting := queued(t, b, "short")
		for round := range 2 {
			for i := range 3 {
				if n := s.Node(i); round == 0 {
					n.Kill()
				} else {
					n.Crash()
				}
				give(t, get(t, b, "other"))
				time.Sleep(5 * time.Second)
				s.Node(i).Open()
				s.Node(i).Ready()
				if !short.Valid() {
					t.Fatalf("round %d, node %d: %v", round, i, short.Err())
				}
			}
		}
		tooEarly(t, "the waiter", waiting)
		give(t, short)
		if next := <-waiting; next.Token() <= short.Token() {
			t.Errorf("token %d after %d", next.Token(), short.Token())
		}
	})
}

// A replica without the others answers every ping of its client, and can neither renew a lease nor
// tell of one: the client leaves it for another. When no replica has a raft leader, the client stays
// with one of them.
func TestAClientLeavesAReplicaThatHearsNoRaftLeader(t *testing.T) {
	withClients(t, func(s *sim.Sim, a, b *holdfast.Cluster) {
		held := get(t, a, "x", holdfast.WithTTL(4*time.Second))
		granted := make(chan holdfast.Token, 10)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go func() {
			for e, err := range a.Watch(ctx, "y") {
				if err == nil && e.Kind == holdfast.EventGranted {
					granted <- e.Holder.Token
				}
			}
		}()
		for i := range 3 {
			s.Partition([]int{i}, []int{(i + 1) % 3, (i + 2) % 3})
			time.Sleep(10 * time.Second)
			if !held.Valid() {
				t.Fatalf("node %d: %v", i, held.Err())
			}
			of := get(t, b, "y")
			if told := <-granted; told != of.Token() {
				t.Errorf("node %d: told of token %d, not %d", i, told, of.Token())
			}
			give(t, of)
			s.Heal()
			time.Sleep(5 * time.Second)
		}
		s.Partition([]int{0}, []int{1}, []int{2})
		<-held.Done()
		served := 0
		for range 100 {
			time.Sleep(101 * time.Millisecond)
			if !strings.Contains(a.Status().Waits, "no replica serves") {
				served++
			}
		}
		if served < 90 {
			t.Errorf("without a majority a replica served the client %d times of 100", served)
		}
		s.Heal()
		give(t, get(t, a, "x"))
	})
}

func TestAClientThatIsCutOffKeepsItsLeasesUntilTheyEndAndNoLonger(t *testing.T) {
	withClients(t, func(s *sim.Sim, a, b *holdfast.Cluster) {
		held := get(t, a, "x", holdfast.WithTTL(4*time.Second))
		waiting := queued(t, b, "x")
		began := time.Now()
		s.Node(3).Isolate()
		time.Sleep(2 * time.Second)
		if !held.Valid() || a.Status().Ready || a.Status().Waits == "" {
			t.Errorf("after two seconds: valid %v, %+v", held.Valid(), a.Status())
		}
		<-held.Done()
		if lived := time.Since(began); lived > 4*time.Second || !errors.Is(held.Err(), holdfast.ErrExpired) {
			t.Errorf("%v after %v", held.Err(), lived)
		}
		next := <-waiting
		if took := time.Since(began); took > 4*time.Second+lateMax || next.Token() <= held.Token() {
			t.Errorf("granted again after %v with token %d, after %d", took, next.Token(), held.Token())
		}
		s.Node(3).Rejoin()
		give(t, next)
		get(t, a, "x")
	})
}

// A client has no replica whose silence or removal would tell of it: what waits of it waits while its
// session lives, and goes with its process.
func TestAClientsWaitersGoWithItsProcessAndNotBefore(t *testing.T) {
	withClients(t, func(s *sim.Sim, a, b *holdfast.Cluster) {
		held := get(t, s.Node(0).Cluster(), "x")
		ended := make(chan error, 2)
		for _, c := range []*holdfast.Cluster{a, b} {
			go func() {
				_, err := c.Acquire(until(10*time.Minute), "x")
				ended <- err
			}()
			time.Sleep(time.Second)
		}
		time.Sleep(time.Minute)
		info, err := b.Inspect(until(time.Minute), "x")
		if err != nil || len(info.Waiters) != 2 || info.Waiters[0].NodeID != a.ID() {
			t.Fatalf("after a minute: %+v, %v", info.Waiters, err)
		}
		s.Node(4).Kill() // its session ends with its TTL
		time.Sleep(30 * time.Second)
		if info, err = a.Inspect(until(time.Minute), "x"); err != nil || len(info.Waiters) != 1 {
			t.Fatalf("after the death of a client: %+v, %v", info.Waiters, err)
		}
		s.Node(3).Close()
		if info, err = s.Node(1).Cluster().Inspect(until(time.Minute), "x"); err != nil || len(info.Waiters) != 0 {
			t.Errorf("after the end of the other: %+v, %v", info.Waiters, err)
		}
		give(t, held)
		for range 2 {
			if err := <-ended; !errors.Is(err, holdfast.ErrClosed) {
				t.Error(err)
			}
		}
	})
}

// Three nodes with a replica found the group, however many clients wait for it.
func TestClientsAreNoneOfBootstrap(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 5, Late: true, Config: func(i int, cfg *holdfast.Config) {
		cfg.ClientOnly = i >= 3
		cfg.Bootstrap = 3
	}}, func(s *sim.Sim) {
		for _, i := range []int{0, 1, 3, 4} {
			s.Node(i).Open()
		}
		for _, i := range []int{0, 4} {
			if err := s.Node(i).Cluster().Ready(until(time.Minute)); !errors.Is(err, holdfast.ErrNoQuorum) {
				t.Errorf("node %d, with two of three: %v", i, err)
			}
		}
		s.Node(2).Open()
		for i := range 5 {
			s.Node(i).Ready()
		}
		get(t, s.Node(4).Cluster(), "x")
	})
}
