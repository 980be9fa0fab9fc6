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

// pull reads a watch, or an Observe, one item at a time.
func pull[T any](t *testing.T, items iter.Seq2[T, error]) func() T {
	t.Helper()
	next, stop := iter.Pull2(items)
	t.Cleanup(stop)
	return func() T {
		t.Helper()
		item, err, ok := next()
		if err != nil || !ok {
			t.Fatalf("the list ended: %v", err)
		}
		return item
	}
}

func TestWatchTellsEveryChangeOfItsPrefixInLogOrderWithHolderTokenAndReason(t *testing.T) {
	t.Parallel()
	c := single(t)
	ctx := within(t, 30*time.Second)
	acquire(t, c, "job/before")
	next := pull(t, c.Watch(ctx, "job/"))
	a := acquire(t, c, "job/1", holdfast.WithLabel("first"), holdfast.WithValue([]byte("v")))
	acquire(t, c, "other")
	if _, err := c.Once(ctx, "job/once", nothing); err != nil {
		t.Fatal(err)
	}
	waits, cancel := context.WithCancel(ctx)
	gone := make(chan error, 1)
	go func() { _, err := c.Acquire(waits, "job/1"); gone <- err }()
	<-a.Wanted()
	cancel()
	<-gone
	eventually(t, c, "no waiter", func() bool {
		info, err := c.Inspect(ctx, "job/1")
		return err == nil && len(info.Waiters) == 0
	})
	if err := a.Set(ctx, nil); err != nil {
		t.Fatal(err)
	}
	release(t, a)
	b := acquire(t, c, "job/2")
	if err := c.ForceRelease(ctx, "job/2", b.Token(), "it hangs"); err != nil {
		t.Fatal(err)
	}
	var last uint64
	for i, want := range []string{
		"granted job/1 first 1 \"\" ", "value job/1 first 1 \"v\" ", "queued job/1  0 \"\" ", "withdrawn job/1  0 \"\" withdrawn",
		"value job/1 first 1 \"\" ", "released job/1 first 1 \"\" released", "granted job/2  2 \"\" ", "forced job/2  2 \"\" it hangs",
	} {
		e := next()
		if e.Kind == holdfast.EventAct { // of a group of level 2
			e = next()
		}
		token := map[holdfast.Token]int{0: 0, a.Token(): 1, b.Token(): 2}[e.Holder.Token]
		got := fmt.Sprintf("%v %s %s %d %q %s", e.Kind, e.Name, e.Holder.Label, token, e.Holder.Value, e.Reason)
		if got != want || e.Holder.NodeID != c.ID() || e.Index < last {
			t.Errorf("%d: %s, want %s; %+v", i, got, want, e)
		}
		last = e.Index
	}
}

// A leader that follows another in one command leaves no vacancy; a plain holder of the lock is no
// leader.
func TestWatchTellsWhoLeadsAnElectionAndWhenNobodyDoes(t *testing.T) {
	t.Parallel()
	c := single(t)
	ctx := within(t, 30*time.Second)
	next := pull(t, c.Watch(ctx, ""))
	var changes []string
	until := func(kind holdfast.EventKind, label string) (e holdfast.Event) {
		t.Helper()
		for e.Kind != kind || e.Holder.Label != label {
			if e = next(); e.Kind == holdfast.EventLeader {
				changes = append(changes, e.Holder.Label)
				if e.Name != "boss" || (e.Holder.NodeID == "") != (e.Holder.Token == 0) {
					t.Errorf("%+v", e)
				}
			}
		}
		return e
	}
	lead := func(label string) (resign func()) {
		leave, left := make(chan struct{}), make(chan error, 1)
		go func() {
			left <- c.Lead(ctx, "boss", func(context.Context, *holdfast.Lease) error { <-leave; return nil }, holdfast.WithLabel(label))
		}()
		return func() {
			close(leave)
			if err := <-left; err != nil {
				t.Error(err)
			}
		}
	}
	first := lead("first")
	until(holdfast.EventLeader, "first")
	second := lead("second")
	until(holdfast.EventQueued, "second")
	first()
	second()
	until(holdfast.EventReleased, "second")
	release(t, acquire(t, c, "boss", holdfast.WithLabel("no leader")))
	until(holdfast.EventReleased, "no leader")
	if want := []string{"first", "second", ""}; !slices.Equal(changes, want) {
		t.Errorf("leaders %q, want %q", changes, want)
	}
}

