package holdfast

import (
	"context"
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/internal/consensus"
	"github.com/holdfast-go/holdfast/internal/hearing"
)

func TestOnlyTheEnginesRefusalIsTheGroupsNo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want hearing.Outcome
	}{
		{nil, hearing.Done},
		{consensus.ErrMembershipChanged, hearing.Refused},
		{fmt.Errorf("%w: no answer in time", consensus.ErrUnknown), hearing.Unknown},
		{fmt.Errorf("%w: system is too busy", consensus.ErrNotProposed), hearing.Failed},
		{context.DeadlineExceeded, hearing.Failed},
	} {
		if got := outcome(c.err); got != c.want {
			t.Errorf("%v: %v", c.err, got)
		}
	}
}
