package contract_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// ahead closes the first node, has the others grant more, and closes them. used is told before the
// last one is closed.
func ahead(t *testing.T, list []*holdfast.Cluster, used func()) (highest holdfast.Token) {
	t.Helper()
	closed(t, list[0])
	for range 5 {
		l := acquire(t, list[1], "ahead")
		highest = l.Token()
		release(t, l)
	}
	closed(t, list[1])
	used()
	closed(t, list[2])
	return highest
}

// offline recovers without a look for the former group.
func offline(t *testing.T, dirs ...string) (holdfast.RecoverReport, error) {
	t.Helper()
	return holdfast.Recover(within(t, time.Minute), holdfast.RecoverConfig{DataDirs: dirs, Unseen: true, AllStopped: true, Logger: quiet()})
}

// Of several directories the furthest goes on, and the others stay as they are. One that is in use or
// damaged is named, and nothing is recovered without it unless the operator says so.
func TestOfSeveralDirectoriesTheFurthestIsRecovered(t *testing.T) {
	t.Parallel()
	dirs, _, list := lostMajority(t)
	highest := ahead(t, list, func() {
		if _, err := offline(t, dirs...); !errors.Is(err, holdfast.ErrDirInUse) || !strings.Contains(err.Error(), dirs[2]) {
			t.Errorf("one in use: %v", err)
		}
	})
	before, err := os.ReadFile(filepath.Join(dirs[0], "identity.json"))
	if err != nil {
		t.Fatal(err)
	}
	damage(t, dirs[2])
	if _, err := offline(t, dirs...); !errors.Is(err, holdfast.ErrDamaged) || !strings.Contains(err.Error(), dirs[2]) ||
		!strings.Contains(err.Error(), "another node") {
		t.Errorf("one damaged: %v", err)
	}
	report, err := offline(t, dirs[0], dirs[1])
	if err != nil {
		t.Fatal(err)
	}
	if report.DataDir != dirs[1] || !report.Complete || report.Token < highest {
		t.Errorf("%+v, highest %d", report, highest)
	}
	if after, err := os.ReadFile(filepath.Join(dirs[0], "identity.json")); err != nil || !slices.Equal(before, after) {
		t.Errorf("the other directory is another: %v", err)
	}
}

// damage cuts the log of a closed node short.
func damage(t *testing.T, dir string) {
	t.Helper()
	cut := 0
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".log" {
			return err
		}
		cut++
		return os.Truncate(path, 0)
	})
	if err != nil || cut == 0 {
		t.Fatalf("%d files cut: %v", cut, err)
	}
}

// Two operators recover one group at once, each from a directory of his own, of which one is newer.
// The two groups refuse each other. From the newer copy the group can be recovered later, with tokens
// above those of the group that began with the older one.
func TestTwoRecoveriesOfOneGroupAreTwoGroupsThatRefuseEachOther(t *testing.T) {
	t.Parallel()
	dirs, _, list := lostMajority(t)
	highest := ahead(t, list, func() {})
	var reports [2]holdfast.RecoverReport
	var both sync.WaitGroup
	for i := range reports {
		both.Go(func() {
			var err error
			if reports[i], err = offline(t, dirs[i]); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	if older, newer := reports[0], reports[1]; older.ClusterID == newer.ClusterID || older.Commands >= newer.Commands || older.OldClusterID != newer.OldClusterID {
		t.Fatalf("%+v and %+v", older, newer)
	}
	first := openIn(t, dirs[0])
	second := openIn(t, dirs[1], first.Addr())
	polled(t, "that the two refuse each other", func() bool { return foreign(first, second) })
	allReady(t, []*holdfast.Cluster{first, second})
	last := acquire(t, first, "lock").Token()
	if token := acquire(t, second, "lock").Token(); token <= highest || last <= highest {
		t.Errorf("tokens %d and %d after %d", last, token, highest)
	}
	report, err := offline(t, dirs[2])
	if err != nil || report.Token <= last || report.OldClusterID != reports[0].OldClusterID {
		t.Errorf("%+v after token %d: %v", report, last, err)
	}
	third := openIn(t, dirs[2], first.Addr())
	polled(t, "that the third refuses the first", func() bool { return foreign(third, first) })
}
