package wire

import (
	"encoding/hex"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/consensus/store"
)

// The greeting as earlier versions write and read it. Another format is another greetingVersion.
func TestTheGreetingIsWrittenAndReadAsItWas(t *testing.T) {
	t.Parallel()
	const golden = "0501000000000000000203000000000000000000000000000000000004000000000500000000000000060000000000000007" +
		"000000000000000800000000000000001a71180200000031302e302e302e313a37363433"
	g := greeting{
		deployment: 1, node: fsm.Node{2, 3}, incarnation: 4 << RunBits, life: 5, began: store.Position{Term: 6, Vote: 7, Index: 8},
		wall: 9 * time.Second, addr: "10.0.0.1:7643",
	}
	b := make([]byte, g.Size())
	if _, err := g.MarshalTo(b); err != nil || hex.EncodeToString(b) != golden {
		t.Errorf("%x, %v", b, err)
	}
	raw, err := hex.DecodeString(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := decodeGreeting(raw); err != nil || got != g {
		t.Errorf("%+v, %v", got, err)
	}
}
