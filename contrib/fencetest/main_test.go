//go:build unix

package fencetest

import (
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"testing"

	"github.com/go-sql-driver/mysql"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/contrib/fencetest/servers"
)

// TestMain makes the test binary a writer, which the tests kill, if its environment says so.
func TestMain(m *testing.M) {
	if os.Getenv(writerEnv) != "" {
		fmt.Fprintln(os.Stderr, writeForEver())
		os.Exit(1)
	}
	if err := mysql.SetLogger(log.New(io.Discard, "", 0)); err != nil { // it tells of every server that was killed
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// running takes what a start of servers answered: it skips the test where the server is not
// installed.
func running(t *testing.T, s *servers.Server, err error) *servers.Server {
	t.Helper()
	if errors.Is(err, servers.ErrNotInstalled) {
		t.Skipf("skipped: %v on this machine", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}
