package membership

import (
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/holdfast-go/holdfast/internal/autopilot"
)

// full is a Meta with everything at its bound.
func full() Meta {
	return Meta{
		Node: strings.Repeat("n", NodeMax), Incarnation: math.MaxUint64, ClusterID: strings.Repeat("c", ClusterIDMax),
		Name: strings.Repeat("m", NameMax), Zone: strings.Repeat("z", ZoneMax), Version: strings.Repeat("v", VersionMax),
		Replica: math.MaxUint64, Phase: 255, Voter: true, Level: math.MaxUint64, Applied: math.MaxUint64,
		Alone: true, Birth: math.MaxUint64,
		Settings: Settings{Voters: -1, Replicas: -1, Tick: -1, Heartbeat: -1, Election: -1, MaxTTL: -1}, // the longest, from a stranger
	}
}

// fullClient is that of a client, which has founded no group.
func fullClient() Meta {
	m := full()
	m.Alone, m.Birth, m.GroupLevel = false, 0, math.MaxUint64
	m.Able, m.Client, m.Unfit = true, true, true
	return m
}

func TestLargestMetaFitsAndComesBack(t *testing.T) {
	t.Parallel()
	for _, m := range []Meta{full(), fullClient(), {Node: "a"}} {
		b := m.encode()
		if len(b) > MetaMax {
			t.Errorf("%d bytes, gossip carries %d", len(b), MetaMax)
		}
		if got, err := decodeMeta(b); err != nil || got != m {
			t.Errorf("%+v came back as %+v, %v", m, got, err)
		}
	}
}

func TestMetaOfALaterVersionIsUnderstood(t *testing.T) {
	t.Parallel()
	b := protowire.AppendTag(nil, 100, protowire.BytesType)
	b = protowire.AppendString(b, "new")
	b = protowire.AppendTag(b, 101, protowire.Fixed64Type)
	b = protowire.AppendFixed64(b, 1)
	b = append(b, Meta{Node: "a", Level: 9}.encode()...)
	if got, err := decodeMeta(b); err != nil || got != (Meta{Node: "a", Level: 9}) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestMetaThatCouldHarmIsRefused(t *testing.T) {
	t.Parallel()
	for what, b := range map[string][]byte{
		"no node":         nil,
		"too large":       make([]byte, MetaMax+1),
		"long name":       Meta{Node: "a", Name: strings.Repeat("x", NameMax+1)}.encode(),
		"control bytes":   Meta{Node: "a", Zone: "\x1b[31m"}.encode(),
		"invalid UTF-8":   Meta{Node: "a", Version: "\xff"}.encode(),
		"forged name":     Meta{Node: "a~1"}.encode(),
		"truncated":       full().encode()[:100],
		"length too long": {0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f},
	} {
		if m, err := decodeMeta(b); err == nil {
			t.Errorf("%s was accepted: %+v", what, m)
		}
	}
}

func FuzzDecodeMeta(f *testing.F) {
	f.Add(full().encode())
	f.Add(Meta{Node: "a", Phase: autopilot.PhaseRunning}.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeMeta(b)
		if err != nil {
			return
		}
		if again, err := decodeMeta(m.encode()); err != nil || again != m {
			t.Errorf("%+v came back as %+v, %v", m, again, err)
		}
	})
}
