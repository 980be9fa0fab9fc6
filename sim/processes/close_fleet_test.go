package processes_test

import (
	"bytes"
	"errors"
	"log"
	"log/slog"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/process/processtest"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

func TestANodeOfAFleetLeavesNothingBehindWhicheverIsClosed(t *testing.T) {
	if !processtest.Alone(t) {
		return
	}
	warm(t)
	leavesNothing(t, "a fleet", func() {
		for range 2 { // the raft leader goes first, then it goes last
			list := testkit.Fleet(t, 3)
			held := testkit.Acquire(t, list[1], "held", holdfast.WithTTL(time.Hour))
			leader := list[0].Status().RaftLeader
			slices.SortFunc(list, func(a, b *holdfast.Cluster) int {
				switch leader {
				case a.ID():
					return -1
				case b.ID():
					return 1
				}
				return 0
			})
			if held.Token()%2 == 0 {
				slices.Reverse(list)
			}
			var all sync.WaitGroup
			for _, c := range list { // the last two are without a quorum
				all.Go(func() {
					if _, err := c.Acquire(t.Context(), "held"); !errors.Is(err, holdfast.ErrClosed) && err != nil {
						t.Errorf("a waiter was told %v", err)
					}
				})
				testkit.Closed(t, c)
			}
			all.Wait()
		}
	})
}

func TestTheStandardLoggerStaysAsTheHostHasSetIt(t *testing.T) {
	if !processtest.Alone(t) {
		return
	}
	// At the start of the program nothing has changed it, although an import tried.
	if log.Flags() != log.LstdFlags || log.Prefix() != "" || log.Writer() != os.Stderr {
		t.Errorf("after the import: flags %d, prefix %q, writer %T", log.Flags(), log.Prefix(), log.Writer())
	}
	var out bytes.Buffer
	log.SetFlags(log.Lmsgprefix)
	log.SetPrefix("host: ")
	log.SetOutput(&out)
	standard := slog.Default()
	list := testkit.Fleet(t, 3)
	for _, c := range list {
		testkit.Serves(t, testkit.Within(t, 20*time.Second), c)
	}
	for _, c := range list {
		testkit.Closed(t, c)
	}
	if c, err := holdfast.Open(t.Context(), holdfast.Config{Bind: "203.0.113.1:1", Bootstrap: 1, Insecure: true, Logger: testkit.Quiet()}); err == nil {
		testkit.Closed(t, c)
	}
	if log.Flags() != log.Lmsgprefix || log.Prefix() != "host: " || log.Writer() != &out || slog.Default() != standard {
		t.Errorf("after Open: flags %d, prefix %q, writer %T", log.Flags(), log.Prefix(), log.Writer())
	}
	log.Print("it works")
	if out.String() != "host: it works\n" {
		t.Errorf("the standard logger got %q", out.String())
	}
}
