package holdfast_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// lose takes a lock and has it taken away.
func lose(t *testing.T, c *holdfast.Cluster, name string) {
	t.Helper()
	l := acquire(t, c, name)
	if err := c.ForceRelease(within(t, 10*time.Second), name, l.Token(), "test"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-l.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("the holder was not told")
	}
}

func TestAHookThatPanicsIsCalledAgainForTheNextEvent(t *testing.T) {
	t.Parallel()
	told := make(chan string, 10)
	c := single(t, func(cfg *holdfast.Config) {
		cfg.Logger = quiet()
		cfg.Events = holdfast.Events{
			LeaseLost:  func(name string, _ holdfast.Token, _ error) { told <- name; panic("user's") },
			RaftLeader: func(string) { panic("user's") },
		}
	})
	for _, name := range []string{"first", "second"} {
		lose(t, c, name)
		if got := <-told; got != name {
			t.Errorf("told of %s, want %s", got, name)
		}
	}
	serves(t, within(t, 10*time.Second), c)
}

func TestAHookThatNeverReturnsHoldsUpNothing(t *testing.T) {
	if !aside(t) { // it leaves the hook's goroutine behind
		return
	}
	disk, never := newBrittle(), make(chan struct{})
	var calls atomic.Int64
	c, err := openOn(t, disk, holdfast.Config{Events: holdfast.Events{
		LeaseLost:      func(string, holdfast.Token, error) { calls.Add(1); <-never },
		RaftLeader:     func(string) { <-never },
		SessionExpired: func(string, time.Duration) { <-never },
		Failed:         func(error) { <-never },
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Ready(within(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	for i := range 600 { // more than wait for a hook
		lose(t, c, fmt.Sprint(i))
	}
	serves(t, within(t, 10*time.Second), c)
	if n := calls.Load(); n > 1 {
		t.Errorf("%d calls of a hook at a time", n)
	}
	l := acquire(t, c, "lost with the node")
	disk.rule(func(int, string, string) error { return syscall.EIO })
	_ = l.Set(within(t, failsWithin), nil)
	sick(t, c, syscall.EIO, l) // in time, for all that nobody hears of it
}

// upset is a handler of log lines that panics.
type upset struct{ lines *atomic.Int64 }

func (h upset) Enabled(context.Context, slog.Level) bool  { return true }
func (h upset) Handle(context.Context, slog.Record) error { h.lines.Add(1); panic("user's") }
func (h upset) WithAttrs([]slog.Attr) slog.Handler        { return h }
func (h upset) WithGroup(string) slog.Handler             { panic("user's") }

func TestALogHandlerThatPanicsCostsItsLineAlone(t *testing.T) {
	t.Parallel()
	var lines atomic.Int64
	c := single(t, func(cfg *holdfast.Config) { cfg.Logger = slog.New(upset{&lines}) })
	serves(t, within(t, 10*time.Second), c)
	if lines.Load() == 0 {
		t.Error("the handler was not called")
	}
}

func TestAFunctionOfTLSThatPanicsCostsItsConnectionAlone(t *testing.T) {
	t.Parallel()
	good := authority(t)
	bad := good.Clone()
	var calls atomic.Int64
	bad.VerifyConnection = func(tls.ConnectionState) error { calls.Add(1); panic("user's") }
	with := func(c *tls.Config, join ...string) func(*holdfast.Config) {
		return func(cfg *holdfast.Config) { cfg.TLS, cfg.Join, cfg.Logger, cfg.Bootstrap = c, join, quiet(), 1 }
	}
	victim, healthy := single(t, with(bad)), single(t, with(good))
	called := func(config *tls.Config, by string) { // accepting, and dialing
		c, err := holdfast.Open(t.Context(), holdfast.Config{TLS: config, Join: []string{by}, Bootstrap: -1, Logger: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		before := calls.Load()
		polled(t, "meet the function", func() bool { return calls.Load() > before })
	}
	called(good, victim.Addr())
	called(bad, healthy.Addr())
	serves(t, within(t, 10*time.Second), victim)
	serves(t, within(t, 10*time.Second), healthy)
}

func TestATokenFloorThatPanicsIsAskedAgain(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	c := single(t, func(cfg *holdfast.Config) {
		cfg.Logger = quiet()
		cfg.TokenFloor = func(context.Context) (holdfast.Token, error) {
			if calls.Add(1) == 1 {
				panic("user's")
			}
			return 1 << 51, nil
		}
	})
	if l := acquire(t, c, "lock"); l.Token() <= 1<<51 {
		t.Errorf("token %d is not above the floor", l.Token())
	}
}

func TestATokenFloorThatNeverReturnsHoldsUpNoCaller(t *testing.T) {
	if !aside(t) {
		return
	}
	c, err := openOn(t, newBrittle(), holdfast.Config{
		TokenFloor: func(context.Context) (holdfast.Token, error) { select {} },
	})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if _, err := c.Acquire(within(t, time.Second), "lock"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Acquire before the group is born: %v", err)
	}
	if took := time.Since(began); took > failsWithin {
		t.Errorf("Acquire took %v", took)
	}
	closed(t, c)
}

func TestAFunctionUnderDoThatNeverReturnsHoldsUpNobodyElse(t *testing.T) {
	if !aside(t) {
		return
	}
	c := single(t)
	var ended sync.WaitGroup
	running := make(chan context.Context)
	ended.Go(func() {
		_ = c.Do(t.Context(), "exits", func(context.Context, *holdfast.Lease) error { runtime.Goexit(); return nil })
	})
	ended.Wait()
	release(t, acquire(t, c, "exits")) // Do has released it
	go func() {
		_ = c.Do(t.Context(), "hangs", func(ctx context.Context, _ *holdfast.Lease) error { running <- ctx; select {} })
	}()
	ctx := <-running
	serves(t, within(t, 10*time.Second), c)
	closed(t, c)
	select {
	case <-ctx.Done():
		if !errors.Is(context.Cause(ctx), holdfast.ErrClosed) {
			t.Errorf("the function was told %v", context.Cause(ctx))
		}
	default:
		t.Error("the function was not told that its lease is over")
	}
}

// Dragonboat would read such files before main: the damaged one would end the process, and the other would
// refuse the directory and every command.
func TestFilesOfSettingsInTheWorkingDirectoryChangeNothing(t *testing.T) {
	const dataVar = "HOLDFAST_TEST_DATA"
	if os.Getenv(aloneVar) == t.Name() {
		var log bytes.Buffer
		c := single(t, func(cfg *holdfast.Config) {
			cfg.DataDir, cfg.Logger = os.Getenv(dataVar), slog.New(slog.NewTextHandler(&log, nil))
		})
		serves(t, within(t, 10*time.Second), c)
		if info, err := c.Inspect(within(t, 10*time.Second), "kept"); err != nil || string(info.Value) != "kept" {
			t.Errorf("in the directory there is %+v, %v", info, err)
		}
		closed(t, c)
		if !strings.Contains(log.String(), "settings.json") {
			t.Errorf("nobody was told of the files: %s", log.String())
		}
		return
	}
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	c := single(t, func(cfg *holdfast.Config) { cfg.DataDir = data })
	l := acquire(t, c, "kept")
	if err := l.Set(within(t, 10*time.Second), []byte("kept")); err != nil {
		t.Fatal(err)
	}
	closed(t, c)
	for hard, soft := range map[string]string{
		`{"StepEngineWorkerCount": `:                          `nonsense`,
		`{"LRUMaxSessionCount": 7, "LogDBEntryBatchSize": 3}`: `{"MaxEntrySize": 16, "IncomingProposalQueueLength": 0}`,
	} {
		dir := t.TempDir()
		for name, content := range map[string]string{"hard": hard, "soft": soft} {
			if err := os.WriteFile(filepath.Join(dir, "dragonboat-"+name+"-settings.json"), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Dir, cmd.Env = dir, append(os.Environ(), aloneVar+"="+t.Name(), dataVar+"="+data)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("with %s and %s: %v\n%s", hard, soft, err, out)
		}
	}
}
