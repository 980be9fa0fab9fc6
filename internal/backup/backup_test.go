package backup

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/frozen"
)

// state is one with a value, a holder and a Once key.
func state(t testing.TB) *fsm.Machine {
	t.Helper()
	m := fsm.New()
	id := fsm.SessionID{Node: fsm.Node{'a'}, Incarnation: 1, Number: 1}
	for i, c := range []fsm.Command{
		fsm.Birth{Cluster: [16]byte{1}, Counter: 100, Bootstrap: 1, Voters: 1}, fsm.Serve{},
		fsm.Hello{Node: id.Node, Incarnation: 1, Name: "alpha"},
		fsm.Acquire{Session: id, TTL: time.Minute, Request: 1, Name: "x", HasValue: true, Value: []byte("v")},
		fsm.Acquire{Session: id, TTL: time.Minute, Request: 2, Name: fsm.OnceName("k")},
		fsm.Finish{Session: id, Name: fsm.OnceName("k"), Token: 102, Keep: time.Hour},
	} {
		if o, _ := m.Apply(uint64(i+1), fsm.ProcessOf(c), fsm.Encode(c)); o.Code != fsm.CodeOK && o.Code != fsm.CodeGranted {
			t.Fatalf("%T: %v", c, o.Code)
		}
	}
	return m
}

func written(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	h := Header{Cluster: "fleet", Written: time.Unix(7, 0).UTC(), Node: "n", Voters: []string{"n", "m"}, Unconfirmed: true}
	if err := Write(&b, h, state(t), nil); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestABackupIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	h, m, err := Read(bytes.NewReader(written(t)))
	if err != nil {
		t.Fatal(err)
	}
	if h.Cluster != "fleet" || h.Commands != m.Commands() || !h.Unconfirmed || !slices.Equal(h.Voters, []string{"n", "m"}) || h.Written.Unix() != 7 {
		t.Errorf("%+v", h)
	}
	if l, _ := m.Lock("x"); string(l.Value) != "v" || m.Info().Keys != 1 {
		t.Errorf("%+v", m.Info())
	}
}

// Whatever was cut off, and whichever bit is another: the reader says so, and hands out no state.
func TestATruncatedOrAlteredBackupIsRefused(t *testing.T) {
	t.Parallel()
	good := written(t)
	for i := range good {
		if _, m, err := Read(bytes.NewReader(good[:i])); m != nil || !errors.Is(err, ErrDamaged) {
			t.Fatalf("cut after %d bytes: %v", i, err)
		}
		bad := bytes.Clone(good)
		bad[i] ^= 1 << (i % 8)
		if _, m, err := Read(bytes.NewReader(bad)); m != nil || !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNewer) {
			t.Fatalf("byte %d of %d changed: %v", i, len(good), err)
		}
	}
	if _, _, err := Read(bytes.NewReader(append(bytes.Clone(good), 0))); !errors.Is(err, ErrDamaged) {
		t.Errorf("one byte more: %v", err)
	}
	newer := bytes.Clone(good)
	newer[len(magic)]++
	if _, _, err := Read(bytes.NewReader(newer)); !errors.Is(err, ErrNewer) {
		t.Errorf("a newer one: %v", err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(written(f))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, m, err := Read(bytes.NewReader(b)); err == nil {
			if err := m.Check(); err != nil {
				t.Error(err)
			}
		}
	})
}

// The golden file is a backup of this version: later versions have to read it. Another format is
// another version, and another file.
func TestTheGoldenBackupIsWrittenAndReadAsItWas(t *testing.T) {
	t.Parallel()
	frozen.Check(t, "testdata/backup.v1", written(t))
	if _, _, err := Read(bytes.NewReader(written(t))); err != nil {
		t.Fatal(err)
	}
}

// A version that is older than the group of a backup would misread its state.
func TestABackupAboveTheLevelOfThisVersionIsRefusedByItsHeader(t *testing.T) {
	t.Parallel()
	m := state(t)
	hello := fsm.Hello{Node: fsm.Node{'a'}, Incarnation: 2, Level: fsm.LevelKnown + 1}
	for _, c := range []fsm.Command{hello, fsm.Level{Level: fsm.LevelKnown + 1}} {
		if o, _ := m.Apply(m.Applied()+1, fsm.ProcessOf(c), fsm.Encode(c)); o.Code != fsm.CodeOK {
			t.Fatalf("%T: %v", c, o.Code)
		}
	}
	var b bytes.Buffer
	if err := Write(&b, Header{Cluster: "fleet"}, m, nil); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("its group is at feature level %d, this version knows %d", fsm.LevelKnown+1, fsm.LevelKnown)
	if _, _, err := Read(&b); !errors.Is(err, ErrNewer) || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}
