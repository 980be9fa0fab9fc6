package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/view"
)

// errWorksOn: no signal of ours ends the command, which may have other rights, as that of sudo(8).
var errWorksOn = errors.New("the command cannot be ended, and works on without the lock")

// child is a command to run while leases are valid.
type child struct {
	path   string
	args   []string
	env    []string
	grace  time.Duration
	leases []*holdfast.Lease
}

// supervise runs the command to its end, and returns its code. The error is an *exit, of a command
// that could not be started, or whose lease was lost.
func (a *app) supervise(ch *child, signals *relay) (code int, err error) {
	for _, l := range ch.leases { // a key may have been lost while the lock was waited for
		if err := l.Err(); err != nil {
			return 0, &exit{codeTemporary, err, "The command was not started: run it again."}
		}
	}
	cmd := exec.Command(ch.path, ch.args[1:]...)
	cmd.Args[0] = ch.args[0]
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = ch.env, a.in, a.out, a.err
	var group *group
	err = signals.passTo(func() (func(os.Signal), error) {
		if group, err = startGroup(cmd, ch.grace); err != nil {
			return nil, err
		}
		return group.signal, nil
	})
	if err != nil {
		return 0, &exit{codeNotRunnable, err, "See whether the file is a program of this machine."}
	}
	defer signals.over()
	lost := a.watchOver(ch, group)
	group.clear(ch.grace)
	if lost != nil {
		return 0, lostExit(lost)
	}
	return codeOf(cmd.ProcessState), nil
}

// watchOver waits for the end of the command, and ends it when a lease is lost, which it returns.
func (a *app) watchOver(ch *child, group *group) (lost error) {
	first, last := ch.leases[0], ch.leases[len(ch.leases)-1]
	for {
		select {
		case <-group.done:
			return nil
		case <-first.Done():
			lost = first.Err()
		case <-last.Done():
			lost = last.Err()
		case j := <-last.Jeopardy():
			if j.Safe {
				a.say("the lease is safe again")
			} else {
				a.say("the lease cannot be renewed (%v): the command is ended in %s", j.Cause, view.Words(j.Remaining.Seconds()))
			}
			continue
		}
		a.say("the lease is lost (%v): the command gets SIGTERM, and SIGKILL after %v", lost, ch.grace)
		if !group.end(ch.grace) {
			return fmt.Errorf("%w: %w", errWorksOn, lost)
		}
		return lost
	}
}

// codeOf is the code of a process that has ended, as the shell says it.
func codeOf(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return codeSignal + int(status.Signal())
	}
	return state.ExitCode()
}

// endOf waits for a process; only that it could not be waited for is an error.
func endOf(cmd *exec.Cmd) error {
	var code *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &code) {
		return err
	}
	return nil
}
