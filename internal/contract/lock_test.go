package contract_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

func TestALockHasOneHolderAndItsTokensRise(t *testing.T) {
	t.Parallel()
	c := single(t)
	var inside, entered int
	var mu sync.Mutex
	var last holdfast.Token
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			for range 5 {
				err := c.Do(within(t, 30*time.Second), "one", func(_ context.Context, l *holdfast.Lease) error {
					mu.Lock()
					defer mu.Unlock()
					inside++
					entered++
					if inside != 1 || l.Token() <= last {
						t.Errorf("%d holders, token %d after %d", inside, l.Token(), last)
					}
					last = l.Token()
					inside--
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if entered != 100 {
		t.Errorf("%d of 100 calls ran", entered)
	}
}

func TestTryAcquireOfAHeldLockTellsWhoHasIt(t *testing.T) {
	t.Parallel()
	c := single(t, func(cfg *holdfast.Config) { cfg.Name = "host-a" })
	l := acquire(t, c, "held", holdfast.WithLabel("the first"), holdfast.WithValue([]byte("v")))
	_, err := c.TryAcquire(within(t, 5*time.Second), "held")
	var held *holdfast.HeldError
	if !errors.As(err, &held) || !errors.Is(err, holdfast.ErrHeld) {
		t.Fatalf("got %v, want *HeldError", err)
	}
	if held.Name != "held" || held.Token != l.Token() || held.Holder.Token != l.Token() ||
		held.Holder.NodeID != c.ID() || held.Holder.Node != "host-a" || held.Holder.Label != "the first" ||
		string(held.Holder.Value) != "v" {
		t.Errorf("the error tells %+v", held)
	}
	release(t, l)
	l, err = c.TryAcquire(within(t, 5*time.Second), "held")
	if err != nil {
		t.Fatalf("after the release: %v", err)
	}
	release(t, l)
}

func TestADeadlineWhileTheLockIsHeldAnswersTheHolderAndLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	c := single(t)
	l := acquire(t, c, "held")
	var held *holdfast.HeldError
	polled(t, "an error that names the holder: a client's replica has 50 ms to tell", func() bool {
		err := deadlined(t, func(ctx context.Context) error {
			_, err := c.Acquire(ctx, "held")
			return err
		})
		if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &held) || errors.Is(err, holdfast.ErrNoQuorum) {
			t.Fatalf("got %v, want the context's error and *HeldError alone", err)
		}
		return held.Token != 0
	})
	if held.Token != l.Token() {
		t.Errorf("the error names token %d, want %d", held.Token, l.Token())
	}
	release(t, l)
	// The call that gave up must not get the lock now, nor stand in the way of the next.
	release(t, acquire(t, c, "held"))
	eventually(t, c, "an empty lock", func() bool {
		info, err := c.Inspect(within(t, 5*time.Second), "held")
		return err == nil && len(info.Holders) == 0 && len(info.Waiters) == 0
	})
}

func TestTheContextOfAcquireGovernsTheWaitingAlone(t *testing.T) {
	t.Parallel()
	type key struct{}
	c := single(t)
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
	l, err := c.Acquire(ctx, "lasting")
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if !l.Valid() || l.Context().Err() != nil || l.Err() != nil {
		t.Error("the end of Acquire's context ended the lease")
	}
	if l.Context().Value(key{}) != "value" {
		t.Error("the lease's context lost the values of Acquire's")
	}
	release(t, l)
	if !errors.Is(context.Cause(l.Context()), holdfast.ErrReleased) || !errors.Is(l.Err(), holdfast.ErrReleased) {
		t.Errorf("after release: cause %v, error %v", context.Cause(l.Context()), l.Err())
	}
}

func TestAReleasedLeaseIsOverForEveryCall(t *testing.T) {
	t.Parallel()
	c := single(t)
	l := acquire(t, c, "over")
	release(t, l)
	release(t, l)
	if l.Valid() || l.Remaining() != 0 {
		t.Error("a released lease is still valid")
	}
	select {
	case <-l.Done():
	default:
		t.Error("Done is open after release")
	}
	ctx := within(t, 5*time.Second)
	for name, err := range map[string]error{"Renew": l.Renew(ctx), "Set": l.Set(ctx, nil)} {
		if !errors.Is(err, holdfast.ErrReleased) {
			t.Errorf("%s after release: %v", name, err)
		}
	}
	if err := c.Verify(ctx, "over", l.Token()); !errors.Is(err, holdfast.ErrStaleToken) {
		t.Errorf("Verify after release: %v", err)
	}
}

func TestReleaseWithAnEndedContextFreesTheLockInTheBackground(t *testing.T) {
	t.Parallel()
	c := single(t)
	l := acquire(t, c, "freed")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_ = l.Release(ended)
	if l.Valid() || !errors.Is(l.Err(), holdfast.ErrReleased) {
		t.Errorf("the lease is not over: %v", l.Err())
	}
	release(t, acquire(t, c, "freed"))
}

func TestDoReleasesAlsoWhenTheFunctionPanics(t *testing.T) {
	t.Parallel()
	c := single(t)
	func() {
		defer func() {
			if recover() != "boom" {
				t.Error("the panic did not reach the caller")
			}
		}()
		_ = c.Do(within(t, 5*time.Second), "panic", func(context.Context, *holdfast.Lease) error { panic("boom") })
	}()
	release(t, acquire(t, c, "panic"))
	want := errors.New("mine")
	err := c.Do(within(t, 5*time.Second), "error", func(context.Context, *holdfast.Lease) error { return want })
	if !errors.Is(err, want) {
		t.Errorf("Do answered %v, want the function's error", err)
	}
}

func TestAValueOutlivesItsHolderAndOnlyTheHolderWritesIt(t *testing.T) {
	t.Parallel()
	c := single(t)
	ctx := within(t, 10*time.Second)
	l := acquire(t, c, "value", holdfast.WithValue([]byte("first")))
	if err := l.Set(ctx, []byte("second")); err != nil {
		t.Fatal(err)
	}
	release(t, l)
	next := acquire(t, c, "value")
	info, err := c.Inspect(ctx, "value")
	if err != nil || string(info.Value) != "second" {
		t.Fatalf("the next holder finds %q, %v", info.Value, err)
	}
	if err := next.Set(ctx, nil); err != nil {
		t.Fatal(err)
	}
	release(t, next)
	if info, err = c.Inspect(ctx, "value"); err != nil || info.Value != nil || info.LastToken != 0 {
		t.Errorf("a deleted value leaves %+v, %v", info, err)
	}
	// At the grant nil removes the value as well; it used to write an empty one, which kept the
	// name for ever.
	release(t, acquire(t, c, "value", holdfast.WithValue([]byte{})))
	if info, err = c.Inspect(ctx, "value"); err != nil || info.Value == nil || len(info.Value) != 0 {
		t.Errorf("an empty value: %+v, %v", info, err)
	}
	release(t, acquire(t, c, "value", holdfast.WithValue(nil)))
	if info, err = c.Inspect(ctx, "value"); err != nil || info.Value != nil || info.LastToken != 0 {
		t.Errorf("WithValue(nil) leaves %+v, %v", info, err)
	}
}

func TestForceReleaseFreesALockAndTellsItsHolder(t *testing.T) {
	t.Parallel()
	c := single(t)
	ctx := within(t, 10*time.Second)
	l := acquire(t, c, "forced")
	if err := c.ForceRelease(ctx, "forced", l.Token()+1, "wrong token"); !errors.Is(err, holdfast.ErrStaleToken) {
		t.Errorf("a token that is no grant: %v", err)
	}
	if err := c.ForceRelease(ctx, "forced", l.Token(), "it hangs"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-l.Done():
	case <-ctx.Done():
		t.Fatal("the holder was not told")
	}
	if err := l.Err(); !errors.Is(err, holdfast.ErrLost) || !errors.Is(err, holdfast.ErrForced) {
		t.Errorf("the holder was told %v", err)
	}
	next := acquire(t, c, "forced")
	if next.Token() <= l.Token() {
		t.Errorf("token %d after %d", next.Token(), l.Token())
	}
}

func TestSharedHoldersAndPermitsKeepTheirLimits(t *testing.T) {
	t.Parallel()
	c := single(t)
	ctx := within(t, 10*time.Second)
	a, b := acquire(t, c, "shared", holdfast.WithShared()), acquire(t, c, "shared", holdfast.WithShared())
	if _, err := c.TryAcquire(ctx, "shared"); !errors.Is(err, holdfast.ErrHeld) {
		t.Errorf("a writer beside readers: %v", err)
	}
	release(t, a)
	release(t, b)
	release(t, acquire(t, c, "shared"))

	two := acquire(t, c, "permits", holdfast.WithLimit(3), holdfast.WithWeight(2))
	one := acquire(t, c, "permits", holdfast.WithLimit(3))
	if _, err := c.TryAcquire(ctx, "permits", holdfast.WithLimit(3)); !errors.Is(err, holdfast.ErrHeld) {
		t.Errorf("a fourth permit of three: %v", err)
	}
	if _, err := c.TryAcquire(ctx, "permits", holdfast.WithLimit(4)); !errors.Is(err, holdfast.ErrLimitMismatch) {
		t.Errorf("another limit: %v", err)
	}
	release(t, two)
	release(t, one)
}

func TestTenThousandWaitersDrainInOrder(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("ten thousand waiters take seconds under the race detector")
	}
	c := single(t)
	const n = 10_000
	l := acquire(t, c, "queue")
	got := make(chan string, n)
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			l, err := c.Acquire(t.Context(), "queue")
			if err != nil {
				t.Error(err)
				return
			}
			got <- fmt.Sprint(l.Token())
			release(t, l)
		})
	}
	eventually(t, c, "all to wait", func() bool {
		info, err := c.Inspect(within(t, 10*time.Second), "queue")
		return err == nil && len(info.Waiters) == n
	})
	release(t, l)
	all.Wait()
	close(got)
	want := l.Token()
	for token := range got {
		want++
		if token != fmt.Sprint(want) {
			t.Fatalf("token %s where %d was next", token, want)
		}
	}
}