func TestAWatcherThatDoesNotKeepUpIsToldToReadAnewAndHoldsUpNobody(t *testing.T) {
	t.Parallel()
	c := single(t)
	ctx := within(t, 60*time.Second)
	next, later := pull(t, c.Watch(ctx, "w")), pull(t, c.Watch(ctx, "later"))
	big := make([]byte, holdfast.ValueMax)
	l := acquire(t, c, "w")
	const writes = 100 // 64 KiB each: more than the 4 MiB that may wait
	for range writes {
		if err := l.Set(ctx, big); err != nil {
			t.Fatal(err)
		}
	}
	release(t, l) // would fit: but it comes after what did not
	acquire(t, c, "later")
	later() // so all that came before was told: on a client it comes beside the answers
	if e := next(); e.Kind != holdfast.EventGranted {
		t.Errorf("%v", e.Kind)
	}
	values := 0
	for {
		e := next()
		if e.Kind == holdfast.EventResync {
			if e.Name != "w" || e.Index == 0 {
				t.Errorf("%+v", e)
			}
			break
		}
		if e.Kind != holdfast.EventValue {
			t.Errorf("%v of what came after the gap is told before it", e.Kind)
		}
		values++
	}
	if values >= writes || values == 0 {
		t.Errorf("%d of %d values came", values, writes)
	}
	release(t, acquire(t, c, "w"))
	if e := next(); e.Kind != holdfast.EventGranted {
		t.Errorf("after the resync: %v", e.Kind)
	}
}

func TestAWatchOfEverythingTellsNothingOfOnceKeys(t *testing.T) {
	t.Parallel()
	c := single(t)
	ctx := within(t, 20*time.Second)
	next := pull(t, c.Watch(ctx, ""))
	if _, err := c.Once(ctx, "key", nothing); err != nil {
		t.Fatal(err)
	}
	acquire(t, c, "x")
	if e := next(); e.Name != "x" {
		t.Errorf("%+v", e)
	}
}

func TestAWatchEndsWithItsContextWithTheNodeAndAtItsBound(t *testing.T) {
	t.Parallel()
	c := single(t)
	ctx, cancel := context.WithCancel(t.Context())
	const most = 1024
	for range most {
		c.Watch(ctx, "")
	}
	for _, err := range c.Watch(t.Context(), "") {
		if !errors.Is(err, holdfast.ErrExhausted) {
			t.Error(err)
		}
	}
	cancel()
	polled(t, "the end of watches that nobody iterates", func() bool {
		for _, err := range c.Watch(ctx, "") {
			return errors.Is(err, context.Canceled)
		}
		return false
	})
	w := c.Watch(t.Context(), "")
	acquire(t, c, "x")
	for range w {
		break
	}
	for _, err := range w {
		if !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("iterated again: %v", err)
		}
	}
	w = c.Watch(t.Context(), "")
	c.Close()
	var last error
	for _, last = range w { // first what came before
	}
	if !errors.Is(last, holdfast.ErrClosed) {
		t.Error(last)
	}
}

// The raft leader dies in the middle; the watcher on another node misses nothing that was
// acknowledged, and sees it in order.
func TestAWatcherMissesNothingWhenTheRaftLeaderDies(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
		leader := s.RaftLeader()
		var others []*sim.Node
		for _, n := range s.Nodes() {
			if n != leader {
				others = append(others, n)
			}
		}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		next, stop := iter.Pull2(others[0].Cluster().Watch(ctx, "seq/"))
		defer stop()
		for i := range 40 {
			if i == 20 {
				leader.Crash()
			}
			l := get(t, others[1].Cluster(), fmt.Sprint("seq/", i))
			if err := l.Release(until(time.Minute)); err != nil {
				t.Fatal(err)
			}
		}
		var last uint64
		for i := range 80 {
			e, err, _ := next()
			want := []holdfast.EventKind{holdfast.EventGranted, holdfast.EventReleased}[i%2]
			if err != nil || e.Kind != want || e.Name != fmt.Sprint("seq/", i/2) || e.Index <= last {
				t.Fatalf("event %d: %+v, %v", i, e, err)
			}
			last = e.Index
		}
		// The holder's end is told as what it was.
		l := get(t, others[1].Cluster(), "seq/expires", holdfast.WithTTL(2*time.Second))
		others[1].Crash()
		leader.Open()
		leader.Ready()
		if e, _, _ := next(); e.Kind != holdfast.EventGranted {
			t.Errorf("%+v", e)
		}
		if e, _, _ := next(); e.Kind != holdfast.EventExpired || e.Holder.Token != l.Token() || e.Reason == "" {
			t.Errorf("%+v", e)
		}
	})
}
