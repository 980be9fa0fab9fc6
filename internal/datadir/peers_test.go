package datadir

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/lni/vfs"
)

var somePeers = []Peer{{"a", "first", "10.0.0.1:7643"}, {"b", "", "10.0.0.2:7643"}}

func TestSavedPeersSurviveAPowerCutAndAnotherIdentity(t *testing.T) {
	t.Parallel()
	fsys := vfs.NewStrictMem()
	d := openDisk(t, fsys)
	if got := d.Peers(); got != nil {
		t.Errorf("a new directory has %v", got)
	}
	if err := d.SavePeers(somePeers); err != nil {
		t.Fatal(err)
	}
	powerCut(fsys)
	d = openDisk(t, fsys)
	if got := d.Peers(); !slices.Equal(got, somePeers) {
		t.Errorf("after a power cut: %v", got)
	}
	id := d.Identity()
	id.Retired = true
	if err := d.Save(id); err != nil {
		t.Fatal(err)
	}
	if got := openDisk(t, fsys).Peers(); !slices.Equal(got, somePeers) {
		t.Errorf("the next node on the directory: %v", got)
	}
}

// They are a hint, so damage to them never keeps a node from its start.
func TestDamagedPeersAreNone(t *testing.T) {
	t.Parallel()
	write := func(fsys vfs.FS, text string) {
		f, err := fsys.Create(disk + "/" + peersName)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
	}
	fsys := vfs.NewMem()
	d := openDisk(t, fsys)
	if err := d.SavePeers(somePeers); err != nil {
		t.Fatal(err)
	}
	f, err := fsys.Open(disk + "/" + peersName)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		"", "{", "null", string(whole[:len(whole)/2]), strings.Replace(string(whole), "10.0.0.1", "10.0.0.9", 1),
		strings.Repeat("x", fileMax+1),
	} {
		write(fsys, text)
		if got := openDisk(t, fsys).Peers(); len(got) != 0 {
			t.Errorf("%.20q is read as %v", text, got)
		}
	}
}

func TestSavedPeersAreBounded(t *testing.T) {
	t.Parallel()
	d := openDisk(t, vfs.NewMem())
	var many []Peer
	for i := range 3 * PeersMax {
		many = append(many, Peer{fmt.Sprintf("%064d", i), strings.Repeat("\"", 128), fmt.Sprintf("10.0.0.%d:7643", i)})
	}
	if err := d.SavePeers(many); err != nil {
		t.Fatal(err)
	}
	if got := d.Peers(); !slices.Equal(got, many[:PeersMax]) {
		t.Errorf("%d of %d came back", len(got), PeersMax)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := d.SavePeers(somePeers); err == nil {
		t.Error("saved after Close")
	}
}
