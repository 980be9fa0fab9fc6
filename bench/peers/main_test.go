package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/process"
)

// aloneVar makes the test binary measure one system, by name, until it is interrupted.
const aloneVar = "HOLDFAST_PEERS_ALONE"

func TestMain(m *testing.M) {
	if text := os.Getenv(workerVar); text != "" {
		os.Exit(beWorker(text))
	}
	if name := os.Getenv(aloneVar); name != "" {
		os.Exit(alone(name, os.Args[1]))
	}
	os.Exit(m.Run())
}

// alone is main for one system.
func alone(name, dir string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c := one(name)
	err := c.obtain(ctx, &store{dir: dir, tell: tellNobody})
	if err == nil {
		s := thorough()
		s.rest = time.Minute
		_, err = try(ctx, s, c, dir, func(format string, args ...any) { fmt.Printf(format+"\n", args...) })
	}
	fmt.Fprintln(os.Stderr, "interrupted:", err)
	return 0
}

func one(name string) contestant {
	all := contestants()
	return all[slices.IndexFunc(all, func(c contestant) bool { return c.name == name })]
}

func tellNobody(string, ...any) {}

// available skips the test of a system whose programs are not on this machine.
func available(t *testing.T, c contestant) {
	t.Helper()
	if err := c.obtain(t.Context(), &store{cache: t.TempDir(), dir: t.TempDir(), tell: tellNobody}); err != nil {
		t.Skip(err)
	}
}

func TestAnInterruptLeavesNoProcessAndNoFile(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"holdfast", "hashiraft", "redis", "redlock", "postgres"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			available(t, one(name))
			if _, err := measureUsage(nil); err != nil {
				t.Skip("processes are counted in /proc alone:", err)
			}
			dir := t.TempDir()
			for _, way := range []string{dir, filepath.Dir(dir)} {
				if err := os.Chmod(way, 0o755); err != nil { // a server may run as another user
					t.Fatal(err)
				}
			}
			lines := make(chan string, 100)
			cmd := process.Self(dir)
			cmd.Env = append(cmd.Env, aloneVar+"="+name)
			cmd.Stdout, cmd.Stderr = process.Lines(func(line []byte) { lines <- string(line) }), t.Output()
			p, err := process.Start(cmd)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Kill()
			hear(t, p, lines, "at rest")
			below := descendants(t, p.PID())
			if len(below) < 2 {
				t.Errorf("only %d processes were started", len(below))
			}
			if err := p.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			select {
			case <-p.Done():
			case <-time.After(30 * time.Second):
				t.Fatal("it goes on after an interrupt")
			}
			for pid, what := range below {
				text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
				if err == nil && !isZombie(string(text)) {
					t.Errorf("%d lives on: %s", pid, what)
				}
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("%d files are left, %v", len(left), err)
			}
		})
	}
}

// hear waits for a line that begins with some words.
func hear(t *testing.T, p *process.Process, lines <-chan string, words string) {
	t.Helper()
	limit := time.After(time.Minute)
	for {
		select {
		case line := <-lines:
			if strings.HasPrefix(line, words) {
				return
			}
		case <-p.Done():
			t.Fatal("it has ended:", p.Err())
		case <-limit:
			t.Fatalf("it does not say %q", words)
		}
	}
}

// descendants are the processes that a process has started, with their command lines.
func descendants(t *testing.T, root int) map[int]string {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	children := make(map[int][]int)
	for _, name := range stats {
		if text, err := os.ReadFile(name); err == nil {
			if pid, parent, _, ok := parseStat(string(text)); ok {
				children[parent] = append(children[parent], pid)
			}
		}
	}
	found := make(map[int]string)
	for todo := children[root]; len(todo) > 0; todo = todo[1:] {
		pid := todo[0]
		line, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline") // it may have ended
		found[pid] = strings.ReplaceAll(string(line), "\x00", " ")
		todo = append(todo, children[pid]...)
	}
	return found
}

// isZombie reports whether a process has ended and nobody has asked how: its parent died first.
func isZombie(stat string) bool { return strings.Contains(stat, ") Z ") }

func TestAShortRunOfHoldfastHasEveryFigure(t *testing.T) {
	t.Parallel()
	if _, err := measureUsage(nil); err != nil {
		t.Skip("processor time and memory need /proc:", err)
	}
	const short = 100 * time.Millisecond
	brief := settings{warm: short / 5, span: short, rest: short, gapAhead: short, gapSpan: time.Second}
	r, err := try(t.Context(), brief, one("holdfast"), t.TempDir(), tellNobody)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range groups() {
		for _, m := range g.metrics {
			if v, ok := r.Figures[m.key]; !ok || v < 0 || v == 0 && m.key != keyRestCPU {
				t.Errorf("%s: %v, %v", m.key, v, ok)
			}
		}
	}
	if r.Failed > 0 {
		t.Errorf("%d pairs failed: %s", r.Failed, r.Error)
	}
}

func TestWhatCannotBeRunIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-only", "consul"}, {"-rounds", "many"}, {"etcd"}} {
		var out, progress bytes.Buffer
		if err := command(t.Context(), args, &out, &progress); err == nil || out.Len() > 0 {
			t.Errorf("%v: %v, and printed %q", args, err, out.String())
		}
	}
}

func TestTheBaselineAlwaysRuns(t *testing.T) {
	t.Parallel()
	for only, want := range map[string][]string{
		"etcd, redis": {"holdfast", "etcd", "redis"}, "holdfast": {"holdfast"}, "": names(contestants()),
	} {
		got, err := choose(contestants(), only)
		if err != nil || !slices.Equal(names(got), want) {
			t.Errorf("%q chooses %v, %v", only, names(got), err)
		}
	}
}

func TestASystemThatIsNotThereIsLeftOutInOneLine(t *testing.T) {
	t.Parallel()
	var progress bytes.Buffer
	b := &bench{dir: t.TempDir(), deadline: time.Now().Add(time.Minute), progress: &progress}
	b.store = &store{cache: t.TempDir(), dir: b.dir, tell: b.say}
	absent := contestant{"etcd", "etcd ×3, Mutex", "client", &etcdSystem{}}
	if err := b.obtain(t.Context(), []contestant{one("holdfast"), absent}); err != nil {
		t.Fatal(err)
	}
	if got := names(b.report.systems); !slices.Equal(got, []string{"holdfast"}) || len(b.report.Absent) != 1 {
		t.Errorf("%v run, %v are left out", got, b.report.Absent)
	}
	var text strings.Builder
	if err := b.report.markdown(&text); err != nil || strings.Count(text.String(), "Left out: etcd ×3, Mutex") != 1 {
		t.Errorf("%v\n%s", err, text.String())
	}
}
