package contract_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/sim"
)

// Every kind of lock over three nodes whose raft leader dies in the middle. Those that are not here
// have their own beside their other tests: elections, sets, watches, Once, minimum hold times.

// withoutLeader runs f with a fleet, its raft leader, which is to die, and the other two nodes.
func withoutLeader(t *testing.T, f func(s *sim.Sim, leader *sim.Node, a, b *holdfast.Cluster)) {
	t.Helper()
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
		leader := s.RaftLeader()
		f(s, leader, s.Node((leader.Index()+1)%3).Cluster(), s.Node((leader.Index()+2)%3).Cluster())
	})
}

// queued lets a call of c wait for a lock, and tells its lease when it comes.
func queued(t *testing.T, c *holdfast.Cluster, name string, opts ...holdfast.Option) <-chan *holdfast.Lease {
	t.Helper()
	got := make(chan *holdfast.Lease, 1)
	go func() {
		l, err := c.Acquire(until(10*time.Minute), name, opts...)
		if err != nil {
			t.Errorf("waiting for %s: %v", name, err)
		}
		got <- l
	}()
	time.Sleep(50 * time.Millisecond)
	if info, err := c.Inspect(until(time.Minute), name); err != nil || len(info.Waiters) == 0 {
		t.Fatalf("nobody waits: %+v, %v", info, err)
	}
	return got
}

func give(t *testing.T, l *holdfast.Lease) {
	t.Helper()
	if err := l.Release(until(time.Minute)); err != nil {
		t.Errorf("releasing %s: %v", l.Name(), err)
	}
}

// tooEarly demands that a call waits still.
func tooEarly(t *testing.T, what string, got <-chan *holdfast.Lease) {
	t.Helper()
	select {
	case <-got:
		t.Errorf("%s has come too early", what)
	default:
	}
}

func TestAReaderPassesNoWriterWhenTheRaftLeaderDies(t *testing.T) {
	withoutLeader(t, func(s *sim.Sim, leader *sim.Node, a, b *holdfast.Cluster) {
		first := get(t, a, "papers", holdfast.WithShared())
		writer := queued(t, b, "papers")
		reader := queued(t, a, "papers", holdfast.WithShared())
		leader.Crash()
		if _, err := b.TryAcquire(until(time.Minute), "papers", holdfast.WithShared()); !errors.Is(err, holdfast.ErrHeld) {
			t.Errorf("a reader who does not wait: %v", err)
		}
		tooEarly(t, "the writer", writer)
		give(t, first)
		w := <-writer
		time.Sleep(time.Second)
		tooEarly(t, "the reader", reader)
		give(t, w)
		beside := get(t, b, "papers", holdfast.WithShared())
		if r := <-reader; r.Token() <= w.Token() || !r.Valid() || !beside.Valid() {
			t.Errorf("token %d after %d", r.Token(), w.Token())
		}
	})
}

func TestALightRequestPassesNoHeavyOneWhenTheRaftLeaderDies(t *testing.T) {
	withoutLeader(t, func(s *sim.Sim, leader *sim.Node, a, b *holdfast.Cluster) {
		weigh := func(n int) []holdfast.Option { return []holdfast.Option{holdfast.WithLimit(4), holdfast.WithWeight(n)} }
		three := get(t, a, "permits", weigh(3)...)
		heavy := queued(t, b, "permits", weigh(2)...)
		light := queued(t, a, "permits", weigh(1)...)
		leader.Crash()
		if _, err := b.TryAcquire(until(time.Minute), "permits", weigh(1)...); !errors.Is(err, holdfast.ErrHeld) {
			t.Errorf("a light request: %v", err)
		}
		if _, err := b.TryAcquire(until(time.Minute), "permits", holdfast.WithLimit(5)); !errors.Is(err, holdfast.ErrLimitMismatch) {
			t.Errorf("another limit: %v", err)
		}
		tooEarly(t, "the light one", light)
		give(t, three)
		two, one := <-heavy, <-light
		if one.Token() <= two.Token() {
			t.Errorf("the light one has token %d, the heavy one %d", one.Token(), two.Token())
		}
		if _, err := a.TryAcquire(until(time.Minute), "permits", weigh(2)...); !errors.Is(err, holdfast.ErrHeld) {
			t.Errorf("five of four permits: %v", err)
		}
		get(t, a, "permits", weigh(1)...)
	})
}

func TestPrioritiesAreServedInOrderWhenTheRaftLeaderDies(t *testing.T) {
	withoutLeader(t, func(s *sim.Sim, leader *sim.Node, a, b *holdfast.Cluster) {
		l := get(t, a, "ranked")
		var waits []<-chan *holdfast.Lease
		for i, p := range []int{0, 2, 1, 2} {
			waits = append(waits, queued(t, []*holdfast.Cluster{a, b}[i%2], "ranked", holdfast.WithPriority(p)))
		}
		leader.Crash()
		for _, i := range []int{1, 3, 2, 0} {
			for _, other := range waits {
				tooEarly(t, "somebody", other)
			}
			give(t, l)
			l = <-waits[i]
		}
		give(t, l)
	})
}

