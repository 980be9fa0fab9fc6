package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
)

const (
	timeoutDefault = 10 * time.Second
	ttlDefault     = 15 * time.Second
)

// app is what all commands share.
type app struct {
	in       *os.File
	out, err io.Writer
	fleet    fleetFlags
	format   string        // table, json or jsonl
	timeout  time.Duration // of joining, and of a question
	ttl      time.Duration // of leases; 0: none is acquired, and so the TTL is no concern of the fleet's
	yes      bool
	verbose  bool
	began    bool         // the arguments were in order
	ended    atomic.Int32 // the number of the signal that asked for the end
}

// execute runs the command that args name, and returns the code to exit with.
func (a *app) execute(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(args)
	root.SetOut(a.out)
	root.SetErr(a.err)
	err := root.ExecuteContext(ctx)
	if err != nil && !a.began {
		err = &exit{codeUsage, err, "See holdfast --help, or holdfast COMMAND --help."}
	}
	return a.report(err)
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "holdfast",
		Short: "Ask a Holdfast fleet, run commands under its locks, and operate it",
		Long: "holdfast joins a fleet as a client for the time of one command: it has no replica and no vote.\n" +
			"Data goes to standard output, all else to standard error.",
		SilenceUsage: true, SilenceErrors: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.CompletionOptions.HiddenDefaultCmd = false
	flags := root.PersistentFlags()
	a.fleet.register(flags)
	flags.StringVarP(&a.format, "output", "o", "table", "table, json or jsonl")
	flags.DurationVar(&a.timeout, "timeout", timeoutDefault, "how long to wait for the fleet")
	flags.BoolVarP(&a.verbose, "verbose", "v", false, "print what this node logs")
	root.AddGroup(&cobra.Group{ID: groupRun, Title: "Run under a lock:"}, &cobra.Group{ID: groupAsk, Title: "Ask:"},
		&cobra.Group{ID: groupAct, Title: "Operate:"}, &cobra.Group{ID: groupKeep, Title: "Back up and recover:"})
	root.AddCommand(a.commands()...)
	return root
}

const (
	groupRun  = "run"
	groupAsk  = "ask"
	groupAct  = "act"
	groupKeep = "keep"
)

func (a *app) commands() []*cobra.Command {
	return []*cobra.Command{
		a.runCommand(), a.electCommand(), guardCommand(),
		a.locksCommand(), a.lockCommand(), a.whyCommand(), a.watchCommand(), a.onceCommand(), a.membersCommand(), a.sessionsCommand(), a.quotasCommand(), a.statusCommand(), a.doctorCommand(), a.uiCommand(),
		a.releaseCommand(), a.requestReleaseCommand(), a.revokeNodeCommand(), a.removeNodeCommand(), a.transferLeaderCommand(), a.forgetOnceCommand(), a.resizeCommand(), a.quotaCommand(),
		a.keygenCommand(), a.backupCommand(), a.checkBackupCommand(), a.restoreCommand(), a.recoverCommand(), a.versionCommand(),
	}
}

// does makes a function the work of a command. What it returns is no error of usage.
func (a *app) does(work func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := a.checkFormat(); err != nil {
			return err
		}
		a.began = true
		return work(cmd.Context(), args)
	}
}

// untilSignal is ctx until a signal asks for the end.
func (a *app) untilSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	got := make(chan os.Signal, 1)
	signal.Notify(got, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case sig := <-got:
			a.ended.Store(int32(sig.(syscall.Signal)))
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(got)
		cancel()
	}
}

// joined is does for a command that joins the fleet, and ends at a signal.
func (a *app) joined(work func(ctx context.Context, c *holdfast.Cluster, args []string) error) func(*cobra.Command, []string) error {
	return a.does(func(ctx context.Context, args []string) error {
		ctx, stop := a.untilSignal(ctx)
		defer stop()
		c, err := a.joinInTime(ctx)
		if err != nil {
			return err
		}
		defer c.Close()
		return work(ctx, c, args)
	})
}

// asks is joined for a question, which has the timeout.
func (a *app) asks(work func(ctx context.Context, c *holdfast.Cluster, args []string) error) func(*cobra.Command, []string) error {
	return a.joined(func(ctx context.Context, c *holdfast.Cluster, args []string) error {
		ctx, cancel := context.WithTimeout(ctx, a.timeout)
		defer cancel()
		return work(ctx, c, args)
	})
}

// say prints a line for people.
func (a *app) say(format string, args ...any) {
	fmt.Fprintf(a.err, "holdfast: "+format+"\n", args...)
}
