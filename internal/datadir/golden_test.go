package datadir

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/frozen"
)

// The golden file is an identity of this format with all its fields: later versions have to read it.
// Another field is another Format, another file and a new feature level.
func TestTheGoldenIdentityIsWrittenAndReadAsItWas(t *testing.T) {
	t.Parallel()
	id := Identity{
		Format: 1, Cluster: "fleet", NodeID: "a0000000-0000-4000-8000-000000000001", ClusterID: "c0000000-0000-4000-8000-000000000001",
		Life: 1 << lifeRandomBits, Asks: true, Removed: true, Incarnation: 7,
		Vote: Vote{"a0000000-0000-4000-8000-000000000002", 3}, Started: true, Bootstrap: 3, Birth: 1 << 50,
		Shared: true, Dropped: true, Level: 2, Retired: true, Created: time.Unix(1_700_000_000, 0).UTC(),
	}
	now, err := encode(id)
	if err != nil {
		t.Fatal(err)
	}
	frozen.Check(t, "testdata/identity.v1", now)
	if got, err := decode(now); err != nil || got != id {
		t.Errorf("read as %+v: %v", got, err)
	}
}

// peers.json is a hint, and is read by whichever version runs next.
func TestTheGoldenPeersAreWrittenAndReadAsTheyWere(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	peers := []Peer{{Node: "a0000000-0000-4000-8000-000000000001", Name: "alpha", Addr: "10.0.0.1:7643"}, {Node: "a0000000-0000-4000-8000-000000000002", Addr: "b:1"}}
	d := mustOpen(t, path, "fleet")
	if err := d.SavePeers(peers); err != nil {
		t.Fatal(err)
	}
	now, err := os.ReadFile(filepath.Join(path, peersName))
	if err != nil {
		t.Fatal(err)
	}
	frozen.Check(t, "testdata/peers.v1", now)
	if got := d.Peers(); !slices.Equal(got, peers) {
		t.Errorf("read as %+v", got)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}
