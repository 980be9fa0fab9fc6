package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
)

// runFlags are those of run.
type runFlags struct {
	shared, nonblock bool
	permits          int
	ttl, wait, grace time.Duration
	keepFor          time.Duration
	once, label      string
}

const runLong = `run waits for the lock NAME, runs COMMAND, and releases the lock when COMMAND has ended. The command
finds the fencing token in HOLDFAST_TOKEN and the name in HOLDFAST_LOCK: whatever it writes to should
refuse a token lower than the highest that it has seen.

COMMAND runs in a process group of its own, and is given the signals that holdfast gets. If the lease
is lost, or holdfast is killed, the group gets SIGTERM, and SIGKILL after --grace: choose a --ttl well
above --grace, since the next holder may come when the TTL is over. What COMMAND leaves behind in its
group is ended in the same way before the lock is released. A COMMAND that leaves its group, as an
interactive shell and setsid(1) do, is given the signals with the group that it leads by then, but
outlives a holdfast that is killed.

COMMAND has our environment. If HOLDFAST_SECRETS is in it, COMMAND may do whatever a node of the fleet
may: say --secret-file instead, with a file that COMMAND cannot read.

Exit codes, beside those of flock(1):

  holdfast              flock   meaning
  that of COMMAND       same    COMMAND ran under the lock; 128+N if signal N ended it
  75                    1       the lock was not got: --nonblock, or --wait was over
  75                    -       the lease was lost while COMMAND ran, or before it could start
  75                    -       COMMAND succeeded, and the --once key may not be recorded as finished
  69                    -       the fleet did not answer within --timeout
  126, 127              same    COMMAND cannot be run, is not found
  2                     64      the arguments are wrong`

func (a *app) runCommand() *cobra.Command {
	f := &runFlags{}
	cmd := &cobra.Command{
		Use: "run [flags] NAME -- COMMAND [ARG…]", GroupID: groupRun,
		Short: "Run a command under a lock, a permit or a Once key",
		Long:  runLong,
		Example: `  holdfast run nightly-import -- ./import.sh
  holdfast run --nonblock --ttl 30s nightly-import -- ./import.sh
  holdfast run --permits 4 thumbnails -- convert a.png b.png
  holdfast run --once invoice-2026-11 --keep-for 2400h -- ./send-invoices`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := commandAfterDash(cmd, args, f.once != ""); err != nil {
				return err
			}
			return f.fit(cmd)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.shared, "shared", false, "share the lock with other shared holders")
	flags.IntVar(&f.permits, "permits", 0, "take one permit of a semaphore of so many")
	flags.StringVar(&f.once, "once", "", "run COMMAND only if it has not succeeded for this key within --keep-for; NAME may be left out")
	flags.DurationVar(&f.keepFor, "keep-for", 24*time.Hour, "how long the fleet remembers that the --once key has succeeded: longer than it may be tried again")
	flags.BoolVar(&f.nonblock, "nonblock", false, "exit with code 75 instead of waiting")
	flags.DurationVar(&f.wait, "wait", 0, "exit with code 75 after so long (default: wait for as long as it takes)")
	flags.DurationVar(&f.ttl, "ttl", ttlDefault, "how long the lease lives without renewal")
	flags.DurationVar(&f.grace, "grace", 5*time.Second, "time between SIGTERM and SIGKILL")
	flags.StringVar(&f.label, "label", "", "what people see of this holder (default: the name of COMMAND)")
	cmd.MarkFlagsMutuallyExclusive("shared", "permits")
	cmd.MarkFlagsMutuallyExclusive("nonblock", "wait")
	cmd.RunE = a.does(func(ctx context.Context, args []string) error {
		name, command := "", args
		if cmd.ArgsLenAtDash() == 1 {
			name, command = args[0], args[1:]
		}
		return a.run(ctx, f, name, command)
	})
	return cmd
}

