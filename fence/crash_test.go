//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package fence

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"go.uber.org/goleak"
)

// writerEnv makes the test binary a writer: it raises the mark of the named file for ever and
// prints each token that was admitted.
const writerEnv = "HOLDFAST_FENCE_WRITER"

func TestMain(m *testing.M) {
	if path := os.Getenv(writerEnv); path != "" {
		fmt.Fprintln(os.Stderr, write4ever(path))
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

func write4ever(path string) error {
	f, err := OpenFile(path)
	if err != nil {
		return err
	}
	for token := Token(1); ; {
		err := f.CheckOnce(context.Background(), "r", token)
		var stale *StaleError
		switch {
		case err == nil:
			fmt.Println(token)
			token++
		case errors.As(err, &stale):
			token = stale.Highest + 1
		default:
			return err
		}
	}
}

type writer struct {
	cmd *exec.Cmd
	out *bufio.Scanner
}

func startWriter(t *testing.T, path string) *writer {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), writerEnv+"="+path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return &writer{cmd, bufio.NewScanner(out)}
}

// admitted reads up to n tokens and adds them to seen; at the end of the output it stops.
func (w *writer) admitted(t *testing.T, n int, seen map[Token]bool) (highest Token) {
	t.Helper()
	for ; n > 0 && w.out.Scan(); n-- {
		number, err := strconv.ParseUint(w.out.Text(), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if seen[Token(number)] {
			t.Errorf("token %d was admitted twice", number)
		}
		seen[Token(number)] = true
		highest = max(highest, Token(number))
	}
	return highest
}

// Two processes write, one of them dies by SIGKILL somewhere in the middle, again and again.
// Whatever either was told is admitted must be the mark, and no token may be admitted twice.
func TestMarksNeverFallWhenWritersAreKilled(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "marks")
	seen := make(map[Token]bool)
	var highest Token
	survivor := startWriter(t, path)
	for round := range 12 {
		victim := startWriter(t, path)
		highest = max(highest, victim.admitted(t, 5+7*round, seen))
		if err := victim.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		highest = max(highest, victim.admitted(t, 1<<30, seen), survivor.admitted(t, 5, seen))
		_ = victim.cmd.Wait()
		f := openFile(t, path)
		var stale *StaleError
		err := f.CheckOnce(t.Context(), "r", highest)
		if !errors.As(err, &stale) || stale.Highest < highest {
			t.Fatalf("round %d: token %v was admitted, and again afterwards: %v", round, highest, err)
		}
	}
	if err := survivor.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	survivor.admitted(t, 1<<30, seen)
	_ = survivor.cmd.Wait()
	if len(seen) < 100 {
		t.Errorf("only %d tokens were admitted: this run has shown little", len(seen))
	}
}
