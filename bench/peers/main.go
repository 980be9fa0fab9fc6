// Command peers measures Holdfast beside other systems that give locks: etcd, ZooKeeper, Redis,
// Redlock, hashicorp/raft, Postgres and NATS, each with the durability that an acknowledged lock
// needs, as far as it has that.
//
//	cd bench/peers && go run . -json peers.json -svg plots      about a quarter of an hour
//	cd bench/peers && go run . -quick -only etcd,redis          one short round beside Holdfast
//
// The servers of others are those of this machine, of Debian's packages, which root installs, or
// are built from the module proxy and kept. Systems run one at a time on fresh clusters, in
// alternating rounds, and what counts are the ratios within one round. It runs on Unix; processor
// time and memory need Linux.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

func main() {
	if text := os.Getenv(workerVar); text != "" {
		os.Exit(beWorker(text))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

// flags are what the command line says.
type flags struct {
	only, json, svg, data string
	quick, install        bool
	rounds                int
	span                  time.Duration
}

func parseFlags(args []string, to io.Writer) (f flags, err error) {
	set := flag.NewFlagSet("peers", flag.ContinueOnError)
	set.SetOutput(to)
	set.StringVar(&f.only, "only", "",
		"systems, by comma: "+strings.Join(names(contestants()), ", ")+"; "+baseline+" always runs")
	set.StringVar(&f.json, "json", "", "file for all figures")
	set.StringVar(&f.svg, "svg", "", "directory for plots")
	set.StringVar(&f.data, "data", "", "directory for the servers' data; default: a temporary one")
	set.BoolVar(&f.quick, "quick", false, "one round of short measures")
	set.BoolVar(&f.install, "install", true,
		"build servers that are missing, and as root install their packages")
	set.IntVar(&f.rounds, "rounds", 3, "rounds; what counts is the median")
	set.DurationVar(&f.span, "for", 25*time.Minute, "the most time that all may take")
	err = set.Parse(args)
	if err == nil && set.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", set.Arg(0))
	}
	return f, err
}

// command is the program. What it starts has ended when it returns, and its directory is gone.
func command(ctx context.Context, args []string, out, progress io.Writer) (err error) {
	f, err := parseFlags(args, progress)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	chosen, err := choose(contestants(), f.only)
	if err != nil {
		return err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(f.data, "holdfast-peers-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Chmod(dir, 0o711); err != nil { // a server may run as another user
		return err
	}
	b := &bench{
		settings: thorough(), dir: dir, rounds: f.rounds,
		deadline: time.Now().Add(f.span), progress: progress,
	}
	if f.quick {
		b.settings, b.rounds = quick(), 1
	}
	b.store = &store{
		cache: filepath.Join(cache, "holdfast-peers"), dir: dir, install: f.install, tell: b.say,
	}
	b.report.Command = strings.Join(append([]string{"go run ."}, args...), " ")
	b.report.Began = time.Now()
	if b.report.Machine, err = machine(dir); err != nil {
		return err
	}
	limited, cancel := context.WithDeadline(ctx, b.deadline)
	defer cancel()
	if err = b.obtain(limited, chosen); err == nil {
		err = b.run(limited)
	}
	switch {
	case ctx.Err() != nil:
		err = errors.New("interrupted")
	case limited.Err() != nil:
		err = fmt.Errorf("not all was measured within %v", f.span)
	}
	if err != nil && len(b.report.Results) == 0 {
		return err
	}
	return errors.Join(err, b.write(f, out))
}

// write prints the report and writes its files.
func (b *bench) write(f flags, out io.Writer) error {
	err := b.report.markdown(out)
	if f.json != "" {
		err = errors.Join(err, b.report.writeJSON(f.json))
	}
	if f.svg != "" {
		err = errors.Join(err, b.report.writePlots(f.svg))
	}
	return err
}
