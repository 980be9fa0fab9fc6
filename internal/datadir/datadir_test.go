package datadir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lni/vfs"

	"github.com/holdfast-go/holdfast/fsm"
)

func mustOpen(t *testing.T, path, cluster string) Dir {
	t.Helper()
	d, err := Open(path, cluster)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// reopen closes and opens a directory again, as a restart does.
func reopen(t *testing.T, d Dir, path string) Dir {
	t.Helper()
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	return mustOpen(t, path, d.Identity().Cluster)
}

func TestEachOpenIsTheSameNodeInANewIncarnation(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "not", "there", "yet")
	d := mustOpen(t, path, "fleet")
	first := d.Identity()
	if !isUUID(first.NodeID) || first.Incarnation != 1 || first.Cluster != "fleet" || first.Format != Format ||
		first.Created.IsZero() || first.Started || first.ClusterID != "" || first.Vote != (Vote{}) {
		t.Errorf("a new identity: %+v", first)
	}
	if info, err := os.Stat(d.RaftDir()); err != nil || !info.IsDir() {
		t.Errorf("the Raft directory: %v", err)
	}
	for want := uint64(2); want < 5; want++ {
		d = reopen(t, d, path)
		if id := d.Identity(); id.Incarnation != want || id.NodeID != first.NodeID || !id.Created.Equal(first.Created) {
			t.Errorf("incarnation %d: %+v", want, id)
		}
	}
}

func TestWhatWasSavedIsThereAfterARestart(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	d := mustOpen(t, path, "fleet")
	want := d.Identity()
	want.ClusterID = NewID()
	want.Vote = Vote{Candidate: NewID(), Ballot: 1 << 63}
	want.Started, want.Bootstrap = true, 3
	if err := d.Save(want); err != nil {
		t.Fatal(err)
	}
	if d.Identity() != want {
		t.Errorf("Identity answers %+v", d.Identity())
	}
	d = reopen(t, d, path)
	want.Incarnation++
	if got := d.Identity(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestARetiredDirectoryBeginsAsANewNodeWithoutTheOldData(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	d := mustOpen(t, path, "fleet")
	old := d.Identity()
	old.ClusterID, old.Started, old.Retired = NewID(), true, true
	if err := d.Save(old); err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(d.RaftDir(), "log")
	if err := os.WriteFile(left, []byte("votes and entries"), 0o600); err != nil {
		t.Fatal(err)
	}
	d = reopen(t, d, path)
	if got := d.Identity(); got.NodeID == old.NodeID || got.ClusterID != "" || got.Started || got.Retired || got.Incarnation != 1 {
		t.Errorf("the new node carries the old one's past: %+v", got)
	}
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the old replica's data is still there: %v", err)
	}
}

func TestSaveChangesNoNodeIntoAnother(t *testing.T) {
	t.Parallel()
	d := Memory()
	old := d.Identity()
	old.ClusterID = NewID()
	if err := d.Save(old); err != nil {
		t.Fatal(err)
	}
	for name, edit := range map[string]func(*Identity){
		"cluster":       func(id *Identity) { id.Cluster = "other" },
		"node":          func(id *Identity) { id.NodeID = NewID() },
		"incarnation":   func(id *Identity) { id.Incarnation-- },
		"created":       func(id *Identity) { id.Created = id.Created.Add(time.Hour) },
		"group":         func(id *Identity) { id.ClusterID = NewID() },
		"no group":      func(id *Identity) { id.ClusterID = "" },
		"zero identity": func(id *Identity) { *id = Identity{} },
	} {
		id := old
		edit(&id)
		if err := d.Save(id); err == nil {
			t.Errorf("%s: no error", name)
		}
		if d.Identity() != old {
			t.Errorf("%s: the identity is now %+v", name, d.Identity())
		}
	}
}

func TestEachNodeInMemoryIsANewOne(t *testing.T) {
	t.Parallel()
	a, b := Memory(), Memory()
	if a.Identity().NodeID == b.Identity().NodeID {
		t.Error("two nodes share an id")
	}
	if info, err := a.FS().Stat(a.RaftDir()); err != nil || !info.IsDir() {
		t.Errorf("the Raft directory: %v", err)
	}
	if err := errors.Join(a.Close(), a.Close()); err != nil {
		t.Error(err)
	}
	if err := a.Save(a.Identity()); !errors.Is(err, ErrClosed) {
		t.Errorf("Save after Close: %v", err)
	}
}

// A node that takes a new identity where it had one votes twice and forgets what it acknowledged.
func TestADamagedIdentityIsNeverReplaced(t *testing.T) {
	t.Parallel()
	whole, err := encode(Identity{Format: Format, Cluster: "fleet", NodeID: NewID(), Incarnation: 7})
	if err != nil {
		t.Fatal(err)
	}
	text := string(whole)
	for name, content := range map[string]string{
		"empty":          "",
		"cut short":      text[:len(text)/2],
		"garbage":        "\x00\x00\x00\x00",
		"empty object":   "{}",
		"null":           "null",
		"edited by hand": strings.Replace(text, `"incarnation": 7`, `"incarnation": 1`, 1),
		"too long":       text + strings.Repeat(" ", fileMax),
		"unknown field":  strings.Replace(text, `{`, `{"x": 1,`, 1),
		"text behind":    text + "x",
	} {
		path := t.TempDir()
		file := filepath.Join(path, identityName)
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the failed Open has given the lock up
			_, err := Open(path, "fleet")
			if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), file) || !namesTheWaysOut(err) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != content {
			t.Errorf("%s: the file was changed (%v)", name, err)
		}
	}
}

