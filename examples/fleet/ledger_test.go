//go:build unix

package main

import (
	"context"
	"errors"
	"io"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/examples/fleet/scheduler"
	"github.com/holdfast-go/holdfast/fence"
)

// A process that was stopped in its write kept the file locked, and Append of the others waited for it
// beyond the end of their context, which is that of their lease. Here the file is a pipe that is full.
func TestAppendEndsWithItsContextThoughAnotherProcessHangsInItsWrite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := syscall.Mkfifo(ledgerPath(dir), 0o600); err != nil {
		t.Fatal(err)
	}
	pipe, err := os.OpenFile(ledgerPath(dir), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	hangs, other := ledgerOf(t, dir), ledgerOf(t, dir)
	if err := hangs.guard.Check(t.Context(), "ticks", 2); err != nil {
		t.Fatal(err)
	}
	if err := hangs.file.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Skip(err) // this system does not wait for a pipe in the poller
	}
	if _, err := io.Copy(hangs.file, endless{}); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	if err := hangs.file.SetWriteDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	wrote, ended := make(chan error, 1), make(chan error, 1)
	go func() { wrote <- hangs.Append(t.Context(), scheduler.Tick{Token: 2, Node: "amber", N: 1}) }()
	go func() {
		err := error(fence.ErrStale)
		for errors.Is(err, fence.ErrStale) { // the other process is not in its write yet
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			err = other.Append(ctx, scheduler.Tick{Token: 1, Node: "birch", N: 1})
			cancel()
		}
		ended <- err
	}()
	select {
	case err := <-ended:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("Append did not end with its context")
	}
	go func() { _, _ = io.Copy(io.Discard, pipe) }()
	if err := <-wrote; err != nil {
		t.Error(err)
	}
	_ = pipe.Close()
}

// endless is read forever.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func ledgerOf(t *testing.T, dir string) *ledger {
	t.Helper()
	l, err := openLedger(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.close)
	return l
}
