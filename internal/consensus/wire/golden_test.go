package wire

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/consensus/store"
	"github.com/holdfast-go/holdfast/internal/frozen"
)

// The frames as earlier versions write and read them. What is in a batch or a chunk is the engine's,
// whose formats are frozen with it. Another greeting is another greetingVersion.
func TestFramesAreWrittenAndReadAsTheyWere(t *testing.T) {
	t.Parallel()
	g := greeting{
		deployment: 1, node: fsm.Node{2, 3}, incarnation: 4 << RunBits, life: 5, began: store.Position{Term: 6, Vote: 7, Index: 8},
		wall: 9 * time.Second, addr: "10.0.0.1:7643",
	}
	clock := clockFrame{sent: 1, heardFrom: heardFrom{incarnation: 2 << RunBits, clock: 3, at: 4}}
	withdrawal := make([]byte, frameHeader+withdrawalBytes)
	putHeader(withdrawal, frameWithdrawal)
	batch, chunk := goodBatch(nil), goodChunk(nil)
	greeted := framed(t, frameGreeting, g)
	frozen.Check(t, "testdata/frames.v1", fmt.Appendf(nil, "greeting %x\nclock %x\nwithdrawal %x\nbatch %x\nchunk %x\nanswers %v\n",
		greeted, clock.appendTo(nil), withdrawal, framed(t, frameBatch, &batch), framed(t, frameChunk, &chunk),
		[]byte{answerReceived, answerSuperseded, answerForgetful, answerAhead}))
	if got, err := decodeGreeting(greeted[frameHeader:]); err != nil || got != g {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := decodeClock(clock.appendTo(nil)[frameHeader:]); err != nil || got != clock {
		t.Errorf("%+v, %v", got, err)
	}
}
