package fsm

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A client with a word for others, or for the group, could end their leases (S9).
func TestAClientSaysWhatACallerMayAndOnlyForItself(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.must(Via{Hello{client, 1, "client", Place{}, 0}}, CodeOK)
	mine := acquire(1, "x")
	mine.Session.Node = client
	token := b.must(Via{mine}, CodeGranted).Token
	for _, c := range everyCommand() {
		if _, several := c.(Batch); several {
			continue
		}
		want := slices.Contains([]op{opForceRelease, opRevoke, opForget, opAsk, opResize, opSetQuota}, opOf(c))
		if v, is := c.(Via); is {
			c, want = v.Command, true
		}
		before := stateOf(b.m)
		o, events := b.m.Fork().Apply(b.m.Applied()+1, Process{Node{'a'}, 1}, Encode(Via{c}))
		if (o.Code != CodeForbidden) != want || (Via{c}).Allowed() != want {
			t.Errorf("%T of process %v: %v", c, ProcessOf(c), o.Code)
		}
		if !want && (len(events) > 0 || !bytes.Equal(stateOf(b.m), before)) {
			t.Errorf("%T has changed something: %v", c, events)
		}
	}
	for name, cmd := range map[string]Command{
		"without its replica":            mine,
		"the release of a replica's own": Via{Release{Session: sessionOf('a', 1), Grants: []Grant{{"x", token}}}},
		"the hello of a replica's node":  Via{Hello{Node{'a'}, 9, "alpha", Place{}, 0}},
	} {
		if o, _ := b.m.Apply(b.m.Applied()+1, Process{Node{'b'}, 1}, Encode(cmd)); o.Code != CodeForbidden {
			t.Errorf("%s: %v", name, o.Code)
		}
	}
}

func opOf(c Command) op {
	operation, _ := c.about()
	return operation
}

func TestCommandsOfClientsAndOfTheirReplicaShareAnEntryAndEachHasItsOutcome(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	second := KeyNode([]byte("second"))
	for _, id := range []Node{client, second} {
		b.must(Via{Hello{id, 1, "client", Place{}, 0}}, CodeOK)
	}
	of := func(id Node) Acquire {
		c := acquire(1, "x")
		c.Session.Node = id
		return c
	}
	o := b.must(Batch{[]Command{Via{of(client)}, of(Node{'a'}), Via{of(second)}, of(second), Via{of(Node{'b'})}}}, CodeOK)
	for i, want := range []Code{CodeGranted, CodeQueued, CodeQueued, CodeForbidden, CodeForbidden} {
		if o.Each[i].Code != want {
			t.Errorf("command %d: %v, want %v", i, o.Each[i].Code, want)
		}
	}
}

func TestAViaWithoutACommandAndOneWithinAnotherAreMalformed(t *testing.T) {
	t.Parallel()
	good := Encode(Via{CloseSession{Session: SessionID{client, 1, 1}}})
	for name, cmd := range map[string][]byte{
		"nothing": AppendVia(nil), "half a header": append(AppendVia(nil), 1), "via via": append(AppendVia(nil), good...),
		"a batch": append(AppendVia(nil), AppendToBatch(AppendBatch(nil), good)...),
	} {
		if _, err := Decode(cmd); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
		if o, _ := newBench(t).m.own(100, cmd); o.Code != CodeInvalid {
			t.Errorf("%s: %v", name, o.Code)
		}
		if o, _ := newBench(t).m.own(100, AppendToBatch(AppendBatch(nil), cmd)); o.Code != CodeInvalid {
			t.Errorf("%s in a batch: %v", name, o.Code)
		}
	}
	newer := append(AppendVia(nil), 1, byte(opEnd))
	if o, _ := newBench(t).m.own(100, newer); o.Code != CodeUnsupported || !errors.Is(Known(newer), ErrUnsupported) {
		t.Errorf("a newer command: %v", o.Code)
	}
}

// Otherwise a crowd of clients, each with a key of its own, would keep the next voter out.
func TestClientsLeaveRoomForTheNodesThatMakeTheGroup(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.m.limits.nodes = 20
	for i := range byte(16) {
		b.must(Via{Hello{KeyNode([]byte{i}), 1, "client", Place{}, 0}}, CodeOK)
	}
	b.must(Via{Hello{client, 1, "client", Place{}, 0}}, CodeTooManyNodes)
	b.must(Hello{bound, 1, "gamma", Place{}, 0}, CodeOK)
}

// All nodes have left, and one returns: it is the fleet that comes back, whatever clients hang about.
func TestAClientThatStaysDoesNotKeepAFleetFromComingBack(t *testing.T) {
	t.Parallel()
	b, first, second := leavers(t)
	b.must(Via{Hello{client, 1, "client", Place{}, 0}}, CodeOK)
	b.reread()
	b.must(Hello{first, 2, "first", Place{}, 0}, CodeOK)
	if b.m.Departed(second) != Stays {
		t.Error("the first that returns would have the other removed")
	}
}

