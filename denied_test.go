package holdfast

import (
	"context"
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/internal/consensus"
)

// Where the start of forty processes keeps a machine busy, a change of the membership comes too late now and then, or a raft
// leader goes by a membership of a moment ago. Each was taken for the group's no, and the newcomer was left alone for
// 30 s: of forty nodes one was ready after 47 s, and all others after 20.
func TestOnlyTheGroupsOwnNoLeavesANewcomerAlone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		err       error
		seen, now uint64
		want      bool
	}{
		{"refused as it is", consensus.ErrMembershipChanged, 95, 95, true},
		{"another change came before", consensus.ErrMembershipChanged, 78, 95, false},
		{"no answer in time", fmt.Errorf("%w: no answer in time", consensus.ErrUnknown), 95, 95, false},
		{"never proposed", fmt.Errorf("%w: system is too busy", consensus.ErrNotProposed), 95, 95, false},
		{"out of time", context.DeadlineExceeded, 95, 95, false},
	} {
		if got := denied(c.err, c.seen, c.now); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
