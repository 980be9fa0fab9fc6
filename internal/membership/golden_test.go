package membership

import (
	"encoding/hex"
	"reflect"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/autopilot"
)

// What gossip carries, as earlier versions write and read it: nodes of two versions meet.
func TestMetaAndEnvelopesAreWrittenAndReadAsTheyWere(t *testing.T) {
	t.Parallel()
	const goldenMeta = "0a2461303030303030302d303030302d343030302d383030302d3030303030303030303030311a2463303030303030302d30" +
		"3030302d343030302d383030302d3030303030303030303030312205616c7068612a0465617374320676302e312e30100238" +
		"0340034801500158046001680570037880ade204800180e1eb1788018084af5f900180b09dc2df01980107"
	const ends = "0a2461303030303030302d303030302d343030302d383030302d303030303030303030303031" +
		"122463303030303030302d303030302d343030302d383030302d303030303030303030303031"
	m := Meta{
		Node: "a0000000-0000-4000-8000-000000000001", Incarnation: 2, ClusterID: "c0000000-0000-4000-8000-000000000001",
		Name: "alpha", Zone: "east", Version: "v0.1.0", Replica: 3, Phase: autopilot.PhaseLeaving, Voter: true, Level: 1,
		Applied: 4, Alone: true, Birth: 5, GroupLevel: 7,
		Settings: Settings{3, 10 * time.Millisecond, 50 * time.Millisecond, 200 * time.Millisecond, time.Minute},
	}
	envelopes := map[string]envelope{
		ends + "1a04626f6479": {from: m.Node, to: m.ClusterID, body: []byte("body")},
		ends + "22046d657461": {from: m.Node, to: m.ClusterID, meta: []byte("meta")},
	}
	if b := hex.EncodeToString(m.encode()); b != goldenMeta {
		t.Errorf("meta %s", b)
	}
	read := func(golden string) []byte {
		b, err := hex.DecodeString(golden)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	if got, err := decodeMeta(read(goldenMeta)); err != nil || got != m {
		t.Errorf("%+v, %v", got, err)
	}
	for golden, e := range envelopes {
		if b := hex.EncodeToString(e.encode()); b != golden {
			t.Errorf("envelope %s", b)
		}
		if got, err := decodeEnvelope(read(golden)); err != nil || !reflect.DeepEqual(got, e) {
			t.Errorf("%+v, %v", got, err)
		}
	}
}
