package link

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/frozen"
)

// Clients and replicas of several versions are connected to each other.
func TestEveryFrameIsWrittenAndReadAsItWas(t *testing.T) {
	t.Parallel()
	o, c := opening(t)
	signed := SignedBytes(c, "fleet", 5, []byte("binding"))
	bodies := map[Kind][]byte{
		KindChallenge: c.Append(nil), KindOpen: o.Append(nil),
		KindWelcome: Welcome{Group: [16]byte{3}, At: 300, MaxTTL: time.Minute, Peers: []string{"a:1", "b:2"}}.Append(nil),
		KindRefuse:  Refuse{Code: RefuseLater, Text: "why"}.Append(nil),
		KindPropose: Call{Mode: 2, Millis: 70_000, Payload: []byte("command")}.Append(nil),
		KindAsk:     Call{Mode: 1, Payload: []byte("question")}.Append(nil),
		KindReply:   Reply{Code: ReplyFailed, Unknown: true, Value: 1 << 50, Payload: []byte("data"), Text: "why"}.Append(nil),
		KindEvents:  []byte("events"), KindPong: Pong{At: 300, Peers: []string{"a:1"}}.Append(nil),
		KindWatch: Watch{ID: 7, Exact: true, Name: "x"}.Append(nil), KindFleet: Call{Millis: 300}.Append(nil),
		KindRemove: Call{Payload: Order{Node: fsm.Node{7}, Reason: "why"}.Append(nil)}.Append(nil), KindBackup: Call{}.Append(nil),
		KindTransfer: Call{Payload: Order{Node: fsm.Node{8}, Reason: "why"}.Append(nil)}.Append(nil),
		KindAges:     AppendAges(nil, agesOf(7, time.Hour, 300, time.Second, 301, 0)),
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "version %d\nsigned %x\n", Version, signed)
	for kind := KindChallenge; kind <= KindAges; kind++ {
		frame := AppendFrame(nil, kind, 1<<40, bodies[kind])
		fmt.Fprintf(&b, "frame %d %x\n", kind, frame)
		f, err := NewReader(bytes.NewReader(frame), ReplyMax).Next()
		if err != nil || f.Kind != kind || f.Call != 1<<40 || !bytes.Equal(f.Body, bodies[kind]) {
			t.Errorf("frame %d is read as %+v: %v", kind, f, err)
		}
	}
	fmt.Fprintf(&b, "ping that asks for ages %x\n", AppendFrame(nil, KindPing, 0, []byte{AskAges}))
	frozen.Check(t, "testdata/frames.v1", b.Bytes())
}
