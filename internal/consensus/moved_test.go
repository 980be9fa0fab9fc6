package consensus

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/lni/vfs"

	"github.com/holdfast-go/holdfast/fsm"
)

// The engine records the path of a snapshot as it was then. A data directory that was moved, or that
// a container with another host name opens, must still bring other replicas up.
func TestAReplicaWhoseDirectoryWasMovedBringsOthersUpByItsOldSnapshot(t *testing.T) {
	t.Parallel()
	b, disk := newBench(), t.TempDir()
	b.tune = func(c *Config) { c.SnapshotEntries, c.SnapshotKeep = 10, 2 }
	open := func(dir string, how Start) *replica {
		r, err := b.tryIn(1, vfs.Default, filepath.Join(disk, dir, "raft"), how)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := open("was", StartBootstrap)
	r.propose(t, birth())
	for i := range 40 {
		r.propose(t, fsm.Level{Level: uint64(i)})
	}
	r.close(t)
	if err := os.Rename(filepath.Join(disk, "was"), filepath.Join(disk, "is")); err != nil {
		t.Fatal(err)
	}
	b.tune = func(c *Config) { c.SnapshotEntries = 1 << 20 } // no other snapshot is made
	r = open("is", StartRestart)
	second := b.add(t, r, 2, vfs.NewMem())
	if second.level() != 39 {
		t.Errorf("level %d on the replica that joined", second.level())
	}
	closeAll(t, []*replica{r, second})
	read, err := Read(t.Context(), Config{
		Node: r.node, Incarnation: 100 << RunBits, Cluster: testCluster, Level: math.MaxUint64, Dir: filepath.Join(disk, "is", "raft"), FS: vfs.Default,
	})
	if err != nil || read.State.Info().Level != 39 {
		t.Errorf("read where it was moved to: %v", err)
	}
}
