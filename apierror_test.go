package holdfast

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/consensus/report"
	"github.com/holdfast-go/holdfast/internal/feed"
	"github.com/holdfast-go/holdfast/internal/seam"
	"github.com/holdfast-go/holdfast/internal/session"
	"github.com/holdfast-go/holdfast/internal/simenv"
)

// unopened is a cluster of which nothing runs.
func unopened(t *testing.T) *Cluster {
	t.Helper()
	c, err := newCluster(Config{}.withDefaults(), simenv.Env{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A caller branches on the errors of the API: one that is not turned into them is a call that is
// not repeated, or a lock that is taken for free.
func TestTheErrorsOfAllOrgansAreTurnedIntoThoseOfTheAPI(t *testing.T) {
	t.Parallel()
	c := unopened(t)
	ended := &seam.UnreachedError{Ended: context.DeadlineExceeded}
	for _, story := range []struct {
		from error
		want []error
		not  error
	}{
		{feed.ErrFull, []error{ErrExhausted}, ErrClosed},
		{feed.ErrClosed, []error{ErrClosed}, ErrExhausted},
		{session.ErrBusy, []error{ErrExhausted}, ErrClosed},
		{seam.ErrClosed, []error{ErrClosed}, ErrUnknownOutcome},
		{seam.ErrSuperseded, []error{ErrLost, ErrYielded}, ErrUnknownOutcome},
		{seam.ErrCut, []error{ErrNoQuorum}, context.DeadlineExceeded},
		{&seam.OverloadError{}, []error{ErrExhausted}, context.DeadlineExceeded},
		{&seam.OverloadError{Ended: context.Canceled}, []error{ErrExhausted, context.Canceled}, ErrNoQuorum},
		{ended, []error{ErrNoQuorum, context.DeadlineExceeded}, ErrUnknownOutcome},
		{&seam.UnreachedError{Ended: context.Canceled}, []error{context.Canceled}, ErrNoQuorum},
		{&seam.UnknownError{Cause: ended}, []error{ErrUnknownOutcome, ErrNoQuorum, context.DeadlineExceeded}, ErrClosed},
		{&seam.UnknownError{Cause: seam.ErrClosed}, []error{ErrUnknownOutcome, ErrClosed}, ErrNoQuorum},
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
	c := unopened(t)
	for cause, want := range map[error]error{
		report.ErrForgetful: ErrIncompatible, report.ErrAhead: ErrIncompatible, report.ErrSuperseded: ErrIncompatible, report.ErrDamaged: ErrDamaged,
	} {
		failed := &report.FailedError{Cause: cause}
		if got := c.apiError(failed); !errors.Is(got, want) || !errors.Is(got, cause) {
			t.Errorf("%v becomes %v", failed, got)
		}
		if got := c.apiError(&seam.UnknownError{Cause: failed}); !errors.Is(got, want) || !errors.Is(got, ErrUnknownOutcome) {
			t.Errorf("%v of unknown outcome becomes %v", failed, got)
		}
	}
}

// What an operator does with the directory decides what the group remembers: the text has to have it.
func TestTheErrorOfADirectoryNamesTheWaysOut(t *testing.T) {
	t.Parallel()
	const wipe = "delete the directory, and the node comes back as a new one with what the rest of its group has; " +
		"unless a majority of the voters is told this: then delete none, and recover the group from the newest"
	for cause, ways := range map[error][]string{
		report.ErrAhead:      {"either give up what this directory alone has: " + wipe, "; or stop all nodes, and recover the group from this directory"},
		report.ErrForgetful:  {"of the two, run the one that others have heard last, and no other: " + wipe},
		report.ErrSuperseded: {"of the two, run the one that others have heard last, and no other: " + wipe},
		report.ErrDamaged:    {wipe},
		report.ErrNoReplica:  {wipe},
		report.ErrForeign:    {"put the right directory in its place, or " + wipe},
		report.ErrOtherStart: {"put the right directory in its place, or " + wipe},
	} {
		for _, err := range []error{cause, &report.FailedError{Cause: cause}} {
			for _, way := range ways {
				if text := unopened(t).apiError(err).Error(); !strings.Contains(text, way) {
					t.Errorf("%q does not say %q", text, way)
				}
			}
		}
	}
}

// A program that asks for the error of one and is told that of the other takes it for a failure.
func TestWhatAGuardAndTheGroupRefuseIsOneError(t *testing.T) {
	t.Parallel()
	if ErrStaleToken != fence.ErrStale || ErrInvalid != fence.ErrInvalid {
		t.Error("two values for one condition")
	}
	if err := staleToken("x", 3, fsm.NameState{}); !errors.Is(err, fence.ErrStale) {
		t.Error(err)
	}
	if err := error(&fence.StaleError{Resource: "x", Token: 3, Highest: 4}); !errors.Is(err, ErrStaleToken) {
		t.Error(err)
	}
	if err := invalid("name", "is empty"); !errors.Is(err, fence.ErrInvalid) {
		t.Error(err)
	}
}
