package holdfast

import (
	"context"
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast/internal/consensus"
	"github.com/holdfast-go/holdfast/internal/feed"
	"github.com/holdfast-go/holdfast/internal/proposer"
	"github.com/holdfast-go/holdfast/internal/session"
)

// A caller branches on the errors of the API: one that is not turned into them is a call that is
// not repeated, or a lock that is taken for free.
func TestTheErrorsOfAllOrgansAreTurnedIntoThoseOfTheAPI(t *testing.T) {
	t.Parallel()
	c := &Cluster{}
	ended := &proposer.UnreachedError{Ended: context.DeadlineExceeded}
	for _, story := range []struct {
		from error
		want []error
		not  error
	}{
		{feed.ErrFull, []error{ErrExhausted}, ErrClosed},
		{feed.ErrClosed, []error{ErrClosed}, ErrExhausted},
		{session.ErrBusy, []error{ErrExhausted}, ErrClosed},
		{proposer.ErrClosed, []error{ErrClosed}, ErrUnknownOutcome},
		{proposer.ErrSuperseded, []error{ErrLost, ErrYielded}, ErrUnknownOutcome},
		{&proposer.OverloadError{}, []error{ErrExhausted}, context.DeadlineExceeded},
		{&proposer.OverloadError{Ended: context.Canceled}, []error{ErrExhausted, context.Canceled}, ErrNoQuorum},
		{ended, []error{ErrNoQuorum, context.DeadlineExceeded}, ErrUnknownOutcome},
		{&proposer.UnreachedError{Ended: context.Canceled}, []error{context.Canceled}, ErrNoQuorum},
		{&proposer.UnknownError{Cause: ended}, []error{ErrUnknownOutcome, ErrNoQuorum, context.DeadlineExceeded}, ErrClosed},
		{&proposer.UnknownError{Cause: proposer.ErrClosed}, []error{ErrUnknownOutcome, ErrClosed}, ErrNoQuorum},
	} {
		got := c.apiError(story.from)
		for _, want := range story.want {
			if !errors.Is(got, want) {
				t.Errorf("%v becomes %v, which is not %v", story.from, got, want)
			}
		}
		if errors.Is(got, story.not) || errors.Is(got, story.from) {
			t.Errorf("%v becomes %v", story.from, got)
		}
	}
	if c.apiError(nil) != nil {
		t.Error("there is an error where there was none")
	}
}

// A replica that has failed says so to whoever asks first: a call that is under way, or the node.
// The error was one of the API by one of these ways only.
func TestTheFailureOfAReplicaIsAnErrorOfTheAPIWhoeverMeetsIt(t *testing.T) {
	t.Parallel()
	c := &Cluster{}
	for cause, want := range map[error]error{
		consensus.ErrForgetful: ErrIncompatible, consensus.ErrSuperseded: ErrIncompatible, consensus.ErrDamaged: ErrDamaged,
	} {
		failed := &consensus.FailedError{Cause: cause}
		if got := c.apiError(failed); !errors.Is(got, want) || !errors.Is(got, cause) {
			t.Errorf("%v becomes %v", failed, got)
		}
		if got := c.apiError(&proposer.UnknownError{Cause: failed}); !errors.Is(got, want) || !errors.Is(got, ErrUnknownOutcome) {
			t.Errorf("%v of unknown outcome becomes %v", failed, got)
		}
	}
}
