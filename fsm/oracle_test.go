package fsm

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Random commands from a small world, so that they meet. At any step an old command may come again,
// the machine may go on from a snapshot of itself, and a fork may be set aside to be looked at in
// the end. After each step the machine must answer, tell and hold what the naive one does, and pass
// Check.
func TestRandomCommandsDoWhatTheNaiveMachineDoes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, drawLimits(t, true))
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			switch rapid.IntRange(0, 19).Draw(t, "step") {
			case 0:
				w.reload()
			case 1:
				w.forks = append(w.forks, aside{w.m.Fork(), snapshot(w.m)})
			case 2, 3, 4:
				w.apply(rapid.SampledFrom(w.log).Draw(t, "late duplicate"))
			case 5, 6:
				w.apply(w.batch())
			default:
				w.apply(w.command())
			}
		}
		recovers(t, w.m)
		for _, f := range w.forks {
			if !bytes.Equal(snapshot(f.m), f.then) {
				t.Fatal("a fork changed after it was made")
			}
		}
	})
}

// The requests of one session are over in no order, and its client hears of many at once: what one
// command does not forget, the next ones do, and each run that is forgotten is counted as work.
func TestNumbersThatWereHeardAreForgottenSomeAtATime(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := defaultLimits()
		l.prune = rapid.SampledFrom([]int{1, 2, 3, pruneMax}).Draw(t, "runs forgotten")
		l.step = rapid.SampledFrom([]int{1, stepMax}).Draw(t, "step bound")
		l.spans = rapid.SampledFrom([]int{4, SpansMax}).Draw(t, "spans")
		w := newWorld(t, l)
		id, highest := SessionID{Node{'a'}, 1, 1}, 30
		withdraw := func() Command {
			c := Withdraw{Session: id, Requests: []uint64{w.draw("request", highest)}}
			for range rapid.IntRange(0, 4).Draw(t, "more") {
				c.Requests = append(c.Requests, w.draw("request", highest))
			}
			if rapid.IntRange(0, 2).Draw(t, "heard") == 0 {
				c.Acked = w.draw("acked", highest)
			}
			return c
		}
		for range rapid.IntRange(5, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 11).Draw(t, "step") {
			case 0:
				w.reload()
			case 1, 2:
				w.apply(Acquire{Session: id, TTL: time.Second, Request: w.draw("request", highest), Name: "x", Terms: Terms{Mode: Shared}})
			case 3:
				w.apply(Batch{[]Command{withdraw(), withdraw(), withdraw(), withdraw()}})
			default:
				w.apply(withdraw())
			}
		}
	})
}

// Whatever was carried out, or refused for good, changes nothing when it comes again, however late. An Act,
// which never changes anything, is heard again.
func TestALateDuplicateOfAnyCommandChangesNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, lowStep(t))
		var done []Command
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			c := w.command()
			if rapid.IntRange(0, 9).Draw(t, "several") == 0 {
				c = w.batch()
			}
			if !w.possible(c) {
				continue
			}
			if out := w.apply(c); final(out) {
				done = append(done, c)
			}
			before := stateOf(w.m)
			late := w.m.Fork()
			for i, c := range done {
				_, events := late.Apply(late.Applied()+1, ProcessOf(c), Encode(c))
				events = slices.DeleteFunc(events, func(e Event) bool { return e.Kind == EventAct })
				if len(events) > 0 || !bytes.Equal(stateOf(late), before) {
					t.Fatalf("%T again, first applied as number %d: %+v, events %v", c, i+1, c, events)
				}
			}
		}
	})
}

// final says whether a command, or all of a batch, was carried out or refused for good. What was
// not may be repeated.
func final(out Outcome) bool {
	switch out.Code {
	case CodeLater, CodeInvalid, CodeNotServing, CodeUnknownNode, CodeTooManySessions, CodeSessionsOverQuota, CodeTooManyNodes,
		CodeTooManyRequests, CodeTooOld:
		return false
	}
	return !slices.ContainsFunc(out.Each, func(o Outcome) bool { return !final(o) || o.Code == CodeForbidden })
}

// aside is a fork and what it was when it was made.
type aside struct {
	m    *Machine
	then []byte
}

