package fsm

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"
)

// A full batch is one entry of the log, which holds everybody up: however much each of its commands
// brings, the entry does no more than its bound, and what is left of it is done by further entries.
func TestNoBatchDoesMoreThanAnEntryMay(t *testing.T) {
	t.Parallel()
	batches := heavyEnds()
	maps.Copy(batches, heavyAsks())
	for name, prepare := range batches {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, last := newBench(t), SetMax
			if name == owed {
				last *= ListMax
			}
			for _, first := range []SessionID{sessionOf('a', 1), sessionOf('b', 1)} {
				b.must(Acquire{Session: first, TTL: time.Second, Request: 1 << 30, Name: fmt.Sprint("first of ", first.Node[0])}, CodeGranted)
			}
			if entries := b.inEntries(prepare(b), last); entries < 2 {
				t.Errorf("all of it took %d entry", entries)
			}
			if err := b.m.Check(); err != nil {
				t.Error(err)
			}
		})
	}
}

// owed is the heaviest command.
const owed = "a session releases the sets that it owes"

// holders is how many share a lock, or wait to.
const holders = 2000

// heavyEnds are batches that end much.
func heavyEnds() map[string]func(b *bench) []Command {
	return map[string]func(b *bench) []Command{
		"sessions with many locks are closed": func(b *bench) []Command {
			return times(BatchMax, func(i uint64) Command {
				for j := range uint64(SetMax) {
					c := acquire(j+1, fmt.Sprint(i, "/", j))
					c.Session.Number = i
					b.must(c, CodeGranted)
				}
				return CloseSession{Session: sessionOf('a', i)}
			})
		},
		"sessions with many finished requests are closed": func(b *bench) []Command {
			return times(BatchMax, func(i uint64) Command {
				c := acquire(1, "x")
				c.Session.Number, c.Mode = i, Shared
				b.must(c, CodeGranted)
				w := Withdraw{Session: c.Session}
				for j := range uint64(ListMax) {
					w.Requests = append(w.Requests, 3+2*j)
				}
				b.m.own(b.m.Applied()+1, Encode(w)) // not must, which checks all of it each time
				return CloseSession{Session: c.Session}
			})
		},
		"large sets are released": func(b *bench) []Command {
			return times(BatchMax, func(i uint64) Command {
				c := setOf(i, fmt.Sprint(i))
				return Release{Session: c.Session, Grants: []Grant{{c.Name, b.must(c, CodeGranted).Token}}}
			})
		},
		owed: func(b *bench) []Command {
			return times(4, func(i uint64) Command {
				r := Release{Session: sessionOf('a', 1)}
				for j := range uint64(ListMax) {
					c := setOf(i*ListMax+j, fmt.Sprint(i, "/", j))
					r.Grants = append(r.Grants, Grant{c.Name, b.must(c, CodeGranted).Token})
				}
				return r
			})
		},
		"crowds are served": func(b *bench) []Command {
			return times(20, func(i uint64) Command {
				name := fmt.Sprint(i)
				token := b.must(acquire(i, name), CodeGranted).Token
				manyReaders(b, name, CodeQueued, holders)
				return Release{Session: sessionOf('a', 1), Grants: []Grant{{name, token}}}
			})
		},
	}
}

// heavyAsks are batches that ask for much.
func heavyAsks() map[string]func(b *bench) []Command {
	return map[string]func(b *bench) []Command{
		"large sets are free": func(*bench) []Command {
			return times(BatchMax, func(i uint64) Command { return setOf(i, fmt.Sprint(i)) })
		},
		"large sets are waited for": func(b *bench) []Command {
			return times(BatchMax, func(i uint64) Command {
				c := setOf(i, fmt.Sprint(i%8))
				c.Session = sessionOf('b', 1)
				if i <= 8 {
					b.must(c, CodeGranted)
				}
				c.Session = sessionOf('a', 1)
				return c
			})
		},
		"readers are told that somebody writes": func(b *bench) []Command {
			return times(40, func(i uint64) Command {
				manyReaders(b, fmt.Sprint("read ", i), CodeGranted, holders)
				return acquire(i, fmt.Sprint("read ", i))
			})
		},
	}
}