// The holder dies with the raft leader, and the next raft leader dies while the lock rests: it is
// never early, and not late by more than an election.
func TestALockDelayIsKeptWhenTheRaftLeaderDies(t *testing.T) {
	withoutLeader(t, func(s *sim.Sim, leader *sim.Node, a, b *holdfast.Cluster) {
		const ttl, delay = 3 * time.Second, 15 * time.Second
		l := get(t, leader.Cluster(), "delayed", holdfast.WithTTL(ttl), holdfast.WithLockDelay(delay))
		least := l.Remaining() + delay
		began := time.Now()
		leader.Kill()
		time.Sleep(ttl + lateMax) // its restart would end the lease
		leader.Open()
		leader.Ready()
		if info, err := a.Inspect(until(time.Minute), "delayed"); err != nil || info.Delayed != 1 {
			t.Errorf("%+v, %v", info, err)
		}
		next := s.RaftLeader()
		other := a
		if a == next.Cluster() {
			other = b
		}
		next.Crash()
		again := get(t, other, "delayed")
		if took := time.Since(began); took < least || took > ttl+lateMax+delay+lateEnd || again.Token() <= l.Token() {
			t.Errorf("token %d after %d was granted after %v, %v at least", again.Token(), l.Token(), took, least)
		}
	})
}

func TestMaxHoldEndsALeaseWhenTheRaftLeaderDies(t *testing.T) {
	withoutLeader(t, func(s *sim.Sim, leader *sim.Node, a, b *holdfast.Cluster) {
		const ttl, most = 3 * time.Second, 10 * time.Second
		began := time.Now()
		l := get(t, a, "capped", holdfast.WithTTL(ttl), holdfast.WithMaxHold(most))
		next := queued(t, b, "capped")
		time.Sleep(most - 100*time.Millisecond - time.Since(began))
		leader.Crash()
		<-next
		if took := time.Since(began); took < most || took > most+ttl+lateMax || l.Valid() {
			t.Errorf("granted again after %v; valid=%v", took, l.Valid())
		}
	})
}

// A set waits for one that died with the raft leader; a call that came behind it, for one name or in
// another order, waits for all of it.
func TestSetsAreServedInOrderWhenTheirHolderDiesWithTheRaftLeader(t *testing.T) {
	withoutLeader(t, func(s *sim.Sim, leader *sim.Node, a, b *holdfast.Cluster) {
		const ttl = 3 * time.Second
		all := func(c *holdfast.Cluster, names ...string) <-chan *holdfast.Lease {
			got := make(chan *holdfast.Lease, 1)
			go func() {
				l, err := c.AcquireAll(until(time.Minute), names)
				if err != nil {
					t.Error(err)
				}
				got <- l
			}()
			time.Sleep(50 * time.Millisecond)
			return got
		}
		dead, err := leader.Cluster().AcquireAll(until(time.Minute), []string{"{t}2", "{t}3"}, holdfast.WithTTL(ttl))
		if err != nil {
			t.Fatal(err)
		}
		second, third, last := all(a, "{t}1", "{t}2"), all(b, "{t}3", "{t}1"), queued(t, a, "{t}1")
		began := time.Now()
		leader.Crash()
		l := <-second
		if took := time.Since(began); took > ttl+lateMax || l.Token() <= dead.Token() {
			t.Errorf("token %d after %v", l.Token(), took)
		}
		time.Sleep(time.Second)
		tooEarly(t, "a set that shares a name", third)
		if _, err := b.TryAcquire(until(time.Minute), "{t}3"); !errors.Is(err, holdfast.ErrHeld) {
			t.Errorf("a free name for which a set waits: %v", err)
		}
		give(t, l)
		l = <-third
		tooEarly(t, "a caller of one name", last)
		give(t, l)
		<-last
	})
}

// An observer hears of each leader, each value and each vacancy once and in order, and reads agree,
// though the raft leader dies while it is told.
func TestAnObserverMissesNothingWhenTheRaftLeaderDies(t *testing.T) {
	withoutLeader(t, func(s *sim.Sim, leader *sim.Node, a, b *holdfast.Cluster) {
		next, stop := iter.Pull2(b.Observe(until(time.Hour), "seat"))
		defer stop()
		var want []string
		tell := func(l holdfast.Leader) string { return fmt.Sprint(uint64(l.Token), " ", string(l.Value)) }
		if first, err, _ := next(); err != nil || first.NodeID != "" {
			t.Fatalf("%+v, %v", first, err)
		}
		for i := range 6 {
			err := a.Lead(until(time.Minute), "seat", func(ctx context.Context, l *holdfast.Lease) error {
				value := fmt.Sprint("address", i)
				want = append(want, fmt.Sprint(uint64(l.Token()), " ", value))
				if i == 2 {
					leader.Crash() // in office
				}
				if seen, err := b.Leader(until(time.Minute), "seat"); err != nil || tell(seen) != want[len(want)-1] {
					t.Errorf("%d: %+v, %v", i, seen, err)
				}
				if err := l.Set(ctx, []byte(value+"+")); err != nil {
					return err
				}
				want = append(want, fmt.Sprint(uint64(l.Token()), " ", value, "+"))
				return nil
			}, holdfast.WithValue(fmt.Append(nil, "address", i)))
			if err != nil {
				t.Errorf("%d: %v", i, err)
			}
			if _, err := b.Leader(until(time.Minute), "seat"); !errors.Is(err, holdfast.ErrNoLeader) {
				t.Errorf("%d: after the resignation: %v", i, err)
			}
			want = append(want, "0 ")
			if i == 3 {
				leader.Open()
				leader.Ready()
			}
		}
		var got []string
		for range want {
			l, err, _ := next()
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, tell(l))
		}
		if !slices.Equal(got, want) {
			t.Errorf("told %q, want %q", got, want)
		}
	})
}
