package datadir

import (
	"testing"

	"github.com/lni/vfs"
)

// found makes d that of a node which founded a group alone and runs its replica.
func found(t *testing.T, d Dir) Identity {
	t.Helper()
	id := d.Identity()
	id.ClusterID, id.Bootstrap, id.Birth, id.Started = NewID(), 1, 7, true
	if err := d.Save(id); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{d.FS().PathJoin(d.RaftDir(), "log"), d.RaftDir() + ".mark"} {
		f, err := d.FS().Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{d.RaftDir(), disk} {
		if err := syncDir(d.FS(), dir); err != nil {
			t.Fatal(err)
		}
	}
	return id
}

// Whichever step of Drop fails, and if the power is cut right then: the node that comes back
// belongs to no group and has nothing of the old replica, and is the same node.
func TestAGroupThatWasGivenUpNeverComesBackWhereverTheProcessDies(t *testing.T) {
	t.Parallel()
	failed := 0
	for step := range int32(12) {
		fsys := vfs.NewStrictMem()
		faulty := vfs.OnIndex(1<<30, []vfs.Op{vfs.OpWrite, vfs.OpSync}[step%2])
		d := openDisk(t, vfs.Wrap(fsys, faulty))
		old := found(t, d)
		old.Dropped = true
		if err := d.Save(old); err != nil {
			t.Fatal(err)
		}
		faulty.SetIndex(step / 2)
		if d.Drop() != nil {
			failed++
		}
		powerCut(fsys)
		d = openDisk(t, fsys)
		if id := d.Identity(); id.NodeID != old.NodeID || id.ClusterID != "" || id.Started || id.Bootstrap != 0 || id.Dropped {
			t.Errorf("step %d: the node is now %+v", step, id)
		}
		if left, err := fsys.List(d.RaftDir()); err != nil || len(left) > 0 {
			t.Errorf("step %d: of the old replica there is %v, %v", step, left, err)
		}
		if _, err := fsys.Stat(d.RaftDir() + ".mark"); err == nil {
			t.Errorf("step %d: the note of how far the old replica had come is there", step)
		}
	}
	if failed < 3 {
		t.Errorf("only %d steps failed: this test has shown little", failed)
	}
}

func TestANodeThatDroppedItsGroupJoinsAnother(t *testing.T) {
	t.Parallel()
	d := openDisk(t, vfs.NewMem())
	id := found(t, d)
	id.Dropped = true
	if err := d.Save(id); err != nil {
		t.Fatal(err)
	}
	if err := d.Drop(); err != nil {
		t.Fatal(err)
	}
	next := d.Identity()
	next.ClusterID = NewID()
	if err := d.Save(next); err != nil {
		t.Errorf("joining another group: %v", err)
	}
	if next.Alone() {
		t.Errorf("it says that it founded the group that it joined: %+v", next)
	}
}

func TestOnlyAGroupThatNobodyElseJoinedCanBeGivenUp(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(*Identity){
		"others were added to it": func(id *Identity) { id.Shared = true },
		"it was joined":           func(id *Identity) { id.Bootstrap = 0 },
	} {
		d := openDisk(t, vfs.NewMem())
		id := found(t, d)
		edit(&id)
		if err := d.Save(id); err != nil {
			t.Fatal(err)
		}
		for _, clear := range []bool{false, true} { // and the past is not taken back to do it
			given := id
			given.Dropped = true
			if clear {
				given.Shared = false
			}
			if err := d.Save(given); err == nil {
				t.Errorf("%s: it was given up", name)
			}
		}
		if err := d.Drop(); err == nil {
			t.Errorf("%s: it was dropped", name)
		}
		if got := d.Identity(); got != id {
			t.Errorf("%s: the identity is now %+v", name, got)
		}
	}
	d := openDisk(t, vfs.NewMem())
	id := found(t, d)
	id.Dropped = true
	if err := d.Save(id); err != nil {
		t.Fatal(err)
	}
	for name, edit := range map[string]func(*Identity){
		"it has a member after all": func(id *Identity) { id.Shared = true },
		"it serves again":           func(id *Identity) { id.Dropped = false },
	} {
		back := id
		edit(&back)
		if err := d.Save(back); err == nil {
			t.Errorf("after it was given up: %s", name)
		}
	}
}
