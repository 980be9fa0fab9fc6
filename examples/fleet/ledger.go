//go:build unix

package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/holdfast-go/holdfast/examples/fleet/scheduler"
	"github.com/holdfast-go/holdfast/fence"
)

// ledger is the protected resource: a file that all processes append to. Each write presents the
// fencing token of its writer, and a token lower than the highest seen is refused. Check and write are
// one step of the guard, so that no other write comes between them.
type ledger struct {
	file  *os.File
	guard *fence.File
}

func openLedger(dir string) (*ledger, error) {
	guard, err := fence.OpenFile(filepath.Join(dir, "ticks.mark"))
	if err != nil {
		return nil, err
	}
	file, err := os.OpenFile(ledgerPath(dir), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		guard.Close()
		return nil, err
	}
	return &ledger{file: file, guard: guard}, nil
}

func ledgerPath(dir string) string { return filepath.Join(dir, "ticks") }

// Append writes t as a line unless its token is stale. It waits for the writes of others until ctx
// ends.
func (l *ledger) Append(ctx context.Context, t scheduler.Tick) error {
	return l.guard.Do(ctx, "ticks", t.Token, func() error {
		_, err := fmt.Fprintf(l.file, "%d %s %d\n", t.Token, t.Node, t.N)
		return err
	})
}

func (l *ledger) close() {
	l.file.Close()
	l.guard.Close()
}

// readLedger returns all ticks in the order in which they were written.
func readLedger(dir string) ([]scheduler.Tick, error) {
	f, err := os.Open(ledgerPath(dir))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []scheduler.Tick
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var t scheduler.Tick
		if _, err := fmt.Sscan(lines.Text(), (*uint64)(&t.Token), &t.Node, &t.N); err != nil {
			return nil, fmt.Errorf("line %d of the ledger: %w", len(all)+1, err)
		}
		all = append(all, t)
	}
	return all, lines.Err()
}
