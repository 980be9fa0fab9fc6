package contract_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/simenv"
)

// limited opens a node whose group has lower bounds.
func limited(t *testing.T, l fsm.Limits, cfg holdfast.Config) *holdfast.Cluster {
	t.Helper()
	cfg.Logger = quiet()
	c, err := holdfast.Open(simenv.With(t.Context(), simenv.Env{Limits: l}), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// alonely is limited for a node alone.
func alonely(t *testing.T, l fsm.Limits, change ...func(*holdfast.Config)) *holdfast.Cluster {
	t.Helper()
	cfg := holdfast.Config{MaxTTL: holdfast.TTLMax}
	for _, f := range change {
		f(&cfg)
	}
	if c := elsewhere(t, l, change...); c != nil {
		return c
	}
	c := limited(t, l, cfg)
	if err := c.Ready(within(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	return c
}

// refusedAtOnce fails the test unless err says that a bound is reached, and names it.
func refusedAtOnce(t *testing.T, what string, err error) {
	t.Helper()
	var limit *holdfast.ExhaustedError
	if !errors.As(err, &limit) || !errors.Is(err, holdfast.ErrExhausted) || limit.What == "" {
		t.Errorf("%s: %v", what, err)
	}
}

// refusedLease is refusedAtOnce for a call that would give a lease.
func refusedLease(t *testing.T, what string, l *holdfast.Lease, err error) {
	t.Helper()
	if l != nil {
		t.Errorf("%s: granted", what)
	}
	refusedAtOnce(t, what, err)
}

func TestLocksBeyondTheBoundAreRefusedUntilOneIsReleased(t *testing.T) {
	t.Parallel()
	c := alonely(t, fsm.Limits{Locks: 3})
	var last *holdfast.Lease
	for i := range 3 {
		last = acquire(t, c, fmt.Sprint(i))
	}
	l, err := c.Acquire(within(t, 10*time.Second), "one too many")
	refusedLease(t, "Acquire", l, err)
	l, err = c.TryAcquire(within(t, 10*time.Second), "one too many")
	refusedLease(t, "TryAcquire", l, err)
	refusedAtOnce(t, "Do", c.Do(within(t, 10*time.Second), "one too many", func(context.Context, *holdfast.Lease) error { return nil }))
	release(t, last)
	acquire(t, c, "in its place")
}

func TestWaitersBeyondTheBoundAreRefusedUntilOneGivesUp(t *testing.T) {
	t.Parallel()
	c := alonely(t, fsm.Limits{Waiters: 2})
	held := acquire(t, c, "lock")
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			if _, err := c.Acquire(ctx, "lock"); !errors.Is(err, context.Canceled) {
				t.Errorf("a waiter was told %v", err)
			}
		})
	}
	eventually(t, c, "two wait", func() bool {
		info, err := c.Inspect(within(t, 10*time.Second), "lock")
		return err == nil && len(info.Waiters) == 2
	})
	l, err := c.Acquire(within(t, 10*time.Second), "lock")
	refusedLease(t, "Acquire", l, err)
	cancel()
	all.Wait()
	next := make(chan *holdfast.Lease)
	go func() {
		for { // until those who gave up are out of the queue
			l, err := c.Acquire(within(t, 10*time.Second), "lock")
			if !errors.Is(err, holdfast.ErrExhausted) {
				if err != nil {
					t.Error(err)
				}
				next <- l
				return
			}
		}
	}()
	eventually(t, c, "wait again", func() bool { return c.Status().Waiting == 1 })
	release(t, held)
	if l := <-next; l != nil {
		release(t, l)
	}
}

// What a dead node held is taken away a few locks at a time, so that nobody else is held up: also
// where nobody else asks for anything.
func TestTheEndOfManyLocksIsCarriedOutToTheLastInAnIdleGroup(t *testing.T) {
	t.Parallel()
	c := alonely(t, fsm.Limits{Step: 2})
	var leases []*holdfast.Lease
	for i := range 30 {
		leases = append(leases, acquire(t, c, fmt.Sprint(i)))
	}
	if err := c.RevokeNode(within(t, 10*time.Second), c.ID(), "burnt"); err != nil {
		t.Fatal(err)
	}
	for i, l := range leases {
		select {
		case <-l.Done():
		case <-time.After(10 * time.Second):
			t.Fatalf("lease %d goes on", i)
		}
		if !errors.Is(l.Err(), holdfast.ErrForced) {
			t.Errorf("lease %d: %v", i, l.Err())
		}
	}
	eventually(t, c, "end of all holders", func() bool {
		for l, err := range c.Locks(within(t, 10*time.Second), "") {
			if err != nil || len(l.Holders) > 0 {
				return false
			}
		}
		return true
	})
}

// Nobody asks for anything while they are served, a few at a time.
func TestACrowdBehindOneLockIsServedToTheLastInAnIdleGroup(t *testing.T) {
	t.Parallel()
	c := alonely(t, fsm.Limits{Step: 2})
	writer := acquire(t, c, "lock")
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, err := c.Acquire(within(t, 10*time.Second), "lock", holdfast.WithShared()); err != nil {
				t.Errorf("a reader was told %v", err)
			}
		})
	}
	eventually(t, c, "all wait", func() bool { return c.Status().Waiting == 20 })
	release(t, writer)
	all.Wait()
}

