package consensus

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lni/vfs"

	"github.com/holdfast-go/holdfast/fsm"
)

// A voter that had just started again could not answer the vote that another one asked of it for
// seconds: gossip had told it nothing of that node, whose life was in doubt. (Seed 604991442 of the
// random test.)
func TestAReplicaAnswersWhoGreetedItThoughGossipKnowsNothingOfIt(t *testing.T) {
	t.Parallel()
	told := make(map[string]string)
	r := newRegistry(func(node string) (string, bool) { addr, ok := told[node]; return addr, ok })
	node, replica := nodeID(2), ReplicaID(nodeID(2))
	r.hear(replica, node)
	if addr, _, err := r.Resolve(shard, replica); err == nil {
		t.Fatalf("it is at %s, says nobody", addr)
	}
	payload := make([]byte, greetingBytes+greetingAddrMax)
	n, err := greeting{addr: "10.0.0.2:7643"}.MarshalTo(payload)
	if err != nil {
		t.Fatal(err)
	}
	hello, err := decodeGreeting(payload[:n])
	if err != nil {
		t.Fatal(err)
	}
	r.met(node, hello.addr)
	if addr, key, err := r.Resolve(shard, replica); err != nil || addr != "10.0.0.2:7643" || !strings.HasSuffix(key, addr) {
		t.Errorf("after its greeting it is at %q, %v", addr, err)
	}
	told[node] = "10.0.0.3:7643" // it has moved, and gossip knows
	r.met(node, "10.0.0.2:7643")
	if addr, _, err := r.Resolve(shard, replica); err != nil || addr != "10.0.0.3:7643" {
		t.Errorf("by gossip it is at %q, %v", addr, err)
	}
	if _, err := decodeGreeting(make([]byte, greetingBytes+greetingAddrMax+1)); err == nil {
		t.Error("a greeting without end is taken")
	}
}

// Gossip tells of the process of the highest incarnation, and where a copy of a directory was for
// as long as nobody has noticed that it is gone. The node of which it was a copy got no answers,
// although it asked.
func TestAReplicaAnswersWhereItIsAskedFromWhateverGossipTells(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newKnownReplicas(1, func(fsm.Node) (uint64, bool) { return 0, false }, func(uint64) bool { return true })
		hello := goodGreeting(2)
		r := newRegistry(func(string) (string, bool) { return "10.0.0.9:7643", true }) // the copy was there
		r.present = s.present
		node := hello.node.String()
		r.hear(ReplicaID(node), node)
		at := func(want, when string) {
			t.Helper()
			if addr, _, err := r.Resolve(shard, ReplicaID(node)); err != nil || addr != want {
				t.Errorf("%s it is at %q, %v; want %q", when, addr, err, want)
			}
		}
		at("10.0.0.9:7643", "before it was heard")
		hello.addr = "10.0.0.2:7643"
		in, err := s.admit(hello, func() {})
		if err != nil {
			t.Fatal(err)
		}
		at("10.0.0.2:7643", "after its greeting")
		time.Sleep(presentFor) // virtual
		if err := s.accept(in, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(presentFor) // virtual
		at("10.0.0.2:7643", "after its message")
		time.Sleep(time.Nanosecond) // virtual
		at("10.0.0.9:7643", "when it is silent")
		if err := s.accept(in, nil); err != nil {
			t.Fatal(err)
		}
		s.leave(in)
		at("10.0.0.9:7643", "when it has hung up")
	})
}

func TestAddressesOfMembersOutliveAnyNumberOfStrangers(t *testing.T) {
	t.Parallel()
	told := make(map[string]string)
	r := newRegistry(func(node string) (string, bool) { addr, ok := told[node]; return addr, ok })
	member, gone := nodeID(1), nodeID(2)
	for _, node := range []string{member, gone} {
		r.Add(shard, ReplicaID(node), node)
		told[node] = "10.0.0.1:7643"
		if _, _, err := r.Resolve(shard, ReplicaID(node)); err != nil {
			t.Fatal(err)
		}
		delete(told, node) // gossip has given it up
	}
	r.Remove(shard, ReplicaID(gone))
	if _, ok := r.last[gone]; ok {
		t.Error("where a removed member was is remembered for ever")
	}
	for n := range 2 * heardMax {
		node := nodeID(10 + n)
		r.hear(ReplicaID(node), node)
		r.met(node, "10.0.0.9:7643")
		if addr, _, err := r.Resolve(shard, ReplicaID(node)); err != nil || addr != "10.0.0.9:7643" {
			t.Fatalf("newcomer %d is at %q, %v: it cannot be answered", n, addr, err)
		}
	}
	if len(r.heard) > heardMax || len(r.last) > heardMax {
		t.Errorf("%d senders and %d addresses are remembered", len(r.heard), len(r.last))
	}
	if addr, _, err := r.Resolve(shard, ReplicaID(member)); err != nil || addr != "10.0.0.1:7643" {
		t.Errorf("the member is at %q, %v", addr, err)
	}
	r.reset() // a snapshot is about to bring the members
	r.Add(shard, ReplicaID(nodeID(3)), nodeID(3))
	if !r.belongs(ReplicaID(member)) || r.belongs(ReplicaID(gone)) {
		t.Error("a member counts as gone while a snapshot brings the others")
	}
}

// The engine drops what a raft leader answers to a replica that has not applied yet that it is a
// member. One that joined knew the raft leader by its first heartbeat, asked, and waited for its
// whole attempt: in one start of some hundred.
func TestAReplicaThatJoinsAsksNothingBeforeItKnowsTheMembers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, disk := newBench(), &stuck{}
		first := b.open(t, 1, vfs.NewMem(), StartBootstrap)
		first.propose(t, birth())
		joins := b.open(t, 2, vfs.Wrap(vfs.NewMem(), disk), StartJoin)
		defer closeAll(t, []*replica{first, joins})
		disk.shut()
		retry(t, "adding a standby", func(ctx context.Context) error {
			return first.AddStandby(ctx, joins.node, ReplicaID(joins.node), first.Members().Change)
		})
		retry(t, "hearing the raft leader", func(context.Context) error {
			if _, _, known := joins.RaftLeader(); !known {
				return ErrNotProposed
			}
			return nil
		})
		began := time.Now()
		if err := joins.Barrier(context.Background()); !errors.Is(err, ErrNotProposed) || time.Since(began) > 0 {
			t.Errorf("a read that the engine would not take the answer of: %v after %v", err, time.Since(began))
		}
		disk.open()
		joins.barrier(t)
	})
}
