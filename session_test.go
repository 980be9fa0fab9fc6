package holdfast

import (
	"fmt"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/session"
)

// The end of a session is one command, during which the group carries out no other: a hundred
// thousand locks on one kept every keepalive of the fleet waiting for seconds.
func TestManyLocksAreSpreadOverSessionsThatEndOneByOne(t *testing.T) {
	t.Parallel()
	c, err := Open(t.Context(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const locks = session.ClaimsMax + 100
	leases := make([]*Lease, locks)
	var all sync.WaitGroup
	for worker := range 64 {
		all.Go(func() {
			for i := worker; i < locks; i += 64 {
				var err error
				if leases[i], err = c.Acquire(t.Context(), fmt.Sprint(i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	sessions := c.keeper.table.All()
	if len(sessions) != 2 {
		t.Fatalf("%d sessions", len(sessions))
	}
	for _, s := range sessions {
		if held, _ := s.Counts(); held == 0 || held > session.ClaimsMax {
			t.Errorf("%d locks on a session", held)
		}
	}
	c.keeper.lose(sessions[0], ErrExpired)
	for _, l := range leases {
		if l.Valid() != (l.grant.Session() == sessions[1]) {
			t.Fatal("a lease did not end with its session, or with another")
		}
	}
}

// The group of a seed that had forgotten all yielded, and its tokens are the higher ones: a Locker that was granted
// the lock in the other group kept the dead lease, and the last Unlock released that.
func TestALockerKeepsTheLeaseThatLives(t *testing.T) {
	t.Parallel()
	c := lonely(t, fsm.Limits{}, Config{})
	lives, err := c.Acquire(patient(t), "x")
	if err != nil {
		t.Fatal(err)
	}
	dead, err := c.Acquire(patient(t), "y")
	if err == nil {
		err = dead.Release(patient(t))
	}
	if err != nil || dead.Token() < lives.Token() {
		t.Fatalf("tokens %d and %d: %v", lives.Token(), dead.Token(), err)
	}
	k, err := c.Locker("x", func(error) {})
	if err != nil {
		t.Fatal(err)
	}
	k.keep(dead)
	k.keep(lives)
	if k.Token() != lives.Token() {
		t.Error("the Locker has the lease that is over")
	}
	k.Unlock()
	k.Unlock()
	if lives.Valid() {
		t.Error("the lock is held after the last Unlock")
	}
}

// A lease may be over before its campaign has noticed.
func TestToResignWithoutALeadershipIsNoLoss(t *testing.T) {
	t.Parallel()
	c := lonely(t, fsm.Limits{}, Config{})
	l, err := c.Acquire(patient(t), "x")
	if err != nil {
		t.Fatal(err)
	}
	l.grant.End(lost(ErrExpired))
	k := &Campaign{}
	k.lease.Store(l)
	if err := k.Resign(patient(t)); err != nil {
		t.Error(err)
	}
}