// fit refuses flags that would say nothing: a command would run without what they ask for.
func (f *runFlags) fit(cmd *cobra.Command) error {
	switch changed := cmd.Flags().Changed; {
	case changed("wait") && f.wait <= 0:
		return errors.New("--wait is above 0: --nonblock does not wait")
	case changed("ttl") && f.ttl <= 0:
		return errors.New("--ttl is above 0: leave it out for the default")
	case changed("permits") && f.permits <= 0:
		return errors.New("--permits is above 0: leave it out for a lock")
	case changed("once") && f.once == "":
		return errors.New("--once is empty: leave it out for a command that may run again")
	case changed("keep-for") && f.once == "":
		return errors.New("--keep-for is for a key: name it with --once")
	case cmd.ArgsLenAtDash() == 0 && (changed("shared") || changed("permits")):
		return errors.New("--shared and --permits are for a lock: name it before --")
	}
	return nil
}

// commandAfterDash accepts NAME -- COMMAND, and -- COMMAND if a name is optional.
func commandAfterDash(cmd *cobra.Command, args []string, optional bool) error {
	switch dash := cmd.ArgsLenAtDash(); {
	case dash < 0:
		return errors.New("the command must follow --, as in: " + cmd.CommandPath() + " NAME -- COMMAND")
	case dash == 0 && !optional:
		return errors.New("the name of the lock is missing before --")
	case dash > 1:
		return fmt.Errorf("there are %d names before --: one lock has one", dash)
	case len(args) == dash:
		return errors.New("the command is missing after --")
	}
	return nil
}

// findCommand finds the program of a command, before anything waits for a lock.
func findCommand(name string) (string, error) {
	path, err := exec.LookPath(name)
	switch {
	case err == nil:
		return path, nil
	case errors.Is(err, os.ErrPermission):
		return "", &exit{codeNotRunnable, err, "Make it executable: chmod +x."}
	}
	return "", &exit{codeNotFound, err, "Name a program that is in PATH, or its whole path."}
}

// options are those of the lock.
func (f *runFlags) options(command []string) []holdfast.Option {
	if f.label == "" {
		f.label = filepath.Base(command[0])
	}
	return []holdfast.Option{holdfast.WithLabel(f.label)}
}

// kind are the options of a lock that a Once key does not have.
func (f *runFlags) kind() (opts []holdfast.Option) {
	if f.shared {
		opts = append(opts, holdfast.WithShared())
	}
	if f.permits != 0 {
		opts = append(opts, holdfast.WithLimit(f.permits))
	}
	return opts
}

// run runs a command under the lock name, or under the key of --once, or under both.
func (a *app) run(ctx context.Context, f *runFlags, name string, command []string) error {
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
	got, err := f.claim(ctx, c, a.timeout, name, command)
	if err != nil {
		return signals.cause(err)
	}
	if got == nil {
		a.say("the key %q is finished: nothing is to be done", clean(f.once))
		return nil
	}
	code, err := a.supervise(&child{path: path, args: command, env: got.environment(), grace: f.grace, leases: got.leases()}, signals)
	return a.settle(got, code, err)
}

// joinInTime is join within --timeout.
func (a *app) joinInTime(ctx context.Context) (*holdfast.Cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	return a.join(ctx)
}

// settle gives back what the command ran under, and turns its end into ours.
func (a *app) settle(got *claim, code int, err error) error {
	key, lock := got.end(err == nil && code == 0)
	if err != nil {
		return err
	}
	switch failed := errors.Join(key, lock); {
	case errors.Is(failed, holdfast.ErrLost):
		return lostExit(failed)
	case key != nil && code == 0:
		return &exit{codeTemporary, key, "The command has succeeded, but the fleet may not know: the key may run again."}
	case failed != nil:
		a.say("the lock is not given back yet: it is free at the end of its TTL (%v)", failed)
	}
	if code != 0 {
		return &exit{code: code}
	}
	return nil
}

func lostExit(err error) *exit {
	return &exit{codeTemporary, err, "Another holder may have begun: what the command has written since counts only if its token was checked."}
}
