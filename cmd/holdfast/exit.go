package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/recovery"
	"github.com/holdfast-go/holdfast/internal/view"
)

// Codes to exit with; those of sysexits.h where there is one.
const (
	codeFailed      = 1
	codeUsage       = 2
	codeUnavailable = 69  // EX_UNAVAILABLE: the fleet did not answer
	codeTemporary   = 75  // EX_TEMPFAIL: the lock was not got, or was lost
	codeNotRunnable = 126 // as the shell says it
	codeNotFound    = 127
	codeSignal      = 128 // and the number of the signal
)

// exit is the end of a command: a code, an error to print, nil for none, and what to do.
type exit struct {
	code   int
	err    error
	advice string
}

func (e *exit) Error() string { return fmt.Sprint(e.err) }

// Unwrap is the error.
func (e *exit) Unwrap() error { return e.err }

// report prints an error and what to do, and returns the code to exit with.
func (a *app) report(err error) int {
	if err == nil {
		return 0
	}
	e := asExit(err)
	if sig := a.ended.Load(); sig != 0 && errors.Is(err, context.Canceled) {
		e = &exit{codeSignal + int(sig), err, ""}
	}
	if e.err != nil {
		a.say("%s", clean(strings.TrimPrefix(e.err.Error(), "holdfast: ")))
		if e.advice != "" {
			a.say("%s", e.advice)
		}
	}
	return e.code
}

// asExit finds the code and the advice for an error of the library.
func asExit(err error) *exit {
	var e *exit
	if errors.As(err, &e) {
		return e
	}
	e = &exit{codeFailed, err, view.Explain(err).Advice}
	is := func(target error) bool { return errors.Is(err, target) }
	switch {
	case is(holdfast.ErrHeld):
		e.code, e.advice = codeTemporary, "See `holdfast why NAME`; ask its holder with `holdfast request-release NAME --reason …`."
	case is(holdfast.ErrExpired) && !is(holdfast.ErrLost): // no answer of the group was in time
		e.code, e.advice = codeTemporary, "The group's answers take longer than the lease lives: choose a longer --ttl, or see `holdfast doctor`."
	case is(holdfast.ErrInvalid):
		e.code = codeUsage
		e.advice = "See holdfast COMMAND --help."
	case is(holdfast.ErrStaleToken):
		e.advice = "The grant is over. See `holdfast lock NAME` for who has the lock now."
	case is(holdfast.ErrLimitMismatch):
		e.advice = "See `holdfast lock NAME` for its permits, and say the same number with --permits, or none for a lock."
	case is(holdfast.ErrLevel):
		e.advice = "The feature level rises an hour after all nodes know the next one: see `holdfast status`."
	case is(holdfast.ErrNotRemoved):
		e.advice = "Stop its process first, or let the process call Leave. See `holdfast status`."
	case is(holdfast.ErrNotTransferred):
		e.advice = "See `holdfast members` for voters that are ill, and choose another one."
	case is(holdfast.ErrExhausted):
		e.code, e.advice = codeTemporary, "A limit of the group is reached: see `holdfast locks`, and docs/operations.md#limits."
	case is(holdfast.ErrIncompatible):
		e.advice = "Use the version of holdfast that the fleet runs: see `holdfast members` and `holdfast version`."
	case is(recovery.ErrBeside):
		e.advice = "Another recovery may have made that group: see `holdfast status` there. If it serves, start this node with an empty directory, and it joins; if it is not to go on, stop its nodes first."
	case is(holdfast.ErrGroupAlive):
		e.advice = "Nodes of the former group still run. If they serve there is nothing to recover; if they cannot, stop all of them first. See `holdfast status`."
	case is(holdfast.ErrDirInUse):
		e.advice = "Stop the process that has the directory open."
	case is(holdfast.ErrNoQuorum), is(context.DeadlineExceeded):
		e.code = codeUnavailable
		e.advice = "No node, or no majority of the voters, answered in time. `holdfast doctor` says why; --timeout waits longer."
	case is(context.Canceled):
		e.code, e.advice = codeSignal+2, ""
	}
	return e
}
