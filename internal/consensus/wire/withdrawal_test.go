package wire

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lni/dragonboat/v4/raftpb"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/transport"
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
		r := newTable(1)
		r.recorded = func(fsm.Node) (uint64, bool) { return recorded, true }
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
		// A connection of the later process may have been under way still.
		if _, err = r.admit(later, func() {}); (err != nil) != (c.back || c.recorded != 0) {
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
		c := &Carrier{}
		c.vouch([]raftpb.Message{{Type: raftpb.RequestPreVote}, {Type: kind}})
		if c.promised.Load() != want {
			t.Errorf("%v: promised %v", kind, !want)
		}
	}
}

// A copy of a node that lives had been admitted on a connection that the engine had closed since:
// what the copy took back was said on those alone that were open, and the node that lives was
// ended.
func TestAProcessWithdrawsFromWhomItHasGreetedWhateverBecameOfTheConnection(t *testing.T) {
	t.Parallel()
	for name, when := range map[string]struct{ before, after bool }{
		"it is open": {}, "the engine has closed it": {before: true}, "the engine closes it as it fails": {after: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				network := transport.NewMemory(1)
				to, from := newMailbox(t, network, 1, func() {}), newMailbox(t, network, 2, func() {})
				defer to.end(t)
				defer from.end(t)
				former := from.self
				if _, err := to.Nodes.admit(former, func() {}); err != nil {
					t.Fatal(err)
				}
				from.self.incarnation = 2<<RunBits | 9
				conn, err := from.GetConnection(t.Context(), to.endpoint.Addr())
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if !errors.Is(to.Nodes.current(former.node, former.incarnation), ErrSuperseded) {
					t.Fatal("the later process is not heard instead")
				}
				if when.before {
					conn.Close()
				}
				from.Mute()
				if when.after {
					conn.Close()
				}
				from.Withdraw()
				if err := to.Nodes.current(former.node, former.incarnation); err != nil {
					t.Errorf("the process that lives is told %v", err)
				}
				conn.Close()
			})
		})
	}
}

// A caller that waits for the end of the process waits no longer than that, where somebody is out of
// reach.
func TestAProcessThatWithdrawsWaitsForNobodyForLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network, to, from, _ := connected(t)
		network.Isolate(to.endpoint.Addr())
		begun := time.Now()
		from.Withdraw()
		if took := time.Since(begun); took > withdrawTime {
			t.Errorf("withdrawn after %v", took)
		}
	})
}
