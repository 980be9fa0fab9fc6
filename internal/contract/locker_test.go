package contract_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/sim"
)

func TestALockerExcludesAndCountsUnderSyncLocker(t *testing.T) {
	t.Parallel()
	c := single(t)
	k, err := c.Locker("counter", func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Locker = k
	count := 0
	var last holdfast.Token
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			for range 5 {
				mu.Lock()
				count++
				if k.Token() <= last {
					t.Errorf("token %d after %d", k.Token(), last)
				}
				last = k.Token()
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if count != 50 {
		t.Errorf("counted %d", count)
	}
	if !k.TryLock() || k.TryLock() {
		t.Error("TryLock")
	}
	k.Unlock()
}

func TestALockersLossIsToldToItsPolicyAndUnlockIsThenQuiet(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
		told := make(chan error, 10)
		k, err := s.Node(0).Cluster().Locker("x", func(err error) { told <- err }, holdfast.WithTTL(2*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		tell := func() error {
			select {
			case err := <-told:
				return err
			case <-time.After(time.Minute):
				return errors.New("nothing was told")
			}
		}
		k.Lock()
		s.Node(0).Isolate()
		if err := tell(); !errors.Is(err, holdfast.ErrLost) {
			t.Error(err)
		}
		k.Unlock()
		s.Node(0).Rejoin()
		k.Lock()
		if k.Token() == 0 {
			t.Error("no token")
		}
		k.Unlock()
		k.Unlock()
		if err := tell(); !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("an Unlock too many: %v", err)
		}
		if len(told) > 0 {
			t.Errorf("told too much: %v", <-told)
		}
		// A call that waits when the node is closed never comes back without the lock.
		get(t, s.Node(1).Cluster(), "x")
		ended := make(chan bool)
		go func() {
			defer close(ended)
			k.Lock()
			t.Error("Lock returned without the lock")
		}()
		time.Sleep(time.Second)
		s.Node(0).Close()
		<-ended
		if err := tell(); !errors.Is(err, holdfast.ErrClosed) {
			t.Error(err)
		}
		if k.TryLock() {
			t.Error("TryLock on a closed node")
		}
	})
}

// A caller that lost the lock unlocks later than another one of the same Locker was granted it. Its
// Unlock freed the other's lock, once.
func TestTheUnlockOfALostLockDoesNotFreeThatOfTheNextCaller(t *testing.T) {
	t.Parallel()
	c := single(t)
	told := make(chan error, 10)
	k, err := c.Locker("x", func(err error) { told <- err })
	if err != nil {
		t.Fatal(err)
	}
	ctx := within(t, 10*time.Second)
	k.Lock()
	if err := c.ForceRelease(ctx, "x", k.Token(), "a test"); err != nil {
		t.Fatal(err)
	}
	if err := <-told; !errors.Is(err, holdfast.ErrLost) {
		t.Error(err)
	}
	k.Lock() // by another caller
	second := k.Token()
	if c.Verify(ctx, "x", second) != nil {
		t.Errorf("token %d is not that of the lock", second)
	}
	k.Unlock() // by the first
	if k.Token() != second || c.Verify(ctx, "x", second) != nil {
		t.Error("the second caller's lock is free")
	}
	k.Unlock()
	if _, err := c.TryAcquire(ctx, "x"); err != nil {
		t.Errorf("after both: %v", err)
	}
}

func TestALockerHasAPolicyForLoss(t *testing.T) {
	t.Parallel()
	c := single(t)
	ignore := func(error) {}
	for name, err := range map[string]error{
		"no policy": func() error { _, err := c.Locker("x", nil); return err }(),
		"no name":   func() error { _, err := c.Locker("", ignore); return err }(),
		"manual":    func() error { _, err := c.Locker("x", ignore, holdfast.WithManualRenew()); return err }(),
		"no wait":   func() error { _, err := c.Locker("x", ignore, holdfast.WithNoWait()); return err }(),
		"shared":    func() error { _, err := c.Locker("x", ignore, holdfast.WithShared()); return err }(),
		"permits":   func() error { _, err := c.Locker("x", ignore, holdfast.WithLimit(2)); return err }(),
	} {
		if !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An operator freed the lock, and the holder's node had not heard of it when Unlock released it: two holders had
// worked, and the policy for a loss was not told.
func TestALossThatUnlockAloneHearsOfIsToldToThePolicy(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
		told := make(chan error, 10)
		k, err := s.Node(0).Cluster().Locker("x", func(err error) { told <- err }, holdfast.WithTTL(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		k.Lock()
		s.Node(0).Isolate()
		if err := s.Node(1).Cluster().ForceRelease(until(10*time.Second), "x", k.Token(), "a test"); err != nil {
			t.Fatal(err)
		}
		unlocked := make(chan struct{})
		go func() {
			k.Unlock()
			close(unlocked)
		}()
		time.Sleep(time.Second) // virtual: the release is under way
		s.Node(0).Rejoin()
		<-unlocked
		select {
		case err := <-told:
			if !errors.Is(err, holdfast.ErrLost) {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Error("nothing was told")
		}
	})
}

// TryLock had no deadline: on a node that was cut off it waited for as long as the cut lasted.
func TestTryLockIsFalseWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
		k, err := s.Node(0).Cluster().Locker("x", func(err error) { t.Errorf("the policy was told %v", err) })
		if err != nil {
			t.Fatal(err)
		}
		s.Node(0).Isolate()
		ended := make(chan bool, 1)
		go func() { ended <- k.TryLock() }()
		select {
		case locked := <-ended:
			if locked {
				t.Error("TryLock on a node that is cut off")
			}
		case <-time.After(6 * time.Second):
			t.Error("TryLock waits for longer than its bound")
		}
		s.Node(0).Rejoin()
		if err := s.Node(0).Cluster().Ready(until(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if !k.TryLock() {
			t.Error("TryLock of a free lock")
		}
		k.Unlock()
	})
}

// A full group was told to the policy for a loss, which may end the process.
func TestTryLockIsFalseWithoutRoom(t *testing.T) {
	t.Parallel()
	c := alonely(t, fsm.Limits{Locks: 1})
	k, err := c.Locker("x", func(err error) { t.Errorf("the policy was told %v", err) })
	if err != nil {
		t.Fatal(err)
	}
	other := acquire(t, c, "other")
	if k.TryLock() {
		t.Error("TryLock in a full group")
	}
	if err := other.Release(within(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	if !k.TryLock() {
		t.Error("TryLock with room again")
	}
	k.Unlock()
}
