package wire

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/consensus/engine"
)

// A voter that had just started again could not answer the vote that another one asked of it for
// seconds: gossip had told it nothing of that node, whose life was in doubt. (Seed 604991442 of the
// random test.)
func TestAReplicaAnswersWhoGreetedItThoughGossipKnowsNothingOfIt(t *testing.T) {
	t.Parallel()
	told := make(map[string]string)
	r := newTable(1)
	r.resolve = func(node string) (string, bool) { addr, ok := told[node]; return addr, ok }
	node, replica := nodeID(2), ReplicaID(nodeID(2))
	greets(t, r, goodGreeting(2))
	if addr, _, err := r.Resolve(engine.Shard, replica); err == nil {
		t.Fatalf("it is at %s, says nobody", addr)
	}
	payload := make([]byte, greetingBytes+greetingAddrMax)
	hello := goodGreeting(2)
	hello.addr = "10.0.0.2:7643"
	n, err := hello.MarshalTo(payload)
	if err != nil {
		t.Fatal(err)
	}
	if hello, err = decodeGreeting(payload[:n]); err != nil {
		t.Fatal(err)
	}
	greets(t, r, hello)
	if addr, key, err := r.Resolve(engine.Shard, replica); err != nil || addr != "10.0.0.2:7643" || !strings.HasSuffix(key, addr) {
		t.Errorf("after its greeting it is at %q, %v", addr, err)
	}
	told[node] = "10.0.0.3:7643" // it has moved, and gossip knows
	greets(t, r, hello)
	if addr, _, err := r.Resolve(engine.Shard, replica); err != nil || addr != "10.0.0.3:7643" {
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
		hello := goodGreeting(2)
		r := newTable(1)
		r.resolve = func(string) (string, bool) { return "10.0.0.9:7643", true } // the copy was there
		node := hello.node.String()
		greets(t, r, hello)
		at := func(want, when string) {
			t.Helper()
			if addr, _, err := r.Resolve(engine.Shard, ReplicaID(node)); err != nil || addr != want {
				t.Errorf("%s it is at %q, %v; want %q", when, addr, err, want)
			}
		}
		at("10.0.0.9:7643", "before it was heard")
		hello.addr = "10.0.0.2:7643"
		in, err := r.admit(hello, func() {})
		if err != nil {
			t.Fatal(err)
		}
		at("10.0.0.2:7643", "after its greeting")
		time.Sleep(presentFor) // virtual
		if err := r.accept(in, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(presentFor) // virtual
		at("10.0.0.2:7643", "after its message")
		time.Sleep(time.Nanosecond) // virtual
		at("10.0.0.9:7643", "when it is silent")
		if err := r.accept(in, nil); err != nil {
			t.Fatal(err)
		}
		r.leave(in)
		at("10.0.0.9:7643", "when it has hung up")
	})
}

func TestAddressesOfMembersOutliveAnyNumberOfStrangers(t *testing.T) {
	t.Parallel()
	told := make(map[string]string)
	r := newTable(1)
	r.resolve = func(node string) (string, bool) { addr, ok := told[node]; return addr, ok }
	member, gone := nodeID(1), nodeID(2)
	for _, node := range []string{member, gone} {
		r.Add(engine.Shard, ReplicaID(node), node)
		told[node] = "10.0.0.1:7643"
		if _, _, err := r.Resolve(engine.Shard, ReplicaID(node)); err != nil {
			t.Fatal(err)
		}
		delete(told, node) // gossip has given it up
	}
	r.Remove(engine.Shard, ReplicaID(gone))
	if s := r.find(gone); s.last != "" {
		t.Error("the address of a removed member is remembered forever")
	}
	for n := range 2 * heardMax {
		hello := goodGreeting(10 + n)
		hello.addr = "10.0.0.9:7643"
		greets(t, r, hello)
		if addr, _, err := r.Resolve(engine.Shard, ReplicaID(nodeID(10+n))); err != nil || addr != "10.0.0.9:7643" {
			t.Fatalf("newcomer %d is at %q, %v: it cannot be answered", n, addr, err)
		}
	}
	if len(r.nodes) > heardMax {
		t.Errorf("%d nodes are remembered", len(r.nodes))
	}
	if addr, _, err := r.Resolve(engine.Shard, ReplicaID(member)); err != nil || addr != "10.0.0.1:7643" {
		t.Errorf("the member is at %q, %v", addr, err)
	}
	r.Reset() // a snapshot is about to bring the members
	r.Add(engine.Shard, ReplicaID(nodeID(3)), nodeID(3))
	if !r.Includes(ReplicaID(member)) || r.Includes(ReplicaID(gone)) {
		t.Error("a member counts as gone while a snapshot brings the others")
	}
}

// greets has a node connect, send a message and hang up.
func greets(t *testing.T, r *Registry, hello greeting) {
	t.Helper()
	in, err := r.admit(hello, func() {})
	if err == nil {
		err = r.accept(in, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	r.leave(in)
}