func TestSessionsBeyondTheBoundAreRefusedUntilOneEnds(t *testing.T) {
	t.Parallel()
	c := alonely(t, fsm.Limits{Sessions: 3})
	var last *holdfast.Lease
	for i := range 3 {
		last = acquire(t, c, fmt.Sprint(i), holdfast.WithManualRenew())
	}
	l, err := c.Acquire(within(t, 10*time.Second), "one too many", holdfast.WithManualRenew())
	refusedLease(t, "another manual lease", l, err)
	l, err = c.Acquire(within(t, 10*time.Second), "one too many")
	refusedLease(t, "the first automatic lease", l, err)
	release(t, last)
	acquire(t, c, "in its place")
	if info, err := c.Inspect(within(t, 10*time.Second), "one too many"); err != nil || len(info.Holders)+len(info.Waiters) > 0 {
		t.Errorf("what was refused left %+v, %v", info, err)
	}
}

func TestValuesBeyondTheBoundAreRefusedUntilOneIsRemoved(t *testing.T) {
	t.Parallel()
	c := alonely(t, fsm.Limits{ValueBytes: 10})
	first := acquire(t, c, "first", holdfast.WithValue([]byte("12345678")))
	l, err := c.Acquire(within(t, 10*time.Second), "second", holdfast.WithValue([]byte("123")))
	refusedLease(t, "Acquire", l, err)
	second := acquire(t, c, "second")
	refusedAtOnce(t, "Set", second.Set(within(t, 10*time.Second), []byte("123")))
	if !second.Valid() {
		t.Error("a refused value ended the lease")
	}
	if err := first.Set(within(t, 10*time.Second), nil); err != nil {
		t.Error(err)
	}
	if err := second.Set(within(t, 10*time.Second), []byte("1234567890")); err != nil {
		t.Error(err)
	}
}

func TestUnfinishedRequestsBeyondTheBoundAreRefusedUntilTheOldestEnds(t *testing.T) {
	t.Parallel()
	c := alonely(t, fsm.Limits{Spans: 4})
	acquire(t, c, "lock")
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	try := func() error {
		_, err := c.TryAcquire(within(t, 10*time.Second), "lock")
		return err
	}
	waiters := func() int {
		info, err := c.Inspect(within(t, 10*time.Second), "lock")
		if err != nil {
			t.Error(err)
		}
		return len(info.Waiters)
	}
	var refused atomic.Bool
	for waiting := 0; !refused.Load(); waiting++ { // each leaves a gap in what is finished
		if waiting > 10 {
			t.Fatal("nothing was refused")
		}
		err := try()
		if errors.Is(err, holdfast.ErrExhausted) {
			refusedAtOnce(t, "TryAcquire", err)
			break
		}
		if !errors.Is(err, holdfast.ErrHeld) {
			t.Fatalf("with %d waiting: %v", waiting, err)
		}
		all.Go(func() {
			if _, err := c.Acquire(ctx, "lock"); !errors.Is(err, context.Canceled) {
				refusedAtOnce(t, "Acquire", err)
				refused.Store(true)
			}
		})
		polled(t, "wait", func() bool { return refused.Load() || waiters() == waiting+1 })
	}
	cancel()
	all.Wait()
	polled(t, "be let in again", func() bool { return errors.Is(try(), holdfast.ErrHeld) })
}

func TestNodesBeyondTheBoundAreToldAndHarmNobody(t *testing.T) {
	t.Parallel()
	bounds := fsm.Limits{Nodes: 1}
	c := alonely(t, bounds)
	other := limited(t, bounds, holdfast.Config{Join: []string{c.Addr()}, Bootstrap: -1})
	select {
	case <-other.Done():
		refusedAtOnce(t, "the second node", other.Err())
	case <-time.After(20 * time.Second):
		t.Error("the second node does not say that it is one too many")
	}
	serves(t, within(t, 20*time.Second), c)
}

func TestTheLastTokensAreGrantedAndNoneAfterThem(t *testing.T) {
	t.Parallel()
	const left = 5
	c := single(t, func(cfg *holdfast.Config) {
		cfg.TokenFloor = func(context.Context) (holdfast.Token, error) { return fence.TokenMax - left, nil }
	})
	for i := range left {
		l := acquire(t, c, "lock")
		if want := fence.TokenMax - left + holdfast.Token(i) + 1; l.Token() != want {
			t.Errorf("token %d, want %d", l.Token(), want)
		}
		release(t, l)
	}
	l, err := c.Acquire(within(t, 10*time.Second), "lock")
	refusedLease(t, "with no token left", l, err)
}

func TestThousandsOfManualLeasesLiveByTheirRenewals(t *testing.T) {
	t.Parallel()
	const leases = 2000
	c := single(t)
	held := make([]*holdfast.Lease, leases)
	each := func(f func(i int)) {
		var all sync.WaitGroup
		for worker := range 64 {
			all.Go(func() {
				for i := worker; i < leases; i += 64 {
					f(i)
				}
			})
		}
		all.Wait()
	}
	each(func(i int) {
		held[i] = acquire(t, c, fmt.Sprint(i), holdfast.WithManualRenew(), holdfast.WithTTL(time.Minute))
	})
	each(func(i int) {
		if err := held[i].Renew(within(t, 20*time.Second)); err != nil || !held[i].Valid() {
			t.Errorf("lease %d: %v", i, err)
		}
	})
	if n := c.Status().Held; n != leases {
		t.Errorf("%d leases are held", n)
	}
	each(func(i int) { release(t, held[i]) })
	if n := c.Status().Held; n != 0 {
		t.Errorf("%d leases are left", n)
	}
}
