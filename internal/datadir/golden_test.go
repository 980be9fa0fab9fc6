package datadir

import (
	"bytes"
	"os"
	"testing"
	"time"
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
	golden, err := os.ReadFile("testdata/identity.v1")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := decode(golden); err != nil || got != id {
		t.Errorf("read as %+v: %v", got, err)
	}
	if now, err := encode(id); err != nil || !bytes.Equal(now, golden) {
		t.Errorf("the format of identities has changed: %s, %v", now, err)
	}
}
