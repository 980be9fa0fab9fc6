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

// Commands that travel together do what they would do alone, one after the other, until one is to
// come later: then all are that come after it.
func TestABatchIsItsCommandsOneAfterTheOther(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, drawLimits(t, false))
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			b := w.batch()
			if !b.sound() {
				continue
			}
			alone, by := w.m.Fork(), ProcessOf(b)
			var each []Outcome
			var told []Event
			w.index++
			o, events := w.m.Apply(w.index, by, Encode(b))
			for i, c := range b.Commands {
				if o.Each[i].Code == CodeLater {
					each = append(each, slices.Repeat([]Outcome{o.Each[i]}, len(b.Commands)-i)...)
					break
				}
				o, events := alone.Apply(alone.Applied()+1, by, Encode(c))
				each, told = append(each, o), append(told, events...)
			}
			w.o.apply(b) // so that the next commands make sense
			if !reflect.DeepEqual(o, Outcome{Each: each}) || len(told) > 0 && !reflect.DeepEqual(events, told) {
				t.Fatalf("%+v: %+v %+v, alone %+v %+v", b, o, events, each, told)
			}
			alone.applied = w.m.applied
			if !bytes.Equal(snapshot(alone), snapshot(w.m)) {
				t.Fatalf("%+v: another state than alone", b)
			}
		}
	})
}

// The guard against replicas that have forgotten something looks for Hellos at the beginnings of
// entries, and what tells of time must not share the fate of what callers ask for.
func TestOnlyWhatCallersAskForTravels(t *testing.T) {
	t.Parallel()
	for _, c := range everyCommand() {
		b := newBench(t)
		good := Encode(CloseSession{Session: sessionOf('a', 1)})
		o, _ := b.m.Apply(b.m.Applied()+1, Process{Node{'a'}, 1}, AppendToBatch(AppendToBatch(AppendBatch(nil), good), Encode(c)))
		whole := Encode(c)
		if v, via := c.(Via); via {
			c = v.Command
		}
		switch c.(type) {
		case Acquire, Withdraw, Release, SetValue, CloseSession, Finish:
			if o.Code != CodeOK || len(o.Each) != 2 || !Travels(whole) {
				t.Errorf("%T: %v, with %d outcomes", c, o.Code, len(o.Each))
			}
		default:
			if o.Code != CodeInvalid || o.Each != nil || Travels(whole) {
				t.Errorf("%T: %v, with %d outcomes", c, o.Code, len(o.Each))
			}
		}
	}
}