// The ids of all nodes are made of keys, and none of them passed for the id of a node with a replica:
// each process of a node whose last word was that it leaves took the word of all others back. Leave of
// a healthy node then waited for its removal in vain, and nothing kept it from the raft leadership.
func TestANodeThatComesBackDoesNotTakeBackThatOthersLeaveWhileOneStays(t *testing.T) {
	t.Parallel()
	for name, stays := range map[string][]Command{
		"a node with a replica":                  {Hello{bound, 1, "gamma", Place{}, 0}},
		"a client that has been given a replica": {Via{Hello{bound, 1, "gamma", Place{}, 0}}, Hello{bound, 1, "gamma", Place{}, 0}},
	} {
		b, first, second := leavers(t)
		for _, c := range stays {
			b.must(c, CodeOK)
			b.reread()
		}
		b.must(Hello{first, 2, "first", Place{}, 0}, CodeOK)
		if got := b.m.Departed(second); got != Leaves {
			t.Errorf("%s is here: the node that leaves %v", name, got)
		}
	}
}

// The entry that removes a node's replica may be in the log before the Hello of its next process.
func TestANodeThatReturnsMayHaveToGo(t *testing.T) {
	t.Parallel()
	b, first, second := leavers(t)
	b.must(Hello{bound, 1, "gamma", Place{}, 0}, CodeOK)
	for _, step := range []struct {
		incarnation uint64
		may         bool
	}{{2, true}, {3, false}} {
		b.must(Hello{first, step.incarnation, "first", Place{}, 0}, CodeOK)
		b.reread()
		if b.m.Departed(first) != Stays || b.m.MayGo(first) != step.may || !b.m.MayGo(second) || b.m.MayGo(bound) {
			t.Errorf("process %d: %v, may go %v", step.incarnation, b.m.Departed(first), b.m.MayGo(first))
		}
	}
}

// reread goes on with the machine that a snapshot makes.
func (b *bench) reread() {
	m, err := ReadSnapshot(bytes.NewReader(snapshot(b.m)))
	if err != nil {
		b.Fatal(err)
	}
	b.m = m
}

// leavers is a group whose nodes have all said that they leave, two of ids as nodes have them.
func leavers(t *testing.T) (b *bench, first, second Node) {
	b, first, second = newBench(t), KeyNode([]byte("first")), KeyNode([]byte("second"))
	for _, id := range []Node{first, second} {
		b.must(Hello{id, 1, "", Place{}, 0}, CodeOK)
	}
	for _, id := range []Node{{'a'}, {'b'}, first, second} {
		b.must(Goodbye{id, 1, Leaves}, CodeOK)
	}
	return b, first, second
}

func TestAKeyMakesTheIDOfItsClientAndOfNoReplica(t *testing.T) {
	t.Parallel()
	one, other := KeyNode([]byte("one")), KeyNode([]byte("other"))
	if one == other || one != KeyNode([]byte("one")) || !one.Bound() {
		t.Errorf("%v, %v", one, other)
	}
	random, err := ParseNode("6f1ad5f7-6d0b-4b3e-9c39-0e8a2c0d7a11")
	if err != nil || random.Bound() || (Node{'a'}).Bound() {
		t.Errorf("the id of a replica's node passes for a client's: %v", err)
	}
}

// bound is a node with a replica that may be a client, too: its id is made of a key as a client's is.
var bound = Node{0: 'c', 6: 0x80, 8: 0x80}

// client is the node without a replica.
var client = Node{0: 'd', 6: 0x80, 8: 0x80}

// sound says whether a client may say the command.
func (c Via) sound() bool {
	switch c := c.Command.(type) {
	case ForceRelease, Revoke, Forget, Ask, Resize, SetQuota:
		return true
	case Acquire, Withdraw, Release, SetValue, Keep, CloseSession, Finish, Hello, Goodbye, Act:
		return ProcessOf(c).Node.Bound()
	}
	return false
}

// roomFor is for how many nodes there is room when this one comes.
func (o *naive) roomFor(via bool) int {
	if via {
		return o.limits.nodes - o.limits.nodes/10
	}
	return o.limits.nodes
}

// command draws a command. That of a client comes by a replica, now and then that of a node which has
// one by now, and one that must not.
func (w *world) command() Command {
	c := w.direct()
	of, via := ProcessOf(c).Node, rapid.IntRange(0, 15).Draw(w.T, "via")
	if of == client || of == bound && via < 5 || via == 0 {
		return Via{c}
	}
	return c
}

// An event that changed on its way would tell a client of another's grant.
func TestAnEventTravelsWhole(t *testing.T) {
	t.Parallel()
	events := []Event{{Index: 7, Kind: EventValueSet, Value: []byte{}}, {
		Index: 1 << 40, Kind: EventGranted, Session: SessionID{client, 1, 300}, Request: 3, Name: "x", Token: TokenMax, Waited: true,
		TTL: time.Second, Reason: ReasonForced, Detail: "because", NodeName: "alpha", Value: []byte("v"),
		Terms: Terms{Label: "l", Delay: time.Second, Priority: -3, Limit: 5, Weight: 2, Mode: Permit, Election: true},
	}}
	again, err := DecodeEvents(AppendEvents(nil, events))
	if err != nil || !reflect.DeepEqual(again, events) {
		t.Errorf("%+v became %+v: %v", events, again, err)
	}
}

func FuzzDecodeEvents(f *testing.F) {
	f.Add(AppendEvents(nil, []Event{{Index: 7, Kind: EventGranted, Value: []byte("v"), Terms: Terms{Priority: -1}}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		events, err := DecodeEvents(b)
		if err != nil {
			return
		}
		if again, err := DecodeEvents(AppendEvents(nil, events)); err != nil || !reflect.DeepEqual(again, events) {
			t.Fatalf("%+v became %+v: %v", events, again, err)
		}
	})
}
