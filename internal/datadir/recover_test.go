package datadir

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/lni/vfs"
)

// dying lets so many writes and syncs through. Then the process is dead: each further one fails.
type dying struct{ left atomic.Int64 }

func (d *dying) MaybeError(op vfs.Op) error {
	if (op == vfs.OpWrite || op == vfs.OpSync) && d.left.Add(-1) < 0 {
		return vfs.ErrInjected
	}
	return nil
}

// replaced puts another node and its data into a directory.
func replaced(fsys vfs.FS, node, group string) error {
	o, err := OfflineFS(fsys, disk)
	if err != nil {
		return err
	}
	raft, err := o.Build()
	if err != nil {
		return err
	}
	for _, name := range []string{fsys.PathJoin(raft, node), raft + ".mark"} {
		f, err := fsys.Create(name)
		if err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	if err := errors.Join(syncDir(fsys, raft), syncDir(fsys, fsys.PathDir(raft))); err != nil {
		return err
	}
	return o.Replace(node, group, "fleet")
}

// Wherever the process dies, and with a power cut then: the directory is the former node's with its
// data, or the new one's with its own, and the recovery can be run again.
func TestARecoveryHasHappenedOrNotWhereverItsProcessDies(t *testing.T) {
	t.Parallel()
	was, is, steps := 0, 0, 0
	for ended := false; !ended; steps++ {
		fsys := vfs.NewStrictMem()
		old := found(t, openDisk(t, fsys))
		node, group := NewID(), NewID()
		d := &dying{}
		d.left.Store(int64(steps))
		ended = replaced(vfs.Wrap(fsys, d), node, group) == nil
		powerCut(fsys)
		dir := openDisk(t, fsys)
		id := dir.Identity()
		left, err := fsys.List(dir.RaftDir())
		if err != nil || len(left) != 1 {
			t.Fatalf("step %d: the data are %q: %v", steps, left, err)
		}
		switch {
		case id.NodeID == old.NodeID && id.ClusterID == old.ClusterID && left[0] == "log":
			was++
		case id.NodeID == node && id.ClusterID == group && id.Started && !id.Alone() && left[0] == node:
			is++
			if _, err := fsys.Stat(fsys.PathJoin(disk, formerName, identityName)); err != nil {
				t.Errorf("step %d: the former identity: %v", steps, err)
			}
		default:
			t.Fatalf("step %d: %+v with %q", steps, id, left)
		}
		if ended && id.NodeID != node {
			t.Errorf("step %d: it had happened", steps)
		}
		again := NewID()
		if err := replaced(fsys, again, NewID()); err != nil || openDisk(t, fsys).Identity().NodeID != again {
			t.Errorf("step %d: run again: %v", steps, err)
		}
	}
	if was < 5 || is < 5 {
		t.Errorf("%d before and %d after of %d steps: this test has shown little", was, is, steps)
	}
}

// An operator who recovers twice keeps the data from before the first time.
func TestASecondRecoveryKeepsTheFormerDataUntilTheDirectoryWasOpened(t *testing.T) {
	t.Parallel()
	fsys := vfs.NewStrictMem()
	old := found(t, openDisk(t, fsys))
	former := func() string {
		id, err := load(fsys, fsys.PathJoin(disk, formerName, identityName))
		if err != nil {
			t.Fatal(err)
		}
		return id.NodeID
	}
	first, second := NewID(), NewID()
	for _, node := range []string{first, second} {
		if err := replaced(fsys, node, NewID()); err != nil {
			t.Fatal(err)
		}
		if left, err := fsys.List(fsys.PathJoin(disk, formerName, raftName)); err != nil || former() != old.NodeID || len(left) != 1 || left[0] != "log" {
			t.Errorf("of %s are kept %q: %v", former(), left, err)
		}
	}
	if id := openDisk(t, fsys).Identity(); id.NodeID != second {
		t.Errorf("%+v", id)
	}
	if err := replaced(fsys, NewID(), NewID()); err != nil || former() != second {
		t.Errorf("of %s: %v", former(), err)
	}
}

// A directory that was recovered, left, and opened once since has a new node's data. The next recovery took it
// for one that was never opened, and deleted them.
func TestARecoveryKeepsTheDataOfANodeThatWasMintedInARecoveredDirectory(t *testing.T) {
	t.Parallel()
	fsys := vfs.NewStrictMem()
	found(t, openDisk(t, fsys))
	if err := replaced(fsys, NewID(), NewID()); err != nil {
		t.Fatal(err)
	}
	left := openDisk(t, fsys)
	id := left.Identity()
	id.Retired = true
	if err := left.Save(id); err != nil {
		t.Fatal(err)
	}
	minted := found(t, openDisk(t, fsys))
	if minted.Incarnation != 1 || minted.NodeID == id.NodeID {
		t.Fatalf("%+v", minted)
	}
	if err := replaced(fsys, NewID(), NewID()); err != nil {
		t.Fatal(err)
	}
	if kept, err := load(fsys, fsys.PathJoin(disk, formerName, identityName)); err != nil || kept.NodeID != minted.NodeID {
		t.Errorf("kept is %s, not %s: %v", kept.NodeID, minted.NodeID, err)
	}
}
