// Command exact replays a test of package sim exactly: the same seed gives the same trace, byte by
// byte, in every process on every day. It is a tool for development on this repository:
//
//	go run ./sim/exact -seed 7             runs seed 7 of the random test and keeps its trace
//	go run ./sim/exact -seed 7 -times 6    runs it in six fresh processes and compares the traces
//
// The Go runtime leaves much to chance: the order in which select looks at channels, the order of a
// map, of timers that are due together, of goroutines. exact therefore builds the test with a
// changed runtime, which is made of the installed one by the go command's -overlay; nothing is
// installed. It refuses a version of Go that it does not know. The first build compiles the
// standard library again, which takes minutes; then it is cached.
//
//	main.go      what is run
//	patches.go   what is changed in the standard library, and why
//	sources.go   what is added to it
//	overlay.go   how that becomes an overlay
//	compare.go   two traces, side by side
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// job is what the flags ask for.
type job struct {
	seed    uint64
	times   int
	minutes int
	pkg     string
	test    string
	race    bool
	dir     string
	binary  string
}

func main() {
	var j job
	flag.Uint64Var(&j.seed, "seed", 1, "the seed")
	flag.IntVar(&j.times, "times", 1, "in how many processes; the traces are compared")
	flag.IntVar(&j.minutes, "minutes", 2, "virtual minutes of faults, for the random test")
	flag.StringVar(&j.pkg, "pkg", "./sim/virtual", "the package of the test")
	flag.StringVar(&j.test, "run", "^TestRandomFaultsBreakNoPromise$", "the test, as for go test")
	flag.BoolVar(&j.race, "race", false, "with the race detector")
	flag.StringVar(&j.dir, "dir", "", "keep the trace here. Default: a new directory")
	flag.StringVar(&j.binary, "c", "", "only build the test, into this file, for scripts and debuggers; run it with GOMAXPROCS=1 GOGC=off GODEBUG=gcstoptheworld=2")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := j.do(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "exact:", err)
		os.Exit(1)
	}
}

// do builds the test, runs it as often as asked for, and compares the traces.
func (j *job) do(ctx context.Context) error {
	work, err := os.MkdirTemp("", "holdfast-exact-build-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if j.binary != "" {
		return j.build(ctx, work, j.binary)
	}
	if j.dir == "" {
		dir, err := os.MkdirTemp("", "holdfast-exact-")
		if err != nil {
			return err
		}
		j.dir = dir
	}
	binary := filepath.Join(work, "exact.test")
	if err := j.build(ctx, work, binary); err != nil {
		return err
	}
	first := ""
	var failed error
	for n := 1; n <= j.times; n++ {
		trace, err := j.once(ctx, binary, n)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("run %d: %w", n, err))
		}
		if trace == "" {
			return failed
		}
		if first == "" {
			first = trace
			fmt.Println("trace:", trace)
			continue
		}
		if err := compare(first, trace); err != nil {
			return errors.Join(failed, fmt.Errorf("seed %d is not replayed exactly: %w", j.seed, err))
		}
		if err := os.Remove(trace); err != nil {
			return err
		}
	}
	if j.times > 1 {
		lines, sum, err := digest(first)
		if err != nil {
			return err
		}
		fmt.Printf("seed %d: %d runs, %d lines each, all alike: sha256 %s\n", j.seed, j.times, lines, sum)
	}
	return failed
}

// build makes the overlay, in the directory work, and with it the binary of the test.
func (j *job) build(ctx context.Context, work, binary string) error {
	goroot, version, err := installed(ctx)
	if err != nil {
		return err
	}
	overlay, err := writeOverlay(goroot, version, filepath.Join(work, "overlay"))
	if err != nil {
		return err
	}
	args := []string{"test", "-c", "-tags", "simexact", "-overlay", overlay, "-o", binary}
	cgo := "CGO_ENABLED=0"
	if j.race {
		args, cgo = append(args, "-race"), "CGO_ENABLED=1"
	}
	cmd := exec.CommandContext(ctx, "go", append(args, j.pkg)...)
	cmd.Env = append(os.Environ(), cgo)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}

// installed tells where the standard library is and what version of Go it is of.
func installed(ctx context.Context) (goroot, version string, err error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOROOT", "GOVERSION").Output()
	if err != nil {
		return "", "", fmt.Errorf("go env: %w", err)
	}
	goroot, version, _ = strings.Cut(strings.TrimSpace(string(out)), "\n")
	return goroot, version, nil
}

// once runs the test in a process of its own and returns the name of the trace, "" if there is
// none.
func (j *job) once(ctx context.Context, binary string, n int) (string, error) {
	dir, err := filepath.Abs(filepath.Join(j.dir, fmt.Sprint("run-", n)))
	if err != nil {
		return "", err
	}
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	began := time.Now()
	cmd := exec.CommandContext(ctx, binary, "-test.run", j.test, "-test.v", "-test.timeout", "0")
	cmd.Dir = j.pkg
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1", "GOGC=off", "GODEBUG=gcstoptheworld=2", "HOLDFAST_REPEAT=0", "HOLDFAST_TRACE="+dir,
		"HOLDFAST_SEED="+strconv.FormatUint(j.seed, 10), "HOLDFAST_SEEDS=1", "HOLDFAST_MINUTES="+strconv.Itoa(j.minutes))
	out, err := cmd.CombinedOutput()
	if n == 1 || err != nil {
		fmt.Printf("%s", out)
	}
	fmt.Printf("run %d took %v\n", n, time.Since(began).Round(time.Millisecond))
	traces, globErr := filepath.Glob(filepath.Join(dir, "*.trace"))
	switch {
	case globErr != nil:
		return "", globErr
	case len(traces) != 1:
		return "", errors.Join(err, fmt.Errorf("%d traces in %s, want the one of a test that calls sim.Run once", len(traces), dir))
	}
	return traces[0], err
}
