package holdfast

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/consensus"
)

// Seed 6154 of the model: a lease was released before its minimum hold was over, and its session, on which nothing hung any
// more, was closed as unused in the same moment. The end of the session came first: the lock was free at once, and
// the release, which would have kept it taken, found nothing to release.
func TestASessionIsNotClosedAsUnusedBeforeTheGroupHeardOfARestThatItsLeaseLeaves(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]*Lease{
		"minimum hold": {minHold: 40 * time.Hour},
		"lock delay":   {delay: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, s, now, _ := timed(t)
			k.c.keeper, k.c.hooks = k, &hooks{}
			k.c.ctx, k.c.cancel = context.WithCancel(t.Context())
			k.c.cancel() // nobody cleans up here but this test
			k.opened(s, false)
			l.c, l.session, l.request, l.granted = k.c, s, 1, now.Now()
			if err := s.adopt(l); err != nil {
				t.Fatal(err)
			}
			if !l.leave(lost(ErrMaxHold)) || l.leave(ErrReleased) {
				t.Fatal("it did not end, or twice")
			}
			k.releaseLater(l)
			now.Advance(s.ttl + time.Hour)
			if k.retire(s, now.Now()) {
				t.Fatal("closed while the release was under way")
			}
			l.left() // the group has heard it
			now.Advance(s.ttl + time.Hour)
			if !s.unused(now.Now()) {
				t.Error("never closed")
			}
		})
	}
}

// Seen with real processes on a busy machine: a node that had left, and said good-bye to the others for two seconds more, told its
// operator that the group had no raft leader, and missed all voters.
func TestWhoLeavesMissesNoRaftLeader(t *testing.T) {
	t.Parallel()
	told := &strings.Builder{}
	c := newCluster(Config{Logger: slog.New(slog.NewTextHandler(told, nil))}.withDefaults(), nil)
	c.leaving.Store(true)
	q := quorum{c: c, lost: time.Now().Add(-time.Hour)}
	q.look(&consensus.Group{}) // nobody is asked
	if told.Len() > 0 || !q.lost.IsZero() {
		t.Errorf("it said %q", told)
	}
}
