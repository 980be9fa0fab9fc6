//go:build unix

package fencetest

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/fence"
)

// writerEnv makes the test binary a writer: dialect, driver, data source and journal with a |
// between.
const writerEnv = "HOLDFAST_FENCETEST_WRITER"

// writeForEver writes entries under the token that it reads from its input and prints a line for
// each that was committed.
func writeForEver() error {
	f := strings.Split(os.Getenv(writerEnv), "|")
	dialect, err := strconv.Atoi(f[0])
	if err != nil {
		return err
	}
	var token fence.Token
	if _, err := fmt.Scan((*uint64)(&token)); err != nil {
		return err
	}
	db, err := sql.Open(f[1], f[2])
	if err != nil {
		return err
	}
	ctx := context.Background()
	g, err := fence.NewSQL(db, fence.Dialect(dialect), f[3]+"_fence")
	if err != nil {
		return err
	}
	j := &journal{name: f[3]}
	for {
		err := g.Do(ctx, "journal", token, func(tx *sql.Tx) error { return j.entry(ctx, tx, token, 0) })
		if err != nil {
			return err
		}
		fmt.Println(token)
	}
}

// killWriter: what a killed writer was told is committed is there, nothing of it is half there, and
// the next writer need not wait for it.
func killWriter(t *testing.T, d database) {
	j := d.journal(t, "killed")
	committed := make(map[fence.Token]int)
	for token := fence.Token(1); token <= 6; token++ {
		cmd := osexec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d|%s|%s|killed", writerEnv, d.dialect, d.driver, d.dsn))
		cmd.Stdin, cmd.Stderr = strings.NewReader(token.String()), os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ {
			committed[token]++
			if n == int(token) {
				if err := cmd.Process.Kill(); err != nil {
					t.Error(err)
				}
			}
		}
		_ = cmd.Wait()
		if committed[token] == 0 {
			t.Errorf("the writer with token %v committed nothing: this run has shown little", token)
		}
	}
	tokens, _ := j.entries(t)
	there := make(map[fence.Token]int)
	for _, token := range tokens {
		there[token]++
	}
	for token, n := range committed {
		if there[token] < n || there[token] > n+1 { // one commit may not have been told any more
			t.Errorf("token %v: %d were committed, %d are there", token, n, there[token])
		}
	}
	wantStale(t, j.guard.Check(t.Context(), "journal", 5), "journal", 5, 6)
}

// killServer: marks and writes come back together, whenever the server is killed. It runs alone.
func killServer(t *testing.T, d database) {
	const writers, rounds = 8, 3
	j := d.journal(t, "crash")
	var next atomic.Uint64
	ids := make(map[fence.Token]string) // what each writer was told: written or refused
	for round := range rounds {
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		var wg sync.WaitGroup
		enough := make(chan struct{}, 1<<16)
		for range writers {
			wg.Go(func() {
				for ctx.Err() == nil {
					token := fence.Token(next.Add(1))
					err := j.guard.Do(ctx, "journal", token, func(tx *sql.Tx) error { return j.entry(ctx, tx, token, 0) })
					mu.Lock()
					switch {
					case err == nil:
						ids[token] = "written"
						enough <- struct{}{}
					case errors.Is(err, fence.ErrStale):
						ids[token] = "refused"
					}
					mu.Unlock()
					if err != nil && !errors.Is(err, fence.ErrStale) && !retryable(err) {
						return // the server has gone
					}
				}
			})
		}
		for range 20 + 10*round {
			select {
			case <-enough:
			case <-time.After(30 * time.Second):
				t.Fatal("the writers are stuck")
			}
		}
		d.server.Kill()
		cancel()
		wg.Wait()
		if err := d.server.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	tokens, _ := j.entries(t)
	there := make(map[fence.Token]bool)
	for _, token := range tokens {
		if there[token] {
			t.Errorf("token %v is there twice", token)
		}
		there[token] = true
	}
	for token, what := range ids {
		if there[token] != (what == "written") {
			t.Errorf("token %v: told %s, there: %t", token, what, there[token])
		}
	}
	mark, err := j.guard.Highest(t.Context(), "journal")
	if err != nil || mark != tokens[len(tokens)-1] {
		t.Errorf("mark %v (%v) after %v", mark, err, tokens[len(tokens)-1])
	}
}