// inEntries carries out commands as a batch, those that are to come later as another, and what is
// left then. It returns how many entries that took, none of which does more than it may.
func (b *bench) inEntries(cmds []Command, last int) (entries int) {
	const most = (stepsOfEntry*stepMax + 2*stepMax) * costOfClaim // and what its last command brings
	for left := true; left || len(cmds) > 0; entries++ {
		var cmd Command = Batch{cmds}
		if len(cmds) == 0 {
			at, _ := b.m.Unfinished()
			cmd = Continue{at}
		}
		o, events := b.m.Apply(b.m.Applied()+1, ProcessOf(cmd), Encode(cmd))
		if b.m.work > most+last*costOfClaim {
			b.Fatalf("entry %d, %T, did %d, of %d at most, with %d events", entries, cmd, b.m.work, most, len(events))
		}
		first := slices.IndexFunc(o.Each, func(o Outcome) bool { return o.Code == CodeLater })
		switch {
		case first == 0:
			b.Fatal("a batch of which nothing is carried out")
		case first > 0:
			cmds = cmds[first:]
		default:
			cmds = nil
		}
		_, left = b.m.Unfinished()
	}
	return entries
}

func times[T any](n uint64, make func(i uint64) T) (all []T) {
	for i := range n {
		all = append(all, make(i+1))
	}
	return all
}

// setOf asks for as many names as a set has at most.
func setOf(request uint64, prefix string) Acquire {
	c := acquire(request, prefix)
	for i := range SetMax - 1 {
		c.Others = append(c.Others, fmt.Sprint(prefix, "/", i))
	}
	return c
}

// manyReaders lets many ask for a lock to be shared.
func manyReaders(b *bench, name string, want Code, n uint64) {
	c := acquire(0, name)
	c.Session, c.Mode = sessionOf('b', 1), Shared
	for range n {
		c.Request = b.m.Commands() + 1
		b.must(c, want)
	}
}

// What callers ask for every day fits: each ends a grant and serves a waiter.
func TestABatchOfHandOversIsCarriedOutAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	release := times(BatchMax, func(i uint64) Command {
		c := acquire(i, fmt.Sprint(i))
		token := b.must(c, CodeGranted).Token
		for range 2 {
			c.Session, c.Request = sessionOf('b', 1), c.Request+BatchMax
			b.must(c, CodeQueued)
		}
		return Release{Session: sessionOf('a', 1), Grants: []Grant{{c.Name, token}}}
	})
	o, _ := b.m.Apply(b.m.Applied()+1, Process{Node{'a'}, 1}, Encode(Batch{release}))
	_, left := b.m.Unfinished()
	if left || slices.ContainsFunc(o.Each, func(o Outcome) bool { return o.Code != CodeOK }) || b.m.Info().Grants != BatchMax {
		t.Errorf("left %v, %d grants, %v", left, b.m.Info().Grants, o.Each)
	}
}

// What is to come later leaves nothing behind, and has no number.
func TestWhatIsToComeLaterWasNotCarriedOut(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.m.limits.step = 1
	before := b.m.Commands()
	var cmds []Command
	for i := range uint64(20) {
		c := acquire(i+1, fmt.Sprint(i))
		c.Session.Number = i + 1
		cmds = append(cmds, c)
	}
	o, _ := b.m.Apply(b.m.Applied()+1, Process{Node{'a'}, 1}, Encode(Batch{cmds}))
	for i, one := range o.Each {
		want := CodeGranted
		if i >= stepsOfEntry {
			want = CodeLater
		}
		if _, open := b.m.Session(sessionOf('a', uint64(i+1))); one.Code != want || open != (want == CodeGranted) {
			t.Errorf("command %d: %v, session open %v", i, one.Code, open)
		}
	}
	if got := b.m.Commands() - before; got != stepsOfEntry {
		t.Errorf("%d commands are counted", got)
	}
}

