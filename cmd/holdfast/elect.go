package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
)

const (
	againMin   = time.Second      // before a command that has ended runs again
	againMax   = 30 * time.Second // that the pause doubles to
	againCalm  = time.Minute      // a command that ran for so long begins with the short pause again
	electShort = "Keep a command running on one node of the fleet"
	electLong  = `elect stands for the election NAME on each machine where it runs, and runs COMMAND on the one that
leads. If that machine or its holdfast dies, another candidate runs COMMAND. If COMMAND ends by itself,
whatever its code, the leadership goes to the next candidate, and this one stands again after a pause
that doubles from 1 s to 30 s. If the leadership is lost, COMMAND gets SIGTERM, and SIGKILL after
--grace. A signal that asks for the end is passed on, and the code of COMMAND is ours.

HOLDFAST_TOKEN, HOLDFAST_LOCK and the process group are those of ` + "`holdfast run`."
)

// endedError says that a command has ended by itself.
type endedError struct{ code int }

func (e *endedError) Error() string { return fmt.Sprintf("the command has ended with code %d", e.code) }

func (a *app) electCommand() *cobra.Command {
	f := &runFlags{}
	cmd := &cobra.Command{
		Use: "elect [flags] NAME -- COMMAND [ARG…]", GroupID: groupRun, Short: electShort, Long: electLong,
		Example: "  holdfast elect scheduler -- ./scheduler --listen :8080",
		Args: func(cmd *cobra.Command, args []string) error {
			return cmp.Or(commandAfterDash(cmd, args, false), f.fit(cmd))
		},
	}
	flags := cmd.Flags()
	flags.DurationVar(&f.ttl, "ttl", ttlDefault, "how long the lease lives without renewal")
	flags.DurationVar(&f.grace, "grace", 5*time.Second, "time between SIGTERM and SIGKILL")
	flags.StringVar(&f.label, "label", "", "what people see of this candidate (default: the name of COMMAND)")
	cmd.RunE = a.does(func(ctx context.Context, args []string) error { return a.elect(ctx, f, args[0], args[1:]) })
	return cmd
}

// elect runs a command whenever this process leads, until a signal asks for the end.
func (a *app) elect(ctx context.Context, f *runFlags, name string, command []string) error {
	path, err := findCommand(command[0])
	if err != nil {
		return err
	}
	ctx, signals := newRelay(ctx)
	defer signals.close()
	a.ttl = f.ttl
	c, err := a.joinInTime(ctx)
	if err != nil {
		return signals.cause(err)
	}
	defer c.Close()
	for pause := againMin; ; pause = min(2*pause, againMax) {
		var began time.Time
		var lost error
		err := c.Lead(ctx, name, func(_ context.Context, l *holdfast.Lease) error {
			began = time.Now()
			lost = a.office(&child{path, command, environment(l), f.grace, []*holdfast.Lease{l}}, signals)
			if errors.Is(lost, errWorksOn) {
				signals.cancel() // a second one would run beside it
			}
			return lost
		}, f.options(command)...)
		if errors.Is(lost, errWorksOn) {
			return lost
		}
		if left := (*exit)(nil); errors.As(err, &left) { // the loss came with the signal
			return left
		}
		var ended *endedError
		if !errors.As(err, &ended) {
			return signals.cause(err)
		}
		if signals.asked() != nil {
			return &exit{code: ended.code}
		}
		if time.Since(began) > againCalm {
			pause = againMin
		}
		a.say("%v: standing again in %v", ended, pause)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return signals.cause(ctx.Err())
		}
	}
}

// office runs the command for one time of leadership. A loss is an error of the lease, which makes
// Lead stand again.
func (a *app) office(ch *child, signals *relay) error {
	a.say("leading with token %d", ch.leases[0].Token())
	code, err := a.supervise(ch, signals)
	if err != nil {
		return err
	}
	return &endedError{code}
}
