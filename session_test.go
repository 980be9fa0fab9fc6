package holdfast

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
)

func TestASessionTakesSoManyUnfinishedCallsAndNoMore(t *testing.T) {
	t.Parallel()
	s := &session{claims: make(map[uint64]*claim)}
	var last uint64
	for range openMax {
		n, _, err := s.begin(nil, 1)
		if err != nil {
			t.Fatal(err)
		}
		last = n
	}
	var limit *ExhaustedError
	if _, _, err := s.begin(nil, 1); !errors.As(err, &limit) || limit.Limit != openMax {
		t.Errorf("call %d: %v", last+1, err)
	}
	s.finish(last) // not the oldest
	if _, _, err := s.begin(nil, 1); err != nil {
		t.Error(err)
	}
}

// The end of a session is one command, during which the group carries out no other: a hundred thousand locks on one
// kept every keepalive of the fleet waiting for seconds.
func TestManyLocksAreSpreadOverSessionsThatEndOneByOne(t *testing.T) {
	t.Parallel()
	c, err := Open(t.Context(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const locks = claimsMax + 100
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
	sessions := c.keeper.all()
	if len(sessions) != 2 {
		t.Fatalf("%d sessions", len(sessions))
	}
	for _, s := range sessions {
		if held, _ := s.counts(); held == 0 || held > claimsMax {
			t.Errorf("%d locks on a session", held)
		}
	}
	c.keeper.lose(sessions[0], ErrExpired)
	for _, l := range leases {
		if l.Valid() != (l.session == sessions[1]) {
			t.Fatal("a lease did not end with its session, or with another")
		}
	}
}

func TestANodeKeepsSoManyCallsWaitingAndNoMore(t *testing.T) {
	t.Parallel()
	a := newAdmission(1)
	for range proposalsMin {
		if err := a.enter(context.Background(), nil); err != nil {
			t.Fatal(err)
		}
	}
	for range turnsMax {
		a.queue.PushBack(&turn{decided: make(chan bool, 1)})
	}
	var limit *ExhaustedError
	if err := a.enter(context.Background(), nil); !errors.As(err, &limit) {
		t.Errorf("call %d: %v", turnsMax+1, err)
	}
}
