package contract_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

func TestCallsAfterCloseAnswerErrClosed(t *testing.T) {
	t.Parallel()
	c := single(t)
	l := acquire(t, c, "renewed")
	id, addr := c.ID(), c.Addr()
	closed(t, c)
	for name, call := range testkit.CallsOf(c, l) {
		if err := call(t.Context()); !errors.Is(err, holdfast.ErrClosed) {
			t.Errorf("%s after Close: %v", name, err)
		}
	}
	if err := l.Release(t.Context()); !errors.Is(err, holdfast.ErrLost) || !errors.Is(err, holdfast.ErrClosed) {
		t.Errorf("Release after Close: %v", err)
	}
	if err := c.Leave(t.Context()); !errors.Is(err, holdfast.ErrClosed) {
		t.Errorf("Leave after Close: %v", err)
	}
	// What does no I/O still answers.
	st := c.Status()
	if c.ID() != id || c.Addr() != addr || st.ID != id || st.Ready || st.Held != 0 || st.Waiting != 0 || st.Failure != nil {
		t.Errorf("after Close: id %s, address %s, status %+v", c.ID(), c.Addr(), st)
	}
	own := c.Members()
	others := slices.ContainsFunc(own, func(m holdfast.Member) bool { return !m.Local })
	own = slices.DeleteFunc(own, func(m holdfast.Member) bool { return !m.Local })
	if len(own) != 1 || own[0].ID != id || others != (under(t) == onStandby) {
		t.Errorf("members after Close: %+v", c.Members())
	}
}
