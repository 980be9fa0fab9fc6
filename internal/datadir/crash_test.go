package datadir

import (
	"errors"
	"strings"
	"testing"

	"github.com/lni/vfs"

	"github.com/holdfast-go/holdfast/fsm"
)

const disk = "/var/lib/holdfast"

// powerCut takes from the disk all that was not synced.
func powerCut(fsys *vfs.MemFS) {
	fsys.SetIgnoreSyncs(true)
	fsys.ResetToSyncedState()
	fsys.SetIgnoreSyncs(false)
}

func openDisk(t *testing.T, fsys vfs.FS) Dir {
	t.Helper()
	d, err := OpenFS(fsys, disk, "fleet", fsm.Place{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestTheIncarnationSurvivesAPowerCutRightAfterOpen(t *testing.T) {
	t.Parallel()
	fsys := vfs.NewStrictMem()
	first := openDisk(t, fsys).Identity()
	for want := uint64(2); want < 5; want++ {
		powerCut(fsys)
		d := openDisk(t, fsys)
		if id := d.Identity(); id.NodeID != first.NodeID || id.Incarnation != want {
			t.Fatalf("incarnation %d: %+v", want, id)
		}
		if _, err := fsys.Stat(d.RaftDir()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestASavedVoteSurvivesAPowerCut(t *testing.T) {
	t.Parallel()
	fsys := vfs.NewStrictMem()
	d := openDisk(t, fsys)
	id := d.Identity()
	id.Vote = Vote{Candidate: id.NodeID, Ballot: 3}
	if err := d.Save(id); err != nil {
		t.Fatal(err)
	}
	powerCut(fsys)
	if got := openDisk(t, fsys).Identity().Vote; got != id.Vote {
		t.Errorf("the vote is now %+v", got)
	}
}

// Whichever step of Save fails, and if the power is cut right then: the old identity or the new one
// is there whole, and Identity answers what the caller knows.
func TestAFailedSaveLeavesAWholeIdentity(t *testing.T) {
	t.Parallel()
	failed := 0
	for step := range int32(16) {
		op := []vfs.Op{vfs.OpWrite, vfs.OpSync}[step%2]
		fsys := vfs.NewStrictMem()
		openDisk(t, fsys)
		faulty := vfs.OnIndex(1<<30, op)
		d := openDisk(t, vfs.Wrap(fsys, faulty))
		old := d.Identity()
		next := old
		next.Vote = Vote{Candidate: old.NodeID, Ballot: 3}
		faulty.SetIndex(step / 2)
		if err := d.Save(next); err != nil {
			failed++
			if !errors.Is(err, vfs.ErrInjected) || !strings.Contains(err.Error(), identityName) {
				t.Errorf("step %d: %v", step, err)
			}
			if d.Identity() != old {
				t.Errorf("step %d: Identity answers what was not saved", step)
			}
		}
		powerCut(fsys)
		if got := openDisk(t, fsys).Identity(); got.NodeID != old.NodeID || got.Vote != old.Vote && got.Vote != next.Vote {
			t.Errorf("step %d: the disk holds %+v", step, got)
		}
	}
	if failed < 5 {
		t.Errorf("only %d steps failed: this test has shown little", failed)
	}
}

func TestSaveWorksAgainOnceTheDiskDoes(t *testing.T) {
	t.Parallel()
	faulty := vfs.OnIndex(1<<30, vfs.OpWrite)
	d := openDisk(t, vfs.Wrap(vfs.NewMem(), faulty))
	id := d.Identity()
	id.Started = true
	faulty.SetIndex(0)
	if err := d.Save(id); err == nil {
		t.Fatal("the fault did nothing")
	}
	if err := d.Save(id); err != nil || !d.Identity().Started {
		t.Errorf("second try: %v", err)
	}
}

func TestOpenFailsOnADiskThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	for step := range int32(16) {
		op := []vfs.Op{vfs.OpWrite, vfs.OpSync}[step%2]
		fsys := vfs.NewStrictMem()
		openDisk(t, fsys)
		_, err := OpenFS(vfs.Wrap(fsys, vfs.OnIndex(step/2, op)), disk, "fleet", fsm.Place{})
		if err != nil && !strings.Contains(err.Error(), disk) {
			t.Errorf("step %d: %v", step, err)
		}
		if step < 2 && err == nil {
			t.Error("the first write or sync failed and Open did not")
		}
	}
}