func TestAMalformedBatchIsRefusedAsAWhole(t *testing.T) {
	t.Parallel()
	cmd := Encode(CloseSession{Session: sessionOf('a', 1)})
	many := AppendBatch(nil)
	for range BatchMax {
		many = AppendToBatch(many, cmd)
	}
	b := newBench(t)
	if o, _ := b.m.own(b.m.Applied()+1, many); o.Code != CodeOK || len(o.Each) != BatchMax {
		t.Fatalf("a full batch: %v, %d outcomes", o.Code, len(o.Each))
	}
	for name, batch := range map[string][]byte{
		"empty":             AppendBatch(nil),
		"one too many":      AppendToBatch(bytes.Clone(many), cmd),
		"a batch within":    AppendToBatch(AppendBatch(nil), AppendToBatch(AppendBatch(nil), cmd)),
		"no operation":      AppendToBatch(AppendToBatch(AppendBatch(nil), cmd), []byte{1}),
		"cut short":         AppendToBatch(AppendBatch(nil), cmd)[:20],
		"a number":          append(AppendToBatch(AppendBatch(nil), cmd), 8, 1),
		"unknown, too long": append(AppendToBatch(AppendBatch(nil), cmd), 0x7a, 200),
	} {
		b := newBench(t)
		before := stateOf(b.m)
		o, events := b.m.Apply(b.m.Applied()+1, Process{Node{'a'}, 1}, batch)
		if o.Code != CodeInvalid || o.Each != nil || len(events) > 0 || !bytes.Equal(stateOf(b.m), before) {
			t.Errorf("%s: %v, %d outcomes", name, o.Code, len(o.Each))
		}
		if _, err := Decode(batch); !errors.Is(err, ErrMalformed) || !errors.Is(Known(batch), ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A replica that meets one command of a batch that it does not know has carried out none of it.
func TestABatchOfANewerVersionLeavesTheMachineAtTheIndexBefore(t *testing.T) {
	t.Parallel()
	for _, newer := range [][]byte{{1, byte(opEnd)}, {2, byte(opAcquire)}} {
		b := newBench(t)
		before := snapshot(b.m)
		batch := AppendToBatch(AppendToBatch(AppendBatch(nil), Encode(acquire(1, "x"))), newer)
		if o, _ := b.m.Apply(b.m.Applied()+1, Process{Node{'a'}, 1}, batch); o.Code != CodeUnsupported || !errors.Is(Known(batch), ErrUnsupported) {
			t.Errorf("%v: %v", newer, o.Code)
		}
		if !bytes.Equal(snapshot(b.m), before) {
			t.Fatal("the state changed")
		}
	}
}

// One that is refused, or another process's, leaves the others alone.
func TestEachCommandOfABatchHasItsOutcome(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	other := acquire(1, "z")
	other.Session = sessionOf('b', 1)
	bad := acquire(3, "")
	o, events := b.m.Apply(b.m.Applied()+1, Process{Node{'a'}, 1}, Encode(Batch{[]Command{
		acquire(1, "x"), other, bad, acquire(2, "x"), Release{Session: sessionOf('a', 1), Grants: []Grant{{"x", 1}}},
	}}))
	var codes []Code
	for _, each := range o.Each {
		codes = append(codes, each.Code)
	}
	if want := []Code{CodeGranted, CodeForbidden, CodeInvalid, CodeQueued, CodeOK}; !reflect.DeepEqual(codes, want) {
		t.Fatalf("%v, want %v", codes, want)
	}
	if last := events[len(events)-1]; last.Kind != EventGranted || last.Request != 2 || last.Index != b.m.Commands() {
		t.Fatalf("%+v of command %d", last, b.m.Commands())
	}
	if _, held := b.m.Lock("z"); held {
		t.Fatal("another process's command was carried out")
	}
	value, data := o.Pack()
	if back, err := Unpack(value, data); err != nil || !reflect.DeepEqual(back.Each, o.Each) {
		t.Fatalf("%+v became %+v: %v", o, back, err)
	}
	if _, err := Unpack(0, appendEach(nil, []Outcome{{Each: o.Each}})); !errors.Is(err, ErrMalformed) {
		t.Fatalf("outcomes within outcomes: %v", err)
	}
}

// The room that a command takes is used again: a batch takes a replica less than its commands
// alone.
func TestAFullBatchAllocatesLittleMoreThanItsCommands(t *testing.T) {
	b := newBench(t)
	id, request := sessionOf('a', 1), uint64(0)
	pair := func() (acquires, releases []Command) {
		for range BatchMax {
			request++
			name := string(rune('a' + request%20))
			acquires = append(acquires, Acquire{Session: id, TTL: time.Second, Request: request, Acked: request, Name: name, Terms: Terms{Mode: Shared}})
		}
		for i := range acquires {
			c := acquires[i].(Acquire)
			releases = append(releases, Release{Session: id, Acked: request + 1, Grants: []Grant{{c.Name, c.Request}}})
		}
		return acquires, releases
	}
	var cmds [][]byte
	for range 12 {
		a, r := pair()
		cmds = append(cmds, Encode(Batch{a}), Encode(Batch{r}))
	}
	n := 0
	perBatch := testing.AllocsPerRun(10, func() {
		for range 2 {
			if o, _ := b.m.Apply(b.m.Applied()+1, id.Process(), cmds[n]); len(o.Each) != BatchMax || o.Each[0].Code > CodeGranted {
				t.Fatal(o)
			}
			n++
		}
	})
	if perPair := perBatch / BatchMax; perPair > 8 {
		t.Errorf("%.1f allocations for a pair", perPair)
	}
}

// A Release names the first lock of a set alone, so the state tells what it costs.
func TestTheStateTellsWhatAReleaseCosts(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	set := acquire(1, "set")
	set.Others = []string{"b", "c", "d", "e", "f"}
	one, all := b.must(acquire(2, "one"), CodeGranted), b.must(set, CodeGranted)
	both := Release{Session: set.Session, Grants: []Grant{{"set", all.Token}, {"one", one.Token}}}
	for _, c := range []struct {
		cmd  []byte
		want int
	}{
		{Encode(both), 7},
		{append(AppendVia(nil), Encode(both)...), 7},
		{Encode(Release{Session: set.Session, Grants: []Grant{{"set", one.Token}}}), 1},
		{Encode(Release{Session: set.Session}), 1},
		{Encode(set), 6},
		{Encode(CloseSession{Session: set.Session}), 1},
		{Encode(both)[:9], 1},
		{nil, 1},
	} {
		if got := b.m.Cost(c.cmd); got != c.want {
			t.Errorf("%x costs %d, not %d", c.cmd, got, c.want)
		}
	}
}