// Searches for cycles are not counted as work, but they end an entry, too.
func TestABatchDoesNotSearchWithoutEnd(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	own := b.must(acquire(1, "own"), CodeGranted).Token
	manyReaders(b, "x", CodeGranted, tracerSteps/2)
	cmds := times(10, func(i uint64) Command {
		c := acquire(1+i, "x")
		c.While, c.Refuse = []uint64{own}, true
		return c
	})
	o, _ := b.m.Apply(b.m.Applied()+1, Process{Node{'a'}, 1}, Encode(Batch{cmds}))
	if o.Each[0].Code != CodeQueued || o.Each[9].Code != CodeLater || b.m.traced > 2*tracerSteps {
		t.Errorf("%d steps: %v", b.m.traced, o.Each)
	}
}

// Readers whom a writer waits for are told so in steps, each once, whoever else asks meanwhile.
func TestReadersAreToldInStepsThatSomebodyWrites(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const readers = 50
	manyReaders(b, "x", CodeGranted, readers)
	b.m.limits.step = 1
	told := make(map[uint64]int)
	var cmd Command = acquire(1, "x")
	entries := 0
	for left := true; left; entries++ {
		_, events := b.m.Apply(b.m.Applied()+1, ProcessOf(cmd), Encode(cmd))
		for _, e := range events {
			if e.Kind == EventWanted {
				told[e.Token]++
			}
		}
		if len(events) > costOfClaim+3 { // one is of its session, one of itself, one of what is left
			t.Errorf("%T brings %d events", cmd, len(events))
		}
		if err := b.m.Check(); err != nil {
			t.Fatal(err)
		}
		var last uint64
		last, left = b.m.Unfinished()
		cmd = Continue{last}
	}
	for token, times := range told {
		if times != 1 {
			t.Errorf("the holder of %d is told %d times", token, times)
		}
	}
	if l, _ := b.m.Lock("x"); len(told) != readers || !l.Wanted || entries != 4 {
		t.Errorf("%d of %d are told in %d entries", len(told), readers, entries)
	}
}

// A client that has heard of all its answers at once, and a process that is over, took 50 ms each:
// nothing counted how many runs of numbers were forgotten, and there may be 65,536.
func TestRunsOfNumbersAreForgottenInStepsOrAreFew(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const sessions = stepsOfEntry + 1
	for n := range uint64(sessions) {
		c := acquire(1, "x")
		c.Session.Number, c.Mode = n+1, Shared
		b.must(c, CodeGranted)
		for i := range uint64(3 * pruneMax / ListMax) {
			w := Withdraw{Session: c.Session}
			for j := range uint64(ListMax) {
				w.Requests = append(w.Requests, 3+2*(ListMax*i+j))
			}
			b.m.Apply(b.m.Applied()+1, ProcessOf(w), Encode(w))
		}
	}
	all := b.m.finished.tree.Len()
	batch := times(sessions, func(n uint64) Command { return Withdraw{Session: sessionOf('a', n), Acked: 1 << 30} })
	b.must(batch[0], CodeOK)
	if forgotten := all - b.m.finished.tree.Len(); forgotten != pruneMax {
		t.Errorf("one command forgets %d of %d runs", forgotten, all)
	}
	o, _ := b.m.Apply(b.m.Applied()+1, Process{Node{'a'}, 1}, Encode(Batch{batch}))
	if o.Each[stepsOfEntry-1].Code != CodeOK || o.Each[stepsOfEntry].Code != CodeLater {
		t.Errorf("a batch forgets %d runs: %+v", all-b.m.finished.tree.Len(), o.Each)
	}
	b.must(Withdraw{Session: sessionOf('a', 1), Requests: []uint64{4}}, CodeOK) // below what was heard of
	restored, err := ReadSnapshot(bytes.NewReader(snapshot(b.m)))
	if err != nil {
		t.Fatal(err)
	}
	b.m = restored
	for range 3 {
		for _, c := range batch {
			b.must(c, CodeOK)
		}
	}
	if left := b.m.finished.tree.Len(); left != 0 {
		t.Errorf("%d runs are left", left)
	}

	for i := range uint64(NumbersMax + 10) {
		c := CloseSession{Session: sessionOf('b', 2*i+2)}
		b.m.Apply(b.m.Applied()+1, ProcessOf(c), Encode(c))
	}
	if n := b.m.numbers.tree.Len(); n != NumbersMax+1 {
		t.Errorf("%d runs of session numbers", n)
	}
}
