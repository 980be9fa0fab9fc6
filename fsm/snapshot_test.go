package fsm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-go/holdfast/internal/frozen"
)

// entry is a command in the log.
type entry struct {
	index uint64
	cmd   []byte
}

// history draws a log, by way of the random world of the oracle.
func history(t *rapid.T, steps int) (log []entry) {
	w := newWorld(t, lowStep(t))
	for len(w.log) < steps {
		w.apply(w.command())
	}
	for i, c := range w.log {
		log = append(log, entry{uint64(i + 1), Encode(c)})
	}
	return log
}

func run(m *Machine, log []entry) *Machine {
	for _, e := range log {
		m.own(e.index, e.cmd)
	}
	return m
}

// own applies a command that the process proposed which it is about.
func (m *Machine) own(index uint64, cmd []byte) (Outcome, []Event) {
	var by Process
	if c, err := Decode(cmd); err == nil {
		by = ProcessOf(c)
	}
	return m.Apply(index, by, cmd)
}

func TestTheSameLogMakesTheSameSnapshotBytes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		log := history(t, 60)
		a, b := run(New(), log), New()
		for i := range log { // forks in between must not show
			b.Fork()
			run(b, log[i:i+1])
		}
		if !bytes.Equal(snapshot(a), snapshot(b)) {
			t.Fatal("two machines differ")
		}
	})
}

func TestReplayFromAnySnapshotIsReplayFromTheStart(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		log := history(t, 40)
		want := snapshot(run(New(), log))
		m := New()
		for i := range log {
			run(m, log[i:i+1])
			restored, err := ReadSnapshot(bytes.NewReader(snapshot(m)))
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(snapshot(run(restored, log[i+1:])), want) {
				t.Fatalf("replay from %d differs", i+1)
			}
		}
	})
}

// large is a machine with enough of everything to fill several frames and B-tree levels.
func large(t testing.TB) *bench {
	b := newBench(t)
	for i := range uint64(5000) {
		c := acquire(3*i+1, fmt.Sprintf("lock/%d", i*7919%5000))
		c.HasValue, c.Value = i%3 == 0, []byte("value")
		b.must(c, CodeGranted)
		c.Session, c.Label = sessionOf('b', i%50+1), "waits"
		b.must(c, CodeQueued)
	}
	return b
}

