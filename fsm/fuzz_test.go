package fsm

import (
	"bytes"
	"encoding/binary"
	"math"
	"reflect"
	"testing"
	"time"
)

// everyCommand is one of each kind, with all its fields set.
func everyCommand() []Command {
	id := SessionID{Node{'a', 1, 2, 255}, 1, 300}
	return []Command{
		Birth{[16]byte{1, 2, 3}, 1 << 40, 5, 3},
		Serve{},
		Level{7},
		Hello{id.Node, 1, "alpha", Place{"3f1c", 1 << 40, 7}, 0},
		Goodbye{id.Node, 2, Gone},
		Remove{id.Node, 1, 12},
		Revoke{id.Node, 300, "its disk burnt"},
		Acquire{
			Session: id, TTL: 15 * time.Second, Request: 9, Acked: 8, Name: "orders/ä", Wait: true,
			Terms:    Terms{Mode: Permit, Limit: 5, Weight: 2, Priority: -3, Label: "a\nb", Delay: 3 * time.Second, Election: true},
			HasValue: true, Value: []byte{0, 255}, Others: []string{"x", "y"}, While: []uint64{100, 99}, Refuse: true,
		},
		Withdraw{id, 3, []uint64{1, 1 << 60}},
		Release{id, 4, []Grant{{"x", 1}, {"y", TokenMax}}, time.Second, true},
		SetValue{id, 5, 6, "x", 101, []byte("v")},
		Keep{id.Node, 1, 10, 2, []uint64{2, 3, 400}, 0},
		Keep{id.Node, 1, 11, 2, []uint64{2}, 7 * time.Second},
		CloseSession{id, true},
		Expire{id, 99},
		ForceRelease{"x", 101, "stuck"},
		Finish{id, 4, OnceName("mail"), 101, time.Hour},
		Turn{time.Hour, 99},
		Sweep{time.Hour, 98},
		EndRest{"x", 101},
		Raise{1 << 40},
		Continue{97},
		Forget{OnceName("mail"), 101},
		Ask{"x", 101, "maintenance"},
		Silent{12, []Silence{{id.Node, 2500 * time.Millisecond}, {Node{'b'}, 0}}},
		Batch{[]Command{CloseSession{id, true}, Release{id, 4, []Grant{{"x", 1}}, 0, false}}},
		Via{Goodbye{KeyNode([]byte("key")), 2, Gone}},
		Via{CloseSession{SessionID{KeyNode([]byte("key")), 1, 300}, true}},
		// presence counts
		Acquire{Session: id, HasValue: true, Value: []byte{}},
		Acquire{Session: id, HasValue: true},
		SetValue{Session: id, Value: []byte{}},
		SetValue{Session: id},
		RaiseTTL{time.Hour},
		Evict{Node: id.Node, Seen: 12, Reason: "its disk burnt"},
		Evict{Node: id.Node, Seen: 13, Refusal: ReasonHeard},
		Resize{"x", 5, 14},
		Hello{id.Node, 1, "alpha", Place{"3f1c", 1 << 40, 7}, 2},
		SetQuota{Quota{id.Node, "", 1000, 200, 3, 4096, 1 << 20}, 15, "it leaks"},
		SetQuota{Quota{Prefix: "orders/", Locks: 1 << 20}, 16, "it leaks"},
		Act{id.Process(), ActForceRelease, Node{}, "x", 17, 0, "it hangs"},
		Via{Act{Process{KeyNode([]byte("key")), 2}, ActRemoveNode, id.Node, "", 0, 0, "burnt"}},
		Via{SetQuota{Seen: 17, Reason: "for each node"}},
	}
}

func FuzzDecode(f *testing.F) {
	for _, c := range everyCommand() {
		f.Add(Encode(c))
	}
	f.Add([]byte{1, byte(opWithdraw), 0x1a, 0xff, 0xff, 0xff, 0xff, 0x0f}) // a long list that is not there
	f.Fuzz(func(t *testing.T, b []byte) {
		m := small(t)
		if _, events := m.own(m.Applied()+1, b); len(events) > 100 {
			t.Fatalf("%d events", len(events))
		}
		if err := m.Check(); err != nil {
			t.Fatal(err)
		}
		c, err := Decode(b)
		if err != nil {
			return
		}
		again, err := Decode(Encode(c))
		if err != nil || !reflect.DeepEqual(again, c) {
			t.Fatalf("%+v became %+v: %v", c, again, err)
		}
	})
}

func FuzzReadSnapshot(f *testing.F) {
	f.Add(snapshot(New()))
	f.Add(snapshot(small(f)))
	f.Fuzz(func(t *testing.T, b []byte) { readAndWrite(t, b) })
}

// FuzzReadRecords gets past the checksums: its input is the length of each frame and the frame.
func FuzzReadRecords(f *testing.F) {
	var seed []byte
	for _, part := range split(snapshot(small(f))) {
		seed = append(binary.BigEndian.AppendUint16(seed, uint16(len(part))), part...)
	}
	f.Add(seed)
	f.Fuzz(func(t *testing.T, b []byte) {
		var parts [][]byte
		for len(b) > 2 {
			size := min(int(binary.BigEndian.Uint16(b)), len(b)-2)
			if size == 0 {
				break
			}
			parts = append(parts, b[2:2+size])
			b = b[2+size:]
		}
		readAndWrite(t, frames(parts))
	})
}

// readAndWrite reads a snapshot; if that is one, the machine must be sound, and its own snapshot
// stable.
func readAndWrite(t *testing.T, b []byte) {
	m, err := ReadSnapshot(bytes.NewReader(b))
	if err != nil {
		return
	}
	once := snapshot(m)
	again, err := ReadSnapshot(bytes.NewReader(once))
	if err != nil || !bytes.Equal(snapshot(again), once) {
		t.Fatalf("what was read cannot be written: %v", err)
	}
	for n := range m.Nodes() { // the end of everybody takes every claim along
		m.own(m.Applied()+1, Encode(Revoke{n.Node, math.MaxUint64, "end"}))
		if err := m.Check(); err != nil && m.Applied() > 0 {
			t.Fatal(err)
		}
	}
	for range m.requests.Len() + m.sessions.Len() + m.finished.tree.Len() + m.teardowns.Len() {
		last, _ := m.Unfinished()
		m.own(m.Applied()+1, Encode(Continue{last}))
	}
	if m.Applied() < 1<<63 && m.Info().Grants+m.Info().Waiters != 0 {
		t.Fatalf("something is left: %+v", m.Info())
	}
}

func FuzzUnpack(f *testing.F) {
	for _, o := range []Outcome{
		{Code: CodeGranted, Token: TokenMax},
		{Lost: []uint64{1, 2, 3}},
		{Each: []Outcome{{Code: CodeGranted, Token: 7}, {Code: CodeHeld, Waiters: 3}}},
		{Code: CodeHeld, Waiters: 3, Holder: &Holder{
			Session: sessionOf('a', 1), Request: 2, NodeName: "alpha", Token: 3, Granted: 6,
			Terms: Terms{Label: "l", Mode: Permit, Weight: 4, Priority: -5, Limit: 6, Delay: time.Second, Election: true},
		}},
	} {
		value, data := o.Pack()
		f.Add(value, data)
	}
	f.Fuzz(func(t *testing.T, value uint64, data []byte) {
		o, err := Unpack(value, data)
		if err != nil {
			return
		}
		again, err := Unpack(o.Pack())
		if err != nil || !reflect.DeepEqual(o, again) {
			t.Fatalf("%+v became %+v: %v", o, again, err)
		}
	})
}
