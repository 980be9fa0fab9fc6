package serve

import (
	"context"
	"testing"

	"github.com/holdfast-go/holdfast/internal/link"
	"github.com/holdfast-go/holdfast/internal/seam"
)

// A call whose time ended while it waited for its turn was answered as one too many: its caller, whose
// own time had a millisecond left, was told of a limit of 1,024 calls, of which there were a few.
func TestACallWhoseTimeEndedInTheLineWasNotOneTooMany(t *testing.T) {
	t.Parallel()
	for code, err := range map[link.ReplyCode]error{
		link.ReplyOverload: &seam.OverloadError{},
		link.ReplyEnded:    &seam.OverloadError{Ended: context.DeadlineExceeded},
	} {
		if r := failed(err, false); r.Code != code || r.Unknown {
			t.Errorf("%#v is answered %+v", err, r)
		}
	}
}
