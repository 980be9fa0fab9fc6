package consensus

import (
	"testing"

	"github.com/lni/dragonboat/v4/raftpb"
)

func proposals(n, size int) (messages []raftpb.Message) {
	for range n {
		messages = append(messages, raftpb.Message{Type: raftpb.Propose, Entries: []raftpb.Entry{{Cmd: make([]byte, size)}}})
	}
	return messages
}

func TestWhatOthersProposeIsHeldUntilTheLogIsOpenAndThenDelivered(t *testing.T) {
	t.Parallel()
	o := newOpening()
	mixed := append([]raftpb.Message{{Type: raftpb.ReplicateResp}}, append(proposals(2, 10), raftpb.Message{Type: raftpb.Heartbeat})...)
	if rest := o.hold(mixed); len(rest) != 2 || rest[0].Type != raftpb.ReplicateResp || rest[1].Type != raftpb.Heartbeat {
		t.Errorf("let through: %v", rest)
	}
	if held := o.open(); len(held) != 2 {
		t.Errorf("held: %v", held)
	}
	if rest := o.hold(proposals(3, 10)); len(rest) != 3 {
		t.Errorf("let through after the opening: %v", rest)
	}
	if held := o.open(); len(held) != 0 {
		t.Errorf("held after the opening: %v", held)
	}
}

func TestWhatIsHeldHasABound(t *testing.T) {
	t.Parallel()
	o := newOpening()
	o.hold(proposals(heldMessagesMax+10, 10))
	if len(o.held) != heldMessagesMax {
		t.Errorf("%d messages are held", len(o.held))
	}
	o.discard()
	o.hold(proposals(100, 1<<20))
	if o.bytes > heldBytesMax || len(o.held) < 10 {
		t.Errorf("%d messages of %d bytes in all are held", len(o.held), o.bytes)
	}
	o.discard()
	if held := o.open(); len(held) != 0 {
		t.Errorf("%d messages that were discarded are held", len(held))
	}
}