func TestAForkIsApartFromWhatItWasMadeFrom(t *testing.T) {
	t.Parallel()
	b := large(t)
	then := snapshot(b.m)
	fork := b.m.Fork()
	other := &bench{t, fork.Fork()} // a fork may go on as well
	done := make(chan []byte)
	go func() { done <- snapshot(fork) }()
	b.must(CloseSession{Session: sessionOf('a', 1)}, CodeOK)
	b.must(Hello{Node{'b'}, 2, "", Place{"boot", 1, 2}, 2}, CodeOK)
	if !bytes.Equal(<-done, then) {
		t.Fatal("the fork changed while it was written")
	}
	now := snapshot(b.m)
	other.must(Goodbye{Node{'a'}, 1, Gone}, CodeOK)
	if !bytes.Equal(snapshot(b.m), now) || !bytes.Equal(snapshot(fork), then) {
		t.Fatal("what was applied to a fork shows elsewhere")
	}
	for _, m := range []*Machine{b.m, fork, other.m} {
		if err := m.Check(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestASnapshotOfManyFramesComesBack(t *testing.T) {
	t.Parallel()
	m := large(t).m
	b := snapshot(m)
	if len(b) < 4*frameBytes {
		t.Fatalf("only %d bytes", len(b))
	}
	r := io.MultiReader(bytes.NewReader(b), bytes.NewReader([]byte("what follows")))
	restored, err := ReadSnapshot(r)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(snapshot(restored), b) {
		t.Fatal("restored machine differs")
	}
	if rest, _ := io.ReadAll(r); string(rest) != "what follows" {
		t.Fatalf("it read beyond the end mark: %q is left", rest)
	}
}

func TestASnapshotStopsWhenItIsTold(t *testing.T) {
	t.Parallel()
	stop := make(chan struct{})
	close(stop)
	if err := New().WriteSnapshot(io.Discard, stop); !errors.Is(err, ErrStopped) {
		t.Fatal(err)
	}
}

func TestASnapshotAnswersItsWritersError(t *testing.T) {
	t.Parallel()
	full, m := errors.New("disk full"), large(t).m
	for room := range 4 {
		w := writerFunc(func(b []byte) (int, error) {
			if room--; room < 0 {
				return 0, full
			}
			return len(b), nil
		})
		if err := m.WriteSnapshot(w, nil); !errors.Is(err, full) {
			t.Fatal(err)
		}
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// small is a machine with one of everything.
func small(t testing.TB) *Machine {
	b := newBench(t)
	for i, mode := range []Mode{Exclusive, Shared, Permit} {
		c := acquire(uint64(2*i+1), mode.String())
		c.Mode, c.HasValue, c.Value, c.Label, c.Priority = mode, true, []byte("v"), "l", -1
		if mode == Permit {
			c.Limit, c.Weight = 3, 2
		}
		b.must(c, CodeGranted)
		c.Request++
		if mode != Permit {
			c.Mode = Exclusive
		}
		b.must(c, CodeQueued)
	}
	smallKinds(b)
	b.must(Ask{"exclusive", b.m.lock("exclusive").last, "please"}, CodeOK)
	b.must(Keep{Node: Node{'a'}, Incarnation: 1, Seq: 3, Lowest: 1, Sessions: []uint64{1, 7}}, CodeOK)
	b.must(Withdraw{Session: sessionOf('a', 1), Acked: 2, Requests: []uint64{30}}, CodeOK)
	b.must(Goodbye{Node{'b'}, 1, Stays}, CodeOK)
	b.must(Level{2}, CodeOK)
	smallResize(b)
	smallEnds(b)
	return b.m
}

// smallResize adds a semaphore that was resized while it waits, one that nobody uses any more, and
// rests under two limits.
func smallResize(b *bench) {
	for i, name := range []string{"resized", "idle"} {
		c := acquire(uint64(40+10*i), name)
		c.Mode, c.Limit, c.Weight, c.Delay = Permit, 4, 3, time.Second
		token := b.must(c, CodeGranted).Token
		b.must(Resize{name, 3, b.m.Commands()}, CodeOK)
		rest := time.Second
		if name == "idle" {
			rest = 0
		}
		b.must(Release{Session: sessionOf('a', 1), Grants: []Grant{{name, token}}, Rest: rest}, CodeOK)
	}
	c := acquire(42, "resized")
	c.Mode, c.Limit, c.Weight = Permit, 4, 2
	b.must(c, CodeQueued)
	c.Request++
	b.must(c, CodeQueued)
	steps := b.m.limits.step
	b.m.limits.step = 0 // so that the next command does not look at the waiters
	b.must(Resize{"resized", 1, b.m.Commands()}, CodeOK)
	b.m.limits.step = steps
}

// smallEnds adds two ends of which something is left: of c's former process, and of what the one
// after that waits for.
func smallEnds(b *bench) {
	b.must(Hello{Node{'c'}, 1, "gamma", Place{"boot", 1, 3}, 2}, CodeOK)
	c := acquire(1, "end/1")
	c.Session = SessionID{Node{'c'}, 1, 1}
	b.must(c, CodeGranted)
	c.Session.Number, c.Name = 2, "end/2"
	b.must(c, CodeGranted)
	b.m.limits.step = 1
	b.must(Hello{Node{'c'}, 2, "gamma", Place{"boot", 1, 3}, 2}, CodeOK)
	c.Session, c.TTL = SessionID{Node{'c'}, 2, 1}, time.Hour
	for range 3 {
		b.must(c, CodeQueued)
		c.Request++
	}
	b.must(Hello{Node{'c'}, 3, "gamma", Place{}, 3}, CodeOK)
	c.Session, c.Request, c.Name, c.Mode = sessionOf('a', 1), 21, "crowd", Shared
	writer := b.must(acquire(20, "crowd"), CodeGranted).Token
	for range 3 {
		b.must(c, CodeQueued)
		c.Request++
	}
	b.must(Release{Session: c.Session, Grants: []Grant{{"crowd", writer}}}, CodeOK)
	b.m.limits.step = stepMax
}

// smallKinds adds a set that holds and one that waits, a rest, a Once key and its class, and their
// past.
func smallKinds(b *bench) {
	c := acquire(11, "set/1")
	c.Others, c.Delay, c.HasValue, c.Value = []string{"set/3", "set/2"}, time.Second, true, []byte("s")
	b.must(c, CodeGranted)
	c.Request, c.Name, c.Others, c.While = 12, "set/2", []string{"set/1"}, []uint64{1, 2}
	b.must(c, CodeQueued)
	token := b.must(acquire(13, "rests"), CodeGranted).Token
	b.must(Release{Session: c.Session, Grants: []Grant{{"rests", token}}, Rest: time.Second}, CodeOK)
	for i := range uint64(2) {
		name := OnceName(fmt.Sprint("key/", i))
		token = b.must(acquire(14+i, name), CodeGranted).Token
		b.must(Finish{Session: c.Session, Name: name, Token: token, Keep: time.Hour}, CodeOK)
	}
	b.must(Turn{Keep: keepOf(classOf(time.Hour)), Last: b.m.Classes()[0].Last}, CodeOK)
}

func keepOf(millis uint64) time.Duration { return time.Duration(millis) * time.Millisecond }

func TestADamagedSnapshotIsRefused(t *testing.T) {
	t.Parallel()
	good := snapshot(small(t))
	for i := range good {
		if _, err := ReadSnapshot(bytes.NewReader(good[:i])); !errors.Is(err, ErrMalformed) {
			t.Fatalf("cut after %d bytes: %v", i, err)
		}
		bad := bytes.Clone(good)
		bad[i] ^= 1 << (i % 8)
		_, err := ReadSnapshot(bytes.NewReader(bad))
		if version := i == len(snapshotMagic); !errors.Is(err, ErrMalformed) && !(version && errors.Is(err, ErrUnsupported)) {
			t.Fatalf("byte %d changed: %v", i, err)
		}
	}
	broken := errors.New("disk")
	r := io.MultiReader(bytes.NewReader(good[:40]), readerFunc(func([]byte) (int, error) { return 0, broken }))
	if _, err := ReadSnapshot(r); !errors.Is(err, broken) {
		t.Fatal(err)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// A record may be missing or wrong though all checksums are right: then the invariants refuse it.
func TestASnapshotThatDoesNotAddUpIsRefused(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(m *Machine){
		"two tokens for one":  func(m *Machine) { l, _ := m.locks.Get("exclusive"); l.holder.token = 2 },
		"counter set back":    func(m *Machine) { m.counter = 1 },
		"last token set back": func(m *Machine) { m.lock("shared").last = 1 },
		"no session":          func(m *Machine) { m.sessions.Delete(sessionRef{id: sessionOf('a', 1)}) },
		"no node":             func(m *Machine) { m.nodes.Delete(first(m)) },
		"node of another run": func(m *Machine) { n := first(m); m.nodes.Delete(n); n.incarnation = 2; m.nodes.Set(n) },
		"number never used":   func(m *Machine) { n := first(m); m.numbers.drop(n.born) },
		"over with numbers":   func(m *Machine) { n := first(m); n.gone, n.over = 9, true; m.nodes.Set(n) },
		"over, and it waits": func(m *Machine) {
			n := first(m)
			m.numbers.drop(n.born)
			n.gone, n.over, n.born, n.since = 9, true, 0, 0
			m.nodes.Set(n)
		},
		"numbers of nobody":     func(m *Machine) { m.numbers.insert(77, 1) },
		"request live and over": func(m *Machine) { m.finished.insert(m.session(sessionOf('a', 1)).opened, 3) },
		"overlapping runs":      func(m *Machine) { m.finished.tree.Set(span{m.session(sessionOf('a', 1)).opened, 29, 31}) },
		"nobody holds it":       func(m *Machine) { m.lock("exclusive").holder = nil },
		"waiters untold":        func(m *Machine) { m.lock("exclusive").told = 0 },
		"another limit":         func(m *Machine) { c := m.firstHolder(m.lock("permit")); c.Limit = 1 },
		"unused lock":           func(m *Machine) { m.locks.Set("unused", &lock{name: "unused"}) },
		"bad name":              func(m *Machine) { m.locks.Set("\n", &lock{name: "\n", value: &value{}}) },
		"session without TTL":   func(m *Machine) { m.session(sessionOf('a', 1)).ttl = 0 },
		"renewed in the future": func(m *Machine) { m.session(sessionOf('a', 1)).renewed = 1 << 40 },
		"serving unborn":        func(m *Machine) { m.born = false },
		"grants before serving": func(m *Machine) { m.serving = false },
		"a set without a claim": func(m *Machine) {
			l := m.lock("set/3")
			l.holder, l.holders = nil, 0
			m.locks.Delete("set/3")
			m.grants--
		},
		"a set with two tokens": func(m *Machine) { m.lock("set/3").holder.token-- },
		"a set of one":          func(m *Machine) { m.lock("set/1").holder.more.set.claims = m.lock("set/1").holder.more.set.claims[:1] },
		"rest above the last":   func(m *Machine) { firstRest(m).token = 1 << 40 },
		"rest without time":     func(m *Machine) { firstRest(m).millis = 0 },
		"key of no class":       func(m *Machine) { m.classes.Clear() },
		"key that runs":         func(m *Machine) { m.locks.Set(OnceName("key/0"), &lock{name: OnceName("key/0"), value: &value{}}) },
		"key of the future":     func(m *Machine) { r, _ := m.keys.Get(&onceRecord{name: OnceName("key/0")}); r.index = 1 << 40 },
		"turns that go back":    func(m *Machine) { k, _ := m.classes.Get(classOf(time.Hour)); slices.Reverse(k.turns) },
		"class of no key":       func(m *Machine) { m.classes.Set(1, class{turns: []uint64{1}}) },
		"past of the future":    func(m *Machine) { firstPast(m).ended = 1 << 40 },
		"past without token":    func(m *Machine) { firstPast(m).token = 0 },
	} {
		refusesChanged(t, name, change)
	}
}

func TestASnapshotWhoseEndsDoNotAddUpIsRefused(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(m *Machine){
		"no end of the ended": func(m *Machine) { m.teardowns.Delete(firstEnd(m, func(t teardown) bool { return t.id.Number != 0 })) },
		"no end of a process": func(m *Machine) {
			m.teardowns.Delete(firstEnd(m, func(t teardown) bool { return t.id.Number == 0 && !t.waits }))
		},
		"no end of its waiting": func(m *Machine) { m.teardowns.Delete(firstEnd(m, func(t teardown) bool { return t.waits })) },
		"the end of the open": func(m *Machine) {
			m.teardowns.Set(teardown{began: 1, id: sessionOf('a', 1), how: ending{reason: ReasonLeft}})
		},
		"the end of nobody": func(m *Machine) {
			m.teardowns.Set(teardown{began: 1, id: sessionOf('a', 9), how: ending{reason: ReasonLeft}})
		},
		"end without a reason": func(m *Machine) { changeEnd(m, func(t *teardown) { t.how.reason = ReasonNone }) },
		"end of the future":    func(m *Machine) { changeEnd(m, func(t *teardown) { t.began = 1 << 40 }) },
		"end that is past": func(m *Machine) {
			changeEnd(m, func(t *teardown) { t.number = 9 })
		},
		"withdrawal that is past": func(m *Machine) {
			t := firstEnd(m, func(t teardown) bool { return t.waits })
			t.number = 9
			m.teardowns.Set(t)
		},
		"step of the future":  func(m *Machine) { m.stepped = 1 << 40 },
		"nobody serves them":  func(m *Machine) { m.postpone(m.lock("crowd"), false) },
		"nobody to be served": func(m *Machine) { m.postpone(m.lock("shared"), true); m.postpone(m.lock("set/3"), true) },
	} {
		refusesChanged(t, name, change)
	}
}

// refusesChanged fails the test if the snapshot of a changed machine is read.
func refusesChanged(t *testing.T, name string, change func(m *Machine)) {
	t.Helper()
	m := small(t)
	change(m)
	if _, err := ReadSnapshot(bytes.NewReader(snapshot(m))); !errors.Is(err, ErrInvariant) && !errors.Is(err, ErrMalformed) {
		t.Errorf("%s: %v", name, err)
	}
}

// first is the record of a's process.
func first(m *Machine) node { n, _ := m.process(Node{'a'}, 1); return n }

func firstRest(m *Machine) *rest { r, _ := m.rests.Min(); return r }

// firstEnd is the first teardown of a kind.
func firstEnd(m *Machine, kind func(teardown) bool) (found teardown) {
	for _, t := range m.teardowns.Items() {
		if kind(t) {
			return t
		}
	}
	panic("none")
}

// changeEnd changes the teardown of a process.
func changeEnd(m *Machine, change func(*teardown)) {
	t := firstEnd(m, func(t teardown) bool { return t.id.Number == 0 && !t.waits })
	m.teardowns.Delete(t)
	change(&t)
	m.teardowns.Set(t)
}

func firstPast(m *Machine) *pastGrant { l, _ := m.past.aged.Min(); return &l.grants[0] }

func TestASnapshotThatLacksAFrameIsRefused(t *testing.T) {
	t.Parallel()
	parts := split(snapshot(small(t)))
	if len(parts) != int(frameEnd) {
		t.Fatalf("%d frames", len(parts))
	}
	for i := range parts {
		less := slices.Delete(slices.Clone(parts), i, i+1)
		if _, err := ReadSnapshot(bytes.NewReader(frames(less))); err == nil {
			t.Errorf("without frame %d", i+1)
		}
	}
	slices.Reverse(parts[:2])
	if _, err := ReadSnapshot(bytes.NewReader(frames(parts))); !errors.Is(err, ErrMalformed) {
		t.Error("frames in another order")
	}
}

func TestAHugeFrameIsRefusedUnread(t *testing.T) {
	t.Parallel()
	b := append([]byte(snapshotMagic), snapshotVersion, byte(frameGroup))
	b = binary.LittleEndian.AppendUint32(b, 1<<31)
	if _, err := ReadSnapshot(bytes.NewReader(b)); !errors.Is(err, ErrMalformed) {
		t.Fatal(err)
	}
}

// The golden file is a snapshot of this version: later versions have to read it.
func TestTheGoldenSnapshotIsWrittenAndReadAsItWas(t *testing.T) {
	t.Parallel()
	b := snapshot(small(t))
	frozen.Check(t, "testdata/snapshot.v1", b)
	m, err := ReadSnapshot(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(snapshot(m), b) {
		t.Fatal("a snapshot that was read is written otherwise")
	}
}

// split is the inverse of frames.
func split(b []byte) (parts [][]byte) {
	for b = b[len(snapshotMagic)+1:]; len(b) > 0; {
		size := int(binary.LittleEndian.Uint32(b[1:]))
		parts = append(parts, append([]byte{b[0]}, b[frameHead:frameHead+size]...))
		b = b[frameHead+size+crc32.Size:]
	}
	return parts
}

// frames makes a snapshot with good checksums out of parts, the first byte of each being its kind.
func frames(parts [][]byte) []byte {
	b := append([]byte(snapshotMagic), snapshotVersion)
	for _, part := range parts {
		at := len(b)
		b = append(b, part[0])
		b = binary.LittleEndian.AppendUint32(b, uint32(len(part)-1))
		b = append(b, part[1:]...)
		b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[at:], crc32.MakeTable(crc32.Castagnoli)))
	}
	return b
}
