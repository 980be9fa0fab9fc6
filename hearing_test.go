package holdfast

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/consensus"
	"github.com/holdfast-go/holdfast/internal/lease"
)

// A replica that the raft leader has just taken in counts as heard a moment ago, however long it has been raft leader: in a
// fleet of three zones it took newcomers for dead, waited for none of them, and made two of one zone voters.
func TestANewReplicaCountsFromWhenItWasTakenIn(t *testing.T) {
	t.Parallel()
	h := newHearing()
	members := consensus.Members{Voters: map[uint64]string{1: "a"}, Standbys: map[uint64]string{}}
	at := func(d time.Duration) lease.Instant { return lease.Instant(time.Hour + d) }
	h.lead(members, at(0))
	h.take(nil, members, at(0))
	members.Standbys[2] = "b"
	h.take(nil, members, at(time.Hour))
	if silent := h.since(2, at(time.Hour+time.Second)); silent != time.Second {
		t.Errorf("one that was taken in a second ago is silent for %v", silent)
	}
	if silent := h.since(1, at(time.Hour)); silent != time.Hour {
		t.Errorf("one that was never heard is silent for %v", silent)
	}
}