type world struct {
	*rapid.T
	m     *Machine
	o     *naive
	index uint64 // of the log
	next  uint64 // new request numbers
	log   []Command
	forks []aside
}

// newWorld is a group that serves, or is about to.
func newWorld(t *rapid.T, l limits) *world {
	w := &world{T: t, m: New(), o: newNaive()}
	w.m.limits, w.o.limits = l, l
	birth := Birth{[16]byte{1}, 0, uint32(rapid.IntRange(2, 3).Draw(t, "bootstrap")), uint32(rapid.IntRange(0, 2).Draw(t, "voters"))}
	start := []Command{birth, Serve{}, Hello{Node{'a'}, 1, "alpha", places[1], 3}, Hello{Node{'b'}, 1, "beta", Place{}, 2}}
	for _, c := range start[:rapid.SampledFrom([]int{4, 4, 4, 4, 1}).Draw(t, "start")] {
		w.apply(c)
	}
	for range rapid.SampledFrom([]int{0, 0, 0, 1, 2, 3}).Draw(t, "quotas") {
		w.apply(w.setQuota())
	}
	return w
}

func (w *world) apply(c Command) Outcome {
	w.forge(c)
	w.index += uint64(rapid.IntRange(1, 2).Draw(w.T, "index gap"))
	w.log = append(w.log, c)
	got, gotEvents := w.m.Apply(w.index, ProcessOf(c), Encode(c))
	got.Each = slices.Clone(got.Each)
	want, wantEvents := w.o.apply(c)
	if !reflect.DeepEqual(got, want) {
		w.Fatalf("%T%+v: got %s, want %s", c, c, describe(got), describe(want))
	}
	if !slices.EqualFunc(gotEvents, wantEvents, func(a, b Event) bool { return reflect.DeepEqual(a, b) }) {
		w.Fatalf("%T%+v: events\n%+v\nwant\n%+v", c, c, gotEvents, wantEvents)
	}
	if err := w.m.Check(); err != nil {
		w.Fatalf("%T%+v: %v", c, c, err)
	}
	if got, want := w.seen(), w.expected(); got != want {
		w.Fatalf("%T%+v: state\n%s\nwant\n%s", c, c, got, want)
	}
	value, data := got.Pack()
	if back, err := Unpack(value, data); err != nil || !reflect.DeepEqual(back, got) {
		w.Fatalf("%s became %s when packed: %v", describe(got), describe(back), err)
	}
	return got
}

// forge lets another process propose a command, now and then.
func (w *world) forge(c Command) {
	if _, several := c.(Batch); several || rapid.IntRange(0, 9).Draw(w.T, "forge") > 0 || ProcessOf(c) == (Process{}) {
		return
	}
	w.index++
	w.o.number++
	other := ProcessOf(c)
	other.Incarnation++
	if o, events := w.m.Apply(w.index, other, Encode(c)); len(events) > 0 || o.Code != CodeForbidden && o.Code != CodeInvalid {
		w.Fatalf("%T%+v of another process: %v, %v", c, c, o, events)
	}
}

func (w *world) reload() {
	before := snapshot(w.m)
	m, err := readSnapshot(bytes.NewReader(before), w.m.limits)
	if err != nil {
		w.Fatal(err)
	}
	if !bytes.Equal(snapshot(m), before) {
		w.Fatal("a restored machine writes another snapshot")
	}
	w.m = m
}

// seen is the machine's state in words, by its reads.
func (w *world) seen() (text string) {
	i := w.m.Info()
	text = fmt.Sprintln(i.Born, i.Bootstrap, i.Voters, i.Serving, i.Level, i.Counter, i.Commands, i.Grants, i.Waiters, i.ValueBytes, i.MaxTTL)
	for n := range w.m.Nodes() {
		text += fmt.Sprintln(n.Node, n.Incarnation, n.Name, n.Gone)
	}
	for _, id := range []Node{{'a'}, {'b'}, bound, client} {
		text += fmt.Sprint(w.m.Departed(id), " ")
	}
	for s := range w.m.Sessions() {
		text += fmt.Sprintln(s, w.m.anySession(s.ID).spans)
		for r := range requests + w.next + 2 {
			state, token := w.m.Request(s.ID, r+1)
			text += fmt.Sprint(state, token, w.m.Asked(s.ID, r+1), " ")
		}
	}
	for l := range w.m.Locks("") {
		text += fmt.Sprintln(l)
	}
	for _, name := range names() {
		l, ok := w.m.Lock(name)
		h, held := w.m.Head(name)
		r, resized := w.m.resizes.Get(name)
		text += fmt.Sprintln(l, ok, w.m.Past(name), h, held, r, resized)
	}
	h, ok := w.m.Key("k")
	last, left := w.m.Unfinished()
	text += fmt.Sprintln(w.m.Answer(QueryQuotas{}).(QuotasState).Quotas)
	return text + fmt.Sprintln(h, ok, w.m.Classes(), i.Keys, i.Rests, last, left)
}

