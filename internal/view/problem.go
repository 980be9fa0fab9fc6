package view

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast"
)

// Problem is an error, and what to do.
type Problem struct{ Title, Text, Advice string }

// Explain says what an error means for people.
func Explain(err error) *Problem {
	if err == nil {
		return nil
	}
	p := &Problem{"This did not work", err.Error(), ""}
	switch {
	case errors.Is(err, holdfast.ErrInvalid):
		p.Title = "That cannot be asked"
	case errors.Is(err, holdfast.ErrStaleToken):
		p.Title, p.Advice = "The grant is over", "Another grant may hold the lock by now: look at it before you try again."
	case errors.Is(err, holdfast.ErrNotRemoved):
		p.Title = "The raft leader refuses"
	case errors.Is(err, holdfast.ErrClosed):
		p.Title, p.Advice = "This node is closed", "Ask another node of the fleet."
	case errors.Is(err, holdfast.ErrUnknownOutcome):
		p.Title, p.Advice = "The outcome is not known", "It may have happened. It is safe to try again."
	case errors.Is(err, holdfast.ErrNoQuorum), errors.Is(err, context.DeadlineExceeded):
		p.Title = "The group did not answer in time"
		p.Advice = "Nothing can be read or changed without a majority of the voters. The overview shows which of them are missing; leases end at the latest with their TTL."
	}
	return p
}
