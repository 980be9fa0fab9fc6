package sim

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The environment of a test. Options say more.
const (
	SeedVar   = "HOLDFAST_SEED"    // the seed of Run where Options.Seed is 0, and the first one of Seeds
	SeedsVar  = "HOLDFAST_SEEDS"   // how many seeds Seeds runs
	DirVar    = "HOLDFAST_SIM_DIR" // Options.Dir
	RepeatVar = "HOLDFAST_REPEAT"  // Options.Repeat; 0: a failing run is not repeated

	repeatedVar = "HOLDFAST_REPEATED" // in the process of a repeated run
)

const (
	repeatDefault = 5
	repeatLimit   = 5 * time.Minute // real time for all repetitions of one failing run
)

// Seeds runs f as a parallel subtest for each of n seeds that follow each other. The first is a new
// one each time, unless HOLDFAST_SEED names it, which runs that one alone; HOLDFAST_SEEDS is
// another n. The seed is in the name of the subtest, and goes to Options.Seed.
func Seeds(t *testing.T, n int, f func(t *testing.T, seed uint64)) {
	t.Helper()
	first := uint64(time.Now().UnixNano() % 1e9)
	if s, ok := number(t, SeedVar); ok {
		first, n = s, 1
	}
	if s, ok := number(t, SeedsVar); ok {
		n = int(s)
	}
	for seed := first; seed < first+uint64(n); seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			f(t, seed)
		})
	}
}

func number(t *testing.T, name string) (uint64, bool) {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n, true
}

func (o Options) withDefaults(t *testing.T) Options {
	t.Helper()
	if o.Nodes == 0 {
		o.Nodes = 1
	}
	if o.Seed == 0 {
		o.Seed = 1
		if s, ok := number(t, SeedVar); ok {
			o.Seed = s
		}
	}
	if o.Dir == "" {
		o.Dir = os.Getenv(DirVar)
	}
	if o.Dir == "" {
		o.Dir = filepath.Join(os.TempDir(), "holdfast-sim")
	}
	if o.Repeat == 0 {
		o.Repeat = repeatDefault
		if n, ok := number(t, RepeatVar); ok {
			o.Repeat = int(n)
		}
	}
	return o
}

func (h *history) told(t *testing.T, opts Options) {
	if os.Getenv(repeatedVar) != "" {
		return
	}
	dir, err := h.store(opts.Dir, t.Name(), opts)
	if err != nil {
		t.Logf("seed %d: the run could not be stored: %v", opts.Seed, err)
	} else {
		t.Logf("seed %d: schedule, history and logs are in %s", opts.Seed, dir)
	}
	if opts.Repeat < 1 {
		return
	}
	until := time.Now().Add(repeatLimit)
	if deadline, ok := t.Deadline(); ok && deadline.Before(until.Add(time.Minute)) {
		until = deadline.Add(-time.Minute)
	}
	runs, failed := repeat(t, opts, until)
	t.Logf("seed %d: of %d further runs %d failed", opts.Seed, runs, failed)
}

func repeat(t *testing.T, opts Options, until time.Time) (runs, failed int) {
	for runs < opts.Repeat {
		left := time.Until(until)
		if left <= 0 {
			break
		}
		cmd := exec.Command(os.Args[0], "-test.run", pattern(t.Name()), "-test.timeout", left.String())
		cmd.Env = append(os.Environ(), repeatedVar+"=1", SeedVar+"="+strconv.FormatUint(opts.Seed, 10), SeedsVar+"=1")
		err := cmd.Run()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Logf("repeating the run: %v", err)
			break
		}
		runs++
		if err != nil {
			failed++
		}
	}
	return runs, failed
}

// pattern is what -run needs to run one test and no other.
func pattern(test string) string {
	parts := strings.Split(test, "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	return strings.Join(parts, "/")
}
