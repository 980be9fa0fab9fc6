package processes_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/testkit"
)

// leavesNothing runs f, which opens and closes nodes, and fails the test if a goroutine or a
// descriptor is left. It must run in a process of its own.
func leavesNothing(t *testing.T, what string, f func()) {
	t.Helper()
	others := goleak.IgnoreCurrent()
	before := descriptors(t)
	f()
	for fd, file := range descriptors(t) {
		if before[fd] != file {
			t.Errorf("%s: descriptor %s is left open: %s", what, fd, file)
		}
	}
	if err := goleak.Find(others); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

// descriptors lists what this process has open, where the system tells.
func descriptors(t *testing.T) map[string]string {
	t.Helper()
	const dir = "/proc/self/fd"
	open := make(map[string]string)
	list, err := os.ReadDir(dir)
	if err != nil {
		return open
	}
	for _, fd := range list {
		// The descriptor that read the directory is gone, and has no link any more.
		if file, err := os.Readlink(filepath.Join(dir, fd.Name())); err == nil {
			open[fd.Name()] = file
		}
	}
	return open
}

// warm lets the process open what it opens once and keeps, such as the network poller.
func warm(t *testing.T) {
	t.Helper()
	c := testkit.Single(t)
	testkit.Release(t, testkit.Acquire(t, c, "warm"))
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	_ = slices.Sorted(maps.Keys(descriptors(t)))
}
