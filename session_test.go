package holdfast

import (
	"fmt"
	"sync"
	"testing"

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
