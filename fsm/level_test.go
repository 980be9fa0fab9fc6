package fsm

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// What a later version adds is told from what this one writes by one table, whatever it is wrapped in.
func TestACommandNeedsTheLevelOfWhatIsInIt(t *testing.T) {
	t.Parallel()
	all := []addition{{operation: opResize, level: 2}, {operation: opAcquire, field: 16, level: 3}, {operation: opAcquire, field: 18, level: 4}}
	plain := Acquire{Session: sessionOf('a', 1), Name: "x", Wait: true}
	refuses, elects := plain, plain
	refuses.Refuse = true
	elects.Refuse, elects.Election = true, true
	for _, tc := range []struct {
		name  string
		cmd   []byte
		level uint64
	}{
		{"of level 1", Encode(Serve{}), 1},
		{"of a later operation", Encode(Resize{"x", 5, 14}), 2},
		{"with none of the later fields", Encode(plain), 1},
		{"with a later field", Encode(refuses), 3},
		{"with two later fields", Encode(elects), 4},
		{"of a client", Encode(Via{elects}), 4},
		{"of an operation that is not known", []byte{commandVersion, byte(opEnd)}, LevelKnown + 1},
		{"of a client, of an operation that is not known", append(AppendVia(nil), commandVersion, byte(opEnd)), LevelKnown + 1},
		{"of a version that is not known", []byte{commandVersion + 1, 1}, LevelKnown + 1},
		{"nothing", nil, 1},
	} {
		if got := needs(tc.cmd, all); got != tc.level {
			t.Errorf("a command %s needs level %d, want %d", tc.name, got, tc.level)
		}
	}
}

// The commands of this version are of the levels that it knows, and whatever is above them is in the
// table: a command of level 1 that was added to it would be refused by a group that has it in its log.
func TestEveryCommandOfThisVersionIsOfALevelThatItKnows(t *testing.T) {
	t.Parallel()
	for _, c := range everyCommand() {
		inner, want := c, uint64(1)
		if v, via := c.(Via); via {
			inner = v.Command
		}
		switch inner.(type) {
		case SetQuota, Act:
			want = 2
		}
		if got := Needs(Encode(c)); got != want {
			t.Errorf("%T is of level %d, and needs %d", c, want, got)
		}
	}
	for o := op(1); o < opEnd; o++ {
		cmd := []byte{commandVersion, byte(o)}
		if _, err := Decode(cmd); errors.Is(err, ErrUnsupported) {
			t.Errorf("operation %d is not read: %v", o, err)
		}
		if level := Needs(cmd); level > LevelKnown || o > opResize && level == 1 {
			t.Errorf("operation %d needs level %d", o, level)
		}
	}
	for _, a := range additions() {
		if a.level < 2 || a.level > LevelKnown {
			t.Errorf("%+v is of no level above 1 that this version knows", a)
		}
	}
}

// A record that a later version has added was told as damage, for which the way out is to delete the
// directory: the level was looked at when all had been read.
func TestASnapshotOfALaterLevelIsUnsupportedAndNotDamaged(t *testing.T) {
	t.Parallel()
	const level = LevelKnown + 1
	unknown := protowire.AppendBytes(nil, protowire.AppendVarint(protowire.AppendTag(nil, 900, protowire.VarintType), 1))
	for name, change := range map[string]func(m *Machine, parts [][]byte) [][]byte{
		"a record that is not known": func(_ *Machine, parts [][]byte) [][]byte {
			parts[frameRests-1] = append(parts[frameRests-1], unknown...)
			return parts
		},
		"a frame that is not known": func(_ *Machine, parts [][]byte) [][]byte {
			return append(parts[:len(parts)-1], append([]byte{byte(frameEnd) + 1}, unknown...))
		},
		"what breaks an invariant of this version": func(m *Machine, _ [][]byte) [][]byte {
			m.session(sessionOf('a', 1)).ttl = 0
			return split(snapshot(m))
		},
	} {
		for _, at := range []uint64{level, LevelKnown} {
			m := small(t)
			m.level = at
			_, err := ReadSnapshot(bytes.NewReader(frames(change(m, split(snapshot(m))))))
			if later := at > LevelKnown; errors.Is(err, ErrUnsupported) != later || !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrInvariant) {
				t.Errorf("%s, at level %d: %v", name, at, err)
			} else if later && !strings.Contains(err.Error(), "the group is at feature level") {
				t.Errorf("%s: no levels are named: %v", name, err)
			}
		}
	}
	m, disk := small(t), errors.New("disk")
	m.level = level
	b := snapshot(m)
	r := io.MultiReader(bytes.NewReader(b[:len(b)-1]), readerFunc(func([]byte) (int, error) { return 0, disk }))
	if _, err := ReadSnapshot(r); !errors.Is(err, disk) || errors.Is(err, ErrUnsupported) {
		t.Errorf("the disk fails: %v", err)
	}
	if _, err := ReadSnapshot(bytes.NewReader(b)); err != nil {
		t.Errorf("with nothing that is not known: %v", err)
	}
}

// The level rises over nobody's head, and nobody comes in below it.
func TestTheLevelOfAGroupIsKnownToAllThatMayAsk(t *testing.T) {
	t.Parallel()
	b := &bench{t, New()}
	b.must(Birth{Cluster: [16]byte{1}}, CodeOK)
	b.must(Serve{}, CodeOK)
	hello := func(node byte, incarnation, level uint64) Hello {
		return Hello{Node: Node{node}, Incarnation: incarnation, Level: level}
	}
	if b.m.Level() != 1 || b.m.Info().Level != 1 {
		t.Fatal("a group begins above level 1")
	}
	b.must(hello('a', 1, 0), CodeOK) // of a version that said nothing of levels
	b.must(hello('b', 1, 2), CodeOK)
	b.must(Level{2}, CodeTooOld)
	b.must(hello('a', 2, 3), CodeOK)
	b.must(Level{3}, CodeTooOld)
	b.must(Level{2}, CodeOK)
	b.must(Level{1}, CodeOK)
	if b.m.Level() != 2 {
		t.Fatal("the level has fallen")
	}
	b.must(hello('b', 1, 2), CodeOK) // again
	b.must(hello('c', 1, 1), CodeTooOld)
	b.must(hello('b', 2, 1), CodeTooOld)
	b.must(hello('c', 1, 2), CodeOK)

	held := b.must(acquireOf('c', "x"), CodeGranted).Token
	var since uint64
	for n := range b.m.Nodes() {
		if n.Node == (Node{'c'}) {
			since = n.Since
		}
	}
	b.must(Remove{Node{'c'}, 1, since}, CodeOK)
	b.must(hello('b', 2, 3), CodeOK)
	b.must(Level{3}, CodeTooOld) // for the sake of a session
	b.must(Release{Session: sessionOf('c', 1), Grants: []Grant{{"x", held}}, Close: true}, CodeOK)
	b.must(Level{3}, CodeOK)
	again := acquireOf('c', "x")
	again.Session.Number = 2
	b.must(again, CodeTooOld) // it comes back without a Hello
	b.must(hello('c', 2, 3), CodeOK)
	again.Session.Incarnation = 2
	b.must(again, CodeGranted)
}

func acquireOf(node byte, name string) Acquire {
	c := acquire(1, name)
	c.Session = sessionOf(node, 1)
	return c
}
