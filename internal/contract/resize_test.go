package contract_test

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// wait is a call that waits.
type wait struct {
	l   *holdfast.Lease
	err error
}

func (w wait) lease(t *testing.T) *holdfast.Lease {
	t.Helper()
	if w.err != nil {
		t.Fatal(w.err)
	}
	return w.l
}

// queue lets one more call wait for a semaphore.
func queue(t *testing.T, c *holdfast.Cluster, name string, opts ...holdfast.Option) <-chan wait {
	t.Helper()
	ctx := within(t, time.Minute)
	waiters := func() int {
		info, err := c.Inspect(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		return len(info.Waiters)
	}
	before, got := waiters(), make(chan wait, 1)
	go func() {
		l, err := c.Acquire(ctx, name, opts...)
		got <- wait{l, err}
	}()
	polled(t, "one more waits", func() bool { return waiters() == before+1 })
	return got
}

// A rolling update from 3 to 5 permits was refused until the last old holder had gone.
func TestASemaphoreIsResizedWhileBothLimitsAreInUse(t *testing.T) {
	t.Parallel()
	c := single(t)
	ctx := within(t, time.Minute)
	before, after := holdfast.WithLimit(3), holdfast.WithLimit(5)
	held := acquire(t, c, "permits", before, holdfast.WithWeight(3))
	waits := queue(t, c, "permits", before, holdfast.WithWeight(2))
	if _, err := c.TryAcquire(ctx, "permits", after); !errors.Is(err, holdfast.ErrLimitMismatch) {
		t.Fatalf("another limit before it was resized: %v", err)
	}
	for range 2 { // the second changes nothing
		if err := c.ResizeLimit(ctx, "permits", 5); err != nil {
			t.Fatal(err)
		}
	}
	next := (<-waits).lease(t)
	if info, err := c.Inspect(ctx, "permits"); err != nil || info.Limit != 5 || info.Before != 3 || len(info.Holders) != 2 {
		t.Errorf("%+v, %v", info, err)
	}
	for _, limit := range []holdfast.Option{before, after} {
		if _, err := c.TryAcquire(ctx, "permits", limit); !errors.Is(err, holdfast.ErrHeld) {
			t.Errorf("five permits are out: %v", err)
		}
	}
	if _, err := c.TryAcquire(ctx, "permits", holdfast.WithLimit(4)); !errors.Is(err, holdfast.ErrLimitMismatch) {
		t.Errorf("a third limit: %v", err)
	}
	release(t, held)
	release(t, next)
	full := acquire(t, c, "permits", before, holdfast.WithWeight(3)) // nobody had it meanwhile
	release(t, acquire(t, c, "permits", after, holdfast.WithWeight(2)))
	release(t, full)
	release(t, acquire(t, c, "permits", holdfast.WithLimit(4)))
	if info, err := c.Inspect(ctx, "permits"); err != nil || info.Limit != 0 || info.Before != 0 {
		t.Errorf("used with a third limit: %+v, %v", info, err)
	}
}

func TestFewerPermitsEndNoLeaseAndRefuseWhoWantsMore(t *testing.T) {
	t.Parallel()
	c := single(t)
	ctx := within(t, time.Minute)
	limit := holdfast.WithLimit(4)
	first, second := acquire(t, c, "permits", limit, holdfast.WithWeight(2)), acquire(t, c, "permits", limit, holdfast.WithWeight(2))
	heavy := queue(t, c, "permits", limit, holdfast.WithWeight(3))
	light := queue(t, c, "permits", limit)
	if err := c.ResizeLimit(ctx, "permits", 2); err != nil {
		t.Fatal(err)
	}
	var refused *holdfast.LimitError
	want := holdfast.LimitError{Name: "permits", Asked: 4, InUse: 2, Weight: 3}
	if got := <-heavy; !errors.As(got.err, &refused) || *refused != want {
		t.Errorf("a waiter above the limit: %v", got.err)
	}
	text := `holdfast: "permits" is in use as a semaphore of 2; the call asked for 3 permits at once of a semaphore of 4`
	if _, err := c.TryAcquire(ctx, "permits", limit, holdfast.WithWeight(3)); err == nil || err.Error() != text {
		t.Errorf("%v, want %s", err, text)
	}
	if !first.Valid() || !second.Valid() {
		t.Error("a smaller limit ended a lease")
	}
	release(t, first)
	if info, err := c.Inspect(ctx, "permits"); err != nil || len(info.Holders) != 1 || len(info.Waiters) != 1 {
		t.Errorf("two permits of two are out: %+v, %v", info, err)
	}
	release(t, second)
	release(t, (<-light).lease(t))
	if _, err := c.Acquire(ctx, "permits", limit, holdfast.WithWeight(3)); !errors.As(err, &refused) || *refused != want {
		t.Errorf("above the limit of a name out of use: %v", err)
	}
}

func TestWhatIsNoSemaphoreIsNotResized(t *testing.T) {
	t.Parallel()
	c := single(t)
	ctx := within(t, time.Minute)
	wantField(t, c.ResizeLimit(ctx, "permits", 0), "limit")
	wantField(t, c.ResizeLimit(ctx, "permits", holdfast.LimitMax+1), "limit")
	wantField(t, c.ResizeLimit(ctx, "", 1), "name")
	wantField(t, c.ResizeLimit(ctx, "nobody's", 5), "name")
	acquire(t, c, "lock")
	var refused *holdfast.LimitError
	if err := c.ResizeLimit(ctx, "lock", 5); !errors.As(err, &refused) || *refused != (holdfast.LimitError{Name: "lock", Asked: 5}) {
		t.Errorf("a lock: %v", err)
	}
}

func TestAWatchTellsOfANewLimit(t *testing.T) {
	t.Parallel()
	c := single(t)
	acquire(t, c, "permits", holdfast.WithLimit(1))
	changes := c.Watch(within(t, time.Minute), "permits")
	if err := c.ResizeLimit(within(t, time.Minute), "permits", 2); err != nil {
		t.Fatal(err)
	}
	for e, err := range changes {
		if e.Kind == holdfast.EventAct { // of a group of level 2
			continue
		}
		if err != nil || e.Kind != holdfast.EventResized || e.Name != "permits" || e.Limit != 2 || e.Holder.NodeID != "" {
			t.Errorf("%+v, %v", e, err)
		}
		return
	}
}