func TestLocksListsByPrefixInOrder(t *testing.T) {
	t.Parallel()
	c := single(t)
	for _, name := range []string{"b/2", "a/1", "b/1", "c"} {
		acquire(t, c, name)
	}
	var names []string
	ctx := within(t, 5*time.Second)
	for _, info := range whole(t, func() iter.Seq2[holdfast.LockInfo, error] { return c.Locks(ctx, "b/") }) {
		names = append(names, info.Name)
	}
	if fmt.Sprint(names) != "[b/1 b/2]" {
		t.Errorf("got %v", names)
	}
}

func TestLocksTellsWhatAnElectionIsAndForHowLongALockIsHeld(t *testing.T) {
	t.Parallel()
	virtual(t, func(c *holdfast.Cluster) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		for _, name := range []string{"first", "lock"} { // what the first commands of a node's life began is older than its memory
			if _, err := c.Acquire(ctx, name); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		campaign, err := c.Campaign(ctx, "election")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		for _, info := range whole(t, func() iter.Seq2[holdfast.LockInfo, error] { return c.Locks(ctx, "") }) {
			if info.Name != "first" && (info.Election != (info.Name == "election") || info.Held < 9*time.Second || info.Held > 12*time.Second) {
				t.Errorf("%q: election %v, held for %v", info.Name, info.Election, info.Held)
			}
		}
		if info, err := c.Inspect(ctx, "free"); err != nil || info.Held != 0 || info.Election {
			t.Errorf("a free lock: %+v, %v", info, err)
		}
		if err := campaign.Close(ctx); err != nil {
			t.Error(err)
		}
	})
}

