package datadir

import (
	"testing"

	"github.com/lni/vfs"
)

// follow makes d that of a node whose replica was taken into a group, and has run.
func follow(t *testing.T, d Dir) Identity {
	t.Helper()
	id := found(t, d)
	id.Shared = true
	if err := d.Save(id); err != nil {
		t.Fatal(err)
	}
	return id
}

// Whichever step fails on the way from the news that the replica was removed to the next life, and
// if the power is cut right then: what opens the directory is the same node in the same group, in
// its former life with all its data as long as that the news is not on the disk, and else in the
// next with nothing.
func TestAReplicaThatWasRemovedBeginsItsNextLifeWhereverTheProcessDies(t *testing.T) {
	t.Parallel()
	failed := 0
	for step := range int32(24) {
		fsys := vfs.NewStrictMem()
		faulty := vfs.OnIndex(1<<30, []vfs.Op{vfs.OpWrite, vfs.OpSync}[step%2])
		d := openDisk(t, vfs.Wrap(fsys, faulty))
		old := follow(t, d)
		faulty.SetIndex(step / 2)
		removed := old
		removed.Removed = true
		err := d.Save(removed)
		known := err == nil
		if known {
			err = d.Drop()
		}
		if err != nil {
			failed++
		}
		powerCut(fsys)
		d = openDisk(t, fsys)
		id := d.Identity()
		if id.NodeID != old.NodeID || id.ClusterID != old.ClusterID || id.Removed {
			t.Errorf("step %d: the node is now %+v", step, id)
		}
		left, err := fsys.List(d.RaftDir())
		if err != nil {
			t.Fatal(err)
		}
		_, marked := fsys.Stat(d.RaftDir() + ".mark")
		switch {
		case id.Life == old.Life && known:
			t.Errorf("step %d: it has forgotten that its replica was removed", step)
		case id.Life == old.Life:
			if !id.Started || id.Asks || len(left) == 0 || marked != nil {
				t.Errorf("step %d: it goes on in its former life with %v, %v: %+v", step, left, marked, id)
			}
		case id.Started || !id.Asks || id.Bootstrap != 0 || id.Shared || len(left) > 0 || marked == nil:
			t.Errorf("step %d: it begins a life with %v, %v: %+v", step, left, marked, id)
		}
	}
	if failed < 6 {
		t.Errorf("only %d steps failed: this test has shown little", failed)
	}
}

// Each of two copies that are told that their replica is out is another one after that: both
// together would be one voter with two memories.
func TestTwoCopiesOfADirectoryBeginDifferentLives(t *testing.T) {
	t.Parallel()
	fsys := vfs.NewMem()
	d := openDisk(t, fsys)
	id := follow(t, d)
	for count := uint64(1); count <= 3; count++ {
		var lives [2]uint64
		for i := range lives {
			to := vfs.NewMem()
			if _, err := vfs.Clone(fsys, to, disk, disk); err != nil {
				t.Fatal(err)
			}
			copied := openDisk(t, to)
			lives[i] = end(t, copied).Life
		}
		if lives[0] == lives[1] || lives[0]>>lifeRandomBits != count || lives[1]>>lifeRandomBits != count {
			t.Errorf("after life %#x: %#x and %#x", id.Life, lives[0], lives[1])
		}
		id = end(t, d)
	}
}

// end ends the present life.
func end(t *testing.T, d Dir) Identity {
	t.Helper()
	id := d.Identity()
	id.Removed = true
	if err := d.Save(id); err != nil {
		t.Fatal(err)
	}
	if err := d.Drop(); err != nil {
		t.Fatal(err)
	}
	return d.Identity()
}

func TestALifeChangesOnlyWhenTheFormerOneIsGone(t *testing.T) {
	t.Parallel()
	d := openDisk(t, vfs.NewMem())
	id := follow(t, d)
	for name, edit := range map[string]func(*Identity){
		"another life":     func(id *Identity) { id.Life++ },
		"it asks to be in": func(id *Identity) { id.Asks = true },
	} {
		next := id
		edit(&next)
		if err := d.Save(next); err == nil {
			t.Errorf("%s: it was saved", name)
		}
	}
	if err := d.Drop(); err == nil {
		t.Error("the data of a replica that serves was dropped")
	}
	id.Removed = true
	if err := d.Save(id); err != nil {
		t.Fatal(err)
	}
	id.Removed = false
	if err := d.Save(id); err == nil {
		t.Error("a replica that was removed is there again")
	}
	if err := d.Drop(); err != nil {
		t.Fatal(err)
	}
	next := d.Identity()
	next.Asks, next.Started = false, true
	if err := d.Save(next); err != nil {
		t.Errorf("the next life is taken in: %v", err)
	}
}

// A node that asks for its first replica may hear that the group had taken it in and removed it
// since.
func TestANodeWithoutAGroupBeginsALifeToo(t *testing.T) {
	t.Parallel()
	d := openDisk(t, vfs.NewMem())
	old := d.Identity()
	if id := end(t, d); id.NodeID != old.NodeID || id.ClusterID != "" || id.Asks || id.Life>>lifeRandomBits != 1 {
		t.Errorf("it is now %+v", id)
	}
}