// expected is the same by the naive machine.
func (w *world) expected() (text string) {
	o := w.o
	grants, waiters := o.count()
	text = fmt.Sprintln(o.born, o.bootstrap, o.voters, o.serving, max(o.level, 1), o.counter, o.number, grants, waiters, o.valueBytes(), o.maxTTL)
	for _, id := range []Node{{'a'}, {'b'}, bound, client} {
		if n := o.latest(id); n != nil && !n.over {
			text += fmt.Sprintln(id, n.Incarnation, n.name, n.gone)
		}
	}
	for _, id := range []Node{{'a'}, {'b'}, bound, client} {
		departure := Stays
		if n := o.latest(id); n != nil {
			if departure = n.departure; departure == Leaves && n.back {
				departure = Stays
			}
		}
		text += fmt.Sprint(departure, " ")
	}
	for _, s := range o.sessions {
		if o.ended(s) {
			continue
		}
		text += fmt.Sprintln(s.Session, s.runs())
		for r := range requests + w.next + 2 {
			text += o.fate(s, r+1)
		}
	}
	all := names()
	slices.Sort(all)
	for _, name := range all {
		if !isOnce(name) && o.used(name) {
			text += fmt.Sprintln(o.lock(name))
		}
	}
	for _, name := range names() {
		l, h := Lock{}, Head{}
		if o.used(name) {
			l = o.lock(name)
		}
		if len(l.Holders) > 0 {
			h = Head{l.Holders[0], l.Value, len(l.Waiters)}
		}
		r, resized := o.resizes[name]
		text += fmt.Sprintln(l, o.used(name), o.pastOf(name), h, len(l.Holders) > 0, r, resized)
	}
	text += fmt.Sprintln(o.quotaStates())
	k, ok := o.keys[OnceName("k")]
	return text + fmt.Sprintln(k.Holder, ok, o.classes(), len(o.keys), len(o.rests), o.stepped, o.unfinished())
}

func (o *naive) fate(s *naiveSession, r uint64) string {
	c := o.claim(s, r)
	switch {
	case c != nil && c.token != 0:
		return fmt.Sprint(RequestGranted, c.token, c.asked, " ")
	case c != nil:
		return fmt.Sprint(RequestWaiting, 0, " ")
	case r < s.acked || s.over[r]:
		return fmt.Sprint(RequestFinished, 0, " ")
	}
	return fmt.Sprint(RequestUnknown, 0, " ")
}

// used says whether there is anything to be known about a lock.
func (o *naive) used(name string) bool {
	_, value := o.values[name]
	return value || len(o.of(name)) > 0 || len(o.restsOf(name)) > 0
}

func (o *naive) lock(name string) Lock {
	l := Lock{Name: name, LastToken: o.last[name], Wanted: o.wanted(name), Holders: []Holder{}, Waiters: []Holder{}}
	l.Limit, l.Former = o.limit(name), o.resizes[name].former
	if !o.inUse(name) {
		l.Limit = o.resizes[name].limit
	}
	for _, r := range o.restsOf(name) {
		l.Mode = r.Mode
		l.Rests = append(l.Rests, r.Rest)
	}
	for _, c := range o.holders(name) {
		l.Mode = c.Mode
		l.Holders = append(l.Holders, o.view(c))
	}
	for _, c := range o.waiters(name) {
		l.Waiters = append(l.Waiters, o.view(c))
	}
	if v, ok := o.values[name]; ok {
		l.Value = []byte(v)
	}
	return l
}
