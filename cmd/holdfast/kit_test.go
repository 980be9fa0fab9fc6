package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/process"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

const (
	patience = time.Minute
	secret   = "a secret of more than sixteen bytes" // with blanks, which a list by commas leaves
)

// fleet is real nodes in this process, and what a command needs to join them.
type fleet struct {
	nodes []*holdfast.Cluster
	env   []string
}

func newFleet(t *testing.T, n int, change ...func(i int, cfg *holdfast.Config)) *fleet {
	t.Helper()
	change = append(change, func(_ int, cfg *holdfast.Config) { cfg.Cluster, cfg.Secrets = "cli", []string{secret} })
	f := &fleet{nodes: testkit.Fleet(t, n, change...)}
	f.env = []string{"HOLDFAST_JOIN=" + f.nodes[0].Addr(), "HOLDFAST_SECRETS=" + secret, "HOLDFAST_CLUSTER=cli"}
	return f
}

// result is how a command has ended.
type result struct {
	code     int
	out, err string
}

// run runs the command to its end.
func (f *fleet) run(t *testing.T, args ...string) result {
	t.Helper()
	cmd := f.command(args...)
	var out, err bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &err
	ended := cmd.Run()
	var code *exec.ExitError
	if ended != nil && !errors.As(ended, &code) {
		t.Fatal(ended)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), err.String()}
}

func (f *fleet) command(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Getenv(programVar), args...)
	cmd.Env = append(os.Environ(), f.env...)
	return cmd
}

// ok runs a command that succeeds, and returns its output.
func (f *fleet) ok(t *testing.T, args ...string) string {
	t.Helper()
	r := f.run(t, args...)
	if r.code != 0 {
		t.Fatalf("%v: code %d: %s", args, r.code, r.err)
	}
	return r.out
}

// refused runs a command that fails with a code and says something of it.
func (f *fleet) refused(t *testing.T, code int, says string, args ...string) {
	t.Helper()
	r := f.run(t, args...)
	if r.code != code || !strings.Contains(r.err, says) || r.out != "" {
		t.Errorf("%v: code %d: %s%s; want %d, %q", args, r.code, r.out, r.err, code, says)
	}
}

// decode runs a command that prints JSON.
func decode[T any](t *testing.T, f *fleet, args ...string) (v T) {
	t.Helper()
	out := f.ok(t, append(args, "-o", "json")...)
	unmarshal(t, out, &v)
	return v
}

func unmarshal(t *testing.T, text string, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
}

// running is a command under way.
type running struct {
	*process.Process
	lines chan string // of its output, closed when all that have it are gone
	said  chan string // lines of standard error
	err   *transcript // all of them
}

// transcript is what was said, also while more is.
type transcript struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *transcript) add(line []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text.Write(line)
	s.text.WriteByte('\n')
}

func (s *transcript) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func (f *fleet) start(t *testing.T, args ...string) *running {
	t.Helper()
	r := &running{lines: make(chan string, 100), said: make(chan string, 100), err: &transcript{}}
	cmd := f.command(args...)
	cmd.Stdout = process.Lines(func(line []byte) { r.lines <- string(line) })
	cmd.Stderr = process.Lines(func(line []byte) {
		r.err.add(line)
		select {
		case r.said <- string(line):
		default: // nobody looks
		}
	})
	cmd.WaitDelay = patience
	var err error
	if r.Process, err = process.Start(cmd); err != nil {
		t.Fatal(err)
	}
	go func() { <-r.Done(); close(r.lines) }()
	t.Cleanup(func() { r.Kill() })
	return r
}

// line is the next line of the output.
func (r *running) line(t *testing.T) string {
	t.Helper()
	select {
	case line, ok := <-r.lines:
		if !ok {
			t.Fatalf("it has ended: %v: %s", r.Err(), r.err)
		}
		return line
	case <-time.After(patience):
		t.Fatal("it says nothing")
		return ""
	}
}

// code waits for the end.
func (r *running) code(t *testing.T) int {
	t.Helper()
	select {
	case <-r.Done():
	case <-time.After(patience):
		t.Fatal("it does not end")
	}
	var code *exec.ExitError
	if err := r.Err(); err != nil && !errors.As(err, &code) {
		t.Fatalf("it ended with %v: %s", err, r.err)
	} else if err == nil {
		return 0
	}
	return code.ExitCode()
}

func (r *running) send(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := r.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// hold acquires a lock on a node of the fleet.
func (f *fleet) hold(t *testing.T, name string, opts ...holdfast.Option) *holdfast.Lease {
	t.Helper()
	l, err := f.nodes[0].Acquire(testkit.Within(t, patience), name, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// holder is the only holder of a lock.
func (f *fleet) holder(t *testing.T, name string) holdfast.Holder {
	t.Helper()
	info, err := f.nodes[0].Inspect(testkit.Within(t, patience), name)
	if err != nil || len(info.Holders) != 1 {
		t.Fatalf("%s has the holders %+v, %v", name, info.Holders, err)
	}
	return info.Holders[0]
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
