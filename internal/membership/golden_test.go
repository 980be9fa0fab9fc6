package membership

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/autopilot"
	"github.com/holdfast-go/holdfast/internal/frozen"
)

// What gossip carries, as earlier versions write and read it: nodes of two versions meet.
func TestMetaAndEnvelopesAreWrittenAndReadAsTheyWere(t *testing.T) {
	t.Parallel()
	m := Meta{
		Node: "a0000000-0000-4000-8000-000000000001", Incarnation: 2, ClusterID: "c0000000-0000-4000-8000-000000000001",
		Name: "alpha", Zone: "east", Version: "v0.1.0", Replica: 3, Phase: autopilot.PhaseLeaving, Voter: true, Level: 1,
		Applied: 4, Alone: true, Birth: 5, GroupLevel: 7,
		Settings: Settings{3, 0, 10 * time.Millisecond, 50 * time.Millisecond, 200 * time.Millisecond, time.Minute},
	}
	client := Meta{Node: m.Node, Phase: autopilot.PhaseJoining, Able: true, Client: true, Settings: Settings{Replicas: 5}}
	frozen.Check(t, "testdata/client.v1", fmt.Appendf(nil, "meta %x\n", client.encode()))
	if got, err := decodeMeta(client.encode()); err != nil || got != client {
		t.Errorf("%+v, %v", got, err)
	}
	body, meta := envelope{from: m.Node, to: m.ClusterID, body: []byte("body")}, envelope{from: m.Node, to: m.ClusterID, meta: []byte("meta")}
	frozen.Check(t, "testdata/gossip.v1", fmt.Appendf(nil, "meta %x\nbody %x\nannouncement %x\n", m.encode(), body.encode(), meta.encode()))
	if got, err := decodeMeta(m.encode()); err != nil || got != m {
		t.Errorf("%+v, %v", got, err)
	}
	for _, e := range []envelope{body, meta} {
		if got, err := decodeEnvelope(e.encode()); err != nil || !reflect.DeepEqual(got, e) {
			t.Errorf("%+v, %v", got, err)
		}
	}
}
