package node

import (
	"context"
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/internal/autopilot"
	"github.com/holdfast-go/holdfast/internal/consensus"
)

func TestOnlyTheEnginesRefusalIsTheGroupsNo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want autopilot.Outcome
	}{
		{nil, autopilot.Done},
		{consensus.ErrMembershipChanged, autopilot.Refused},
		{fmt.Errorf("%w: no answer in time", consensus.ErrUnknown), autopilot.Unknown},
		{fmt.Errorf("%w: system is too busy", consensus.ErrNotProposed), autopilot.Failed},
		{context.DeadlineExceeded, autopilot.Failed},
	} {
		if got := outcome(c.err); got != c.want {
			t.Errorf("%v: %v", c.err, got)
		}
	}
}
