package processes_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/process/processtest"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

// lose takes a lock and has it taken away.
func lose(t *testing.T, c *holdfast.Cluster, name string) {
	t.Helper()
	l := testkit.Acquire(t, c, name)
	if err := c.ForceRelease(testkit.Within(t, 10*time.Second), name, l.Token(), "test"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-l.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("the holder was not told")
	}
}

func TestAHookThatNeverReturnsHoldsUpNothing(t *testing.T) {
	if !processtest.Parked(t) { // it leaves the hook's goroutine behind
		return
	}
	disk, never := newBrittle(), make(chan struct{})
	var calls atomic.Int64
	c, err := openOn(t, disk, holdfast.Config{Events: holdfast.Events{
		LeaseLost:      func(string, holdfast.Token, error) { calls.Add(1); <-never },
		RaftLeader:     func(string) { <-never },
		SessionExpired: func(string, time.Duration) { <-never },
		Failed:         func(error) { <-never },
		Granted:        func(string, holdfast.Token, time.Duration) { <-never },
		Ended:          func(string, holdfast.Token, time.Duration, error) { <-never },
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Ready(testkit.Within(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	for i := range 600 { // more than wait for a hook
		lose(t, c, fmt.Sprint(i))
	}
	testkit.Serves(t, testkit.Within(t, 10*time.Second), c)
	if n := c.Status().Metrics.HooksDropped; n < 600 {
		t.Errorf("%d events counted as dropped", n)
	}
	if n := calls.Load(); n > 1 {
		t.Errorf("%d calls of a hook at a time", n)
	}
	l := testkit.Acquire(t, c, "lost with the node")
	disk.rule(func(int, string, string) error { return syscall.EIO })
	_ = l.Set(testkit.Within(t, failsWithin), nil)
	sick(t, c, syscall.EIO, l) // in time, for all that nobody hears of it
}

func TestATokenFloorThatNeverReturnsHoldsUpNoCaller(t *testing.T) {
	if !processtest.Parked(t) {
		return
	}
	c, err := openOn(t, newBrittle(), holdfast.Config{
		TokenFloor: func(context.Context) (holdfast.Token, error) { select {} },
	})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if _, err := c.Acquire(testkit.Within(t, time.Second), "lock"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Acquire before the group is born: %v", err)
	}
	if took := time.Since(began); took > failsWithin {
		t.Errorf("Acquire took %v", took)
	}
	testkit.Closed(t, c)
}

func TestAFunctionUnderDoThatNeverReturnsHoldsUpNobodyElse(t *testing.T) {
	if !processtest.Parked(t) {
		return
	}
	c := testkit.Single(t)
	var ended sync.WaitGroup
	running := make(chan context.Context)
	ended.Go(func() {
		_ = c.Do(t.Context(), "exits", func(context.Context, *holdfast.Lease) error { runtime.Goexit(); return nil })
	})
	ended.Wait()
	testkit.Release(t, testkit.Acquire(t, c, "exits")) // Do has released it
	go func() {
		_ = c.Do(t.Context(), "hangs", func(ctx context.Context, _ *holdfast.Lease) error { running <- ctx; select {} })
	}()
	ctx := <-running
	testkit.Serves(t, testkit.Within(t, 10*time.Second), c)
	testkit.Closed(t, c)
	select {
	case <-ctx.Done():
		if !errors.Is(context.Cause(ctx), holdfast.ErrClosed) {
			t.Errorf("the function was told %v", context.Cause(ctx))
		}
	default:
		t.Error("the function was not told that its lease is over")
	}
}

// Dragonboat would read such files before main: the damaged one would end the process, and the
// other would refuse the directory and every command.
func TestFilesOfSettingsInTheWorkingDirectoryChangeNothing(t *testing.T) {
	const dataVar = "HOLDFAST_TEST_DATA"
	if processtest.Here(t) {
		var log bytes.Buffer
		c := testkit.Single(t, func(cfg *holdfast.Config) {
			cfg.DataDir, cfg.Logger = os.Getenv(dataVar), slog.New(slog.NewTextHandler(&log, nil))
		})
		testkit.Serves(t, testkit.Within(t, 10*time.Second), c)
		if info, err := c.Inspect(testkit.Within(t, 10*time.Second), "kept"); err != nil || string(info.Value) != "kept" {
			t.Errorf("in the directory there is %+v, %v", info, err)
		}
		testkit.Closed(t, c)
		if !strings.Contains(log.String(), "settings.json") {
			t.Errorf("nobody was told of the files: %s", log.String())
		}
		return
	}
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	c := testkit.Single(t, func(cfg *holdfast.Config) { cfg.DataDir = data })
	l := testkit.Acquire(t, c, "kept")
	if err := l.Set(testkit.Within(t, 10*time.Second), []byte("kept")); err != nil {
		t.Fatal(err)
	}
	testkit.Closed(t, c)
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
		cmd := processtest.Command(t, dataVar+"="+data)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("with %s and %s: %v\n%s", hard, soft, err, out)
		}
	}
}
