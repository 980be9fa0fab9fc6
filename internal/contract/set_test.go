package contract_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/sim"
)

func TestASetIsHadAsAWholeUnderOneTokenAndGivenBackAsAWhole(t *testing.T) {
	t.Parallel()
	c := single(t)
	ctx := within(t, 20*time.Second)
	names := []string{"{order}/stock", "{order}/bill", "{order}/mail"}
	bill := acquire(t, c, names[1])
	got := make(chan *holdfast.Lease, 1)
	go func() {
		l, err := c.AcquireAll(ctx, names, holdfast.WithValue([]byte("v")))
		if err != nil {
			t.Error(err)
		}
		got <- l
	}()
	<-bill.Wanted()
	if _, err := c.TryAcquire(ctx, names[0]); !errors.Is(err, holdfast.ErrHeld) {
		t.Errorf("a try passed by the set: %v", err)
	}
	release(t, bill)
	l := <-got
	if l.Name() != names[0] || !slices.Equal(l.Names(), names) || !l.Valid() {
		t.Errorf("%v, valid %v", l.Names(), l.Valid())
	}
	for i, name := range names {
		if err := c.Verify(ctx, name, l.Token()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		info, err := c.Inspect(ctx, name)
		if err != nil || len(info.Holders) != 1 || (string(info.Value) == "v") != (i == 0) {
			t.Errorf("%s: %+v, %v", name, info, err)
		}
	}
	release(t, l)
	for _, name := range names {
		release(t, acquire(t, c, name))
	}
	l, err := c.AcquireAll(ctx, names)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.ForceRelease(ctx, names[2], l.Token(), "a test"); err != nil {
		t.Fatal(err)
	}
	<-l.Done()
	if !errors.Is(l.Err(), holdfast.ErrForced) {
		t.Error(l.Err())
	}
	for _, name := range names {
		release(t, acquire(t, c, name))
	}
}

func TestTheNamesOfASetShareATagAndAreFew(t *testing.T) {
	t.Parallel()
	c := single(t)
	many := make([]string, holdfast.NamesMax+1)
	for i := range many {
		many[i] = fmt.Sprint("{t}", i)
	}
	for _, names := range [][]string{nil, {}, {"a", "b"}, {"{a}1", "{b}2"}, {"{a}1", "b"}, {"{a}1", "{a}1"}, {"{}1", "{}2"}, {"{a}1", ""}, many} {
		if _, err := c.AcquireAll(t.Context(), names); !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("%q: %v", names, err)
		}
	}
	if _, err := c.AcquireAll(t.Context(), []string{"{a}1", "{a}2"}, holdfast.WithLimit(2)); !errors.Is(err, holdfast.ErrInvalid) {
		t.Error(err)
	}
	for _, names := range [][]string{{"alone"}, many[1:], {"x{a}", "y{a}z"}} {
		l, err := c.AcquireAll(within(t, 10*time.Second), names)
		if err != nil {
			t.Errorf("%q: %v", names, err)
			continue
		}
		release(t, l)
	}
}

// Philosophers: five names in a ring, sets of two neighbours in either order, and single names; on
// three nodes, one of which crashes. Nobody starves, no fork is in two hands.
func TestSetsNeverWaitForEachOtherInACycle(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
		var mu sync.Mutex
		hands := make(map[string]*holdfast.Lease)
		var all sync.WaitGroup
		for i := range 15 {
			r := rand.New(rand.NewPCG(uint64(i), 7))
			all.Go(func() {
				for range 20 {
					c := s.Node(i % 2).Cluster() // node 2 is the one that crashes
					names := []string{fmt.Sprint("{table}", i%5), fmt.Sprint("{table}", (i+1)%5)}
					if r.IntN(2) == 0 {
						slices.Reverse(names)
					}
					l, err := c.AcquireAll(until(5*time.Minute), names[:1+r.IntN(2)])
					if err != nil {
						t.Errorf("%d starves: %v", i, err)
						return
					}
					mu.Lock()
					for _, name := range l.Names() {
						if other := hands[name]; other != nil && other.Valid() {
							t.Errorf("%s is in two hands", name)
						}
						hands[name] = l
					}
					mu.Unlock()
					time.Sleep(time.Duration(r.IntN(200)) * time.Millisecond)
					mu.Lock()
					for _, name := range l.Names() {
						delete(hands, name)
					}
					mu.Unlock()
					if err := l.Release(until(time.Minute)); err != nil {
						t.Errorf("%d: %v", i, err)
					}
				}
			})
		}
		for range 3 {
			time.Sleep(3 * time.Second)
			dead, err := s.Node(2).Cluster().AcquireAll(until(time.Minute), []string{"{table}1", "{table}3"}, holdfast.WithTTL(3*time.Second))
			if err != nil {
				t.Error(err)
			}
			s.Node(2).Crash()
			if dead != nil && dead.Valid() {
				t.Error("a crashed node's set is valid")
			}
			s.Node(2).Open()
			s.Node(2).Ready()
		}
		all.Wait()
	})
}

// The raft leader dies while a set waits: it is granted as a whole all the same.
func TestASetIsGrantedThoughTheRaftLeaderDies(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
		leader := s.RaftLeader()
		a, b := s.Node((leader.Index()+1)%3).Cluster(), s.Node((leader.Index()+2)%3).Cluster()
		held := get(t, a, "{t}2")
		got := make(chan *holdfast.Lease, 1)
		go func() {
			l, err := b.AcquireAll(until(time.Minute), []string{"{t}1", "{t}2"})
			if err != nil {
				t.Error(err)
			}
			got <- l
		}()
		<-held.Wanted()
		leader.Crash()
		if err := held.Release(until(time.Minute)); err != nil {
			t.Error(err)
		}
		l := <-got
		for _, name := range l.Names() {
			if err := a.Verify(until(time.Minute), name, l.Token()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		if _, err := a.Acquire(ctx, "{t}1"); !errors.Is(err, holdfast.ErrHeld) {
			t.Error(err)
		}
	})
}