// Two names are taken and released as a set while others are listed: the list is the picture of
// when it began, however long it is read, and holds up no command.
func TestLocksIsOnePictureHoweverLongItIsRead(t *testing.T) {
	t.Parallel()
	c := single(t)
	ctx := within(t, 30*time.Second)
	for i := range 10 {
		acquire(t, c, fmt.Sprintf("{set}/m/%d", i))
	}
	var taken *holdfast.Lease
	turn := func() {
		if taken != nil {
			release(t, taken)
			taken = nil
			return
		}
		var err error
		if taken, err = c.AcquireAll(ctx, []string{"{set}/a", "{set}/z"}); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		before, seen := taken != nil, 0
		for info, err := range c.Locks(ctx, "{set}/") {
			if err != nil {
				t.Fatal(err)
			}
			if info.Name == "{set}/a" || info.Name == "{set}/z" {
				seen++
			}
			turn()
		}
		if want := map[bool]int{false: 0, true: 2}[before]; seen != want {
			t.Errorf("%d of two names in a list that began when they were taken: %v", seen, before)
		}
		turn()
	}
}

// A set was given up because of its second name, and the error named the first, which was free.
func TestASetThatIsGivenUpNamesTheLockThatIsHeld(t *testing.T) {
	t.Parallel()
	c := single(t)
	held := acquire(t, c, "{set}/b")
	for range 50 { // a client's replica may be too busy for a look of 50 ms: nobody is named then
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := c.AcquireAll(ctx, []string{"{set}/a", "{set}/b"})
			ended <- err
		}()
		settles(t, 30*time.Second, "the call waits", func() bool {
			info, err := c.Inspect(within(t, time.Minute), "{set}/b")
			return err == nil && len(info.Waiters) == 1
		})
		cancel()
		err := <-ended
		refused, ok := errors.AsType[*holdfast.HeldError](err)
		switch {
		case ok && refused.Token == 0:
			continue
		case !ok || refused.Name != "{set}/b" || refused.Token != held.Token():
			t.Errorf("%+v: %v", refused, err)
		}
		return
	}
	t.Error("no look of 50 answered in time")
}