// namesTheWaysOut reports whether an error says what to do with one directory, and with those of a majority.
func namesTheWaysOut(err error) bool {
	text := err.Error()
	return strings.Contains(text, "restore the file, or delete the whole directory") &&
		strings.Contains(text, "unless a majority of the voters is told this: then delete none, and recover the group")
}

func TestALostIdentityIsNoticedByTheRaftDataLeftBehind(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	d := mustOpen(t, path, "fleet")
	if err := os.WriteFile(filepath.Join(d.RaftDir(), "log"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(d.Close(), os.Remove(filepath.Join(path, identityName))); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, "fleet"); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), identityName) || !namesTheWaysOut(err) {
		t.Errorf("got %v", err)
	}
}

func TestADirectoryOfANewerVersionOrAnotherFleetIsLeftAlone(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	file := filepath.Join(path, identityName)
	if err := mustOpen(t, path, "fleet").Close(); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, "other"); !errors.Is(err, ErrIncompatible) ||
		!strings.Contains(err.Error(), `"fleet", not "other"`) || !strings.Contains(err.Error(), file) {
		t.Errorf("another fleet: %v", err)
	}
	if after, err := os.ReadFile(file); err != nil || string(after) != string(before) {
		t.Errorf("the other fleet's file was changed (%v)", err)
	}
	newer := []byte(`{"format": 2, "what": ["is", "not", "known"]}`)
	if err := os.WriteFile(file, newer, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, "fleet"); !errors.Is(err, ErrIncompatible) ||
		!strings.Contains(err.Error(), "newer version") || !strings.Contains(err.Error(), file) {
		t.Errorf("newer format: %v", err)
	}
	if after, err := os.ReadFile(file); err != nil || string(after) != string(newer) {
		t.Errorf("the newer version's file was changed (%v)", err)
	}
}

func TestOpenSaysWhatIsWrongWithThePath(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"", file, filepath.Join(file, "below"), "x\x00y"} {
		if _, err := Open(path, "fleet"); err == nil || !strings.HasPrefix(err.Error(), "holdfast: ") {
			t.Errorf("%q: %v", path, err)
		}
	}
	if _, err := os.Stat("x"); !errors.Is(err, fs.ErrNotExist) {
		t.Error("something was made")
	}
}

func FuzzIdentity(f *testing.F) {
	whole, err := encode(Identity{Format: Format, Cluster: "fleet", NodeID: NewID(), Incarnation: 7})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		id, err := decode(data)
		if err != nil {
			return
		}
		again, err := encode(id)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := decode(again); err != nil || got != id {
			t.Fatalf("%+v came back as %+v (%v)", id, got, err)
		}
	})
}

func TestAnIdIsAUUIDInTheFormThatIsMinted(t *testing.T) {
	t.Parallel()
	if id := NewID(); !isUUID(id) {
		t.Errorf("%q is minted and refused", id)
	}
	for _, id := range []string{
		"", "5F0B1B3C-6F0E-4E53-8B6C-0D5C5B3C1A2D", "5f0b1b3c6f0e4e538b6c0d5c5b3c1a2d",
		"{5f0b1b3c-6f0e-4e53-8b6c-0d5c5b3c1a2d}", "urn:uuid:5f0b1b3c-6f0e-4e53-8b6c-0d5c5b3c1a2d", "5f0b1b3c-6f0e-4e53-8b6c-0d5c5b3c1a2g",
	} {
		if isUUID(id) {
			t.Errorf("%q is taken for an id", id)
		}
	}
}

// hangs is a file system on which nothing is created before its channel is closed.
type hangs struct {
	vfs.FS
	begun, end chan struct{}
}

func (h hangs) Create(name string) (vfs.File, error) {
	close(h.begun)
	<-h.end
	return h.FS.Create(name)
}

// Status, gossip and Close ask for the identity.
func TestTheIdentityCanBeReadWhileItsDiskHangs(t *testing.T) {
	t.Parallel()
	fsys := vfs.NewMem()
	d, err := OpenFS(fsys, "/data", "fleet", fsm.Place{})
	if err != nil {
		t.Fatal(err)
	}
	h := hangs{fsys, make(chan struct{}), make(chan struct{})}
	d.(*dir).fs = h
	id := d.Identity()
	id.Asks = true
	saved := make(chan error, 1)
	go func() { saved <- d.Save(id) }()
	<-h.begun
	if d.Identity().Asks {
		t.Error("an identity that is not on the disk")
	}
	close(h.end)
	if err := <-saved; err != nil || !d.Identity().Asks {
		t.Errorf("%v, %+v", err, d.Identity())
	}
}
