package consensus

import (
	"errors"
	"testing"

	"github.com/lni/dragonboat/v4/raftpb"

	"github.com/holdfast-go/holdfast/fsm"
)

func TestAProcessThatWithdrawsLeavesTheOneBeforeItInItsPlaceUnlessItHasPromisedSomething(t *testing.T) {
	t.Parallel()
	vote := []raftpb.Message{{Type: raftpb.RequestVoteResp, Term: 7}}
	for _, c := range []struct {
		name     string
		says     []raftpb.Message
		recorded uint64
		back     bool
	}{
		{"it has said nothing", nil, 0, true},
		{"it has asked whether it might be elected", []raftpb.Message{{Type: raftpb.RequestPreVote, Term: 7}}, 0, true},
		{"it has voted", vote, 0, false},
		{"the group has it on record", nil, 2<<RunBits | 9, false},
	} {
		hello, closed := goodGreeting(2), 0
		recorded := uint64(0)
		r := newRoster(1, func(fsm.Node) (uint64, bool) { return recorded, true }, func(uint64) bool { return true })
		first, err := r.admit(hello, func() { closed++ })
		if err != nil {
			t.Fatal(err)
		}
		later := hello
		later.incarnation = 2<<RunBits | 9
		second, err := r.admit(later, func() { closed++ })
		if err != nil || closed != 1 || !errors.Is(r.current(hello.node, hello.incarnation), ErrSuperseded) {
			t.Fatalf("%s: the later process is not heard instead: %v, %d closed", c.name, err, closed)
		}
		if err := r.accept(second, c.says); err != nil {
			t.Fatal(err)
		}
		recorded = c.recorded
		r.withdraw(first) // is gone, and has no say
		r.withdraw(second)
		_, err = r.admit(hello, func() {})
		if (err == nil) != c.back || err != nil && !errors.Is(err, ErrSuperseded) {
			t.Errorf("%s: the former process is told %v", c.name, err)
		}
		if _, err = r.admit(later, func() {}); err != nil {
			t.Errorf("%s: the later process comes again: %v", c.name, err)
		}
	}
}

func TestWhoHasPromisedSomethingDoesNotWithdraw(t *testing.T) {
	t.Parallel()
	for kind, want := range map[raftpb.MessageType]bool{
		raftpb.RequestPreVote: false, raftpb.RequestPreVoteResp: false, raftpb.HeartbeatResp: false, raftpb.Propose: false,
		raftpb.RequestVote: true, raftpb.RequestVoteResp: true, raftpb.ReplicateResp: true, raftpb.Replicate: true, raftpb.Heartbeat: true,
	} {
		c := &carrier{}
		c.vouch([]raftpb.Message{{Type: raftpb.RequestPreVote}, {Type: kind}})
		if c.promised.Load() != want {
			t.Errorf("%v: promised %v", kind, !want)
		}
	}
}
