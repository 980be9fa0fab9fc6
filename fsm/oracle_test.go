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

// Whatever was carried out, or refused for good, changes nothing when it comes again, however late.
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
	case CodeLater, CodeInvalid, CodeNotServing, CodeUnknownNode, CodeTooManySessions, CodeTooManyNodes, CodeTooManyRequests, CodeTooOld:
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
	for _, id := range []Node{{'a'}, {'b'}, {'c'}, client} {
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
	return text + fmt.Sprintln(h, ok, w.m.Classes(), i.Keys, i.Rests, last, left)
}

// expected is the same by the naive machine.
func (w *world) expected() (text string) {
	o := w.o
	grants, waiters := o.count()
	text = fmt.Sprintln(o.born, o.bootstrap, o.voters, o.serving, max(o.level, 1), o.counter, o.number, grants, waiters, o.valueBytes(), o.maxTTL)
	for _, id := range []Node{{'a'}, {'b'}, {'c'}, client} {
		if n := o.latest(id); n != nil && !n.over {
			text += fmt.Sprintln(id, n.Incarnation, n.name, n.gone)
		}
	}
	for _, id := range []Node{{'a'}, {'b'}, {'c'}, client} {
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

// requests are numbers that sessions use more than once, by mistake or in a duplicate.
const requests = 12

// request is mostly a new number.
func (w *world) request() uint64 {
	if rapid.IntRange(0, 3).Draw(w.T, "new") > 0 {
		w.next++
		return requests + w.next
	}
	return w.draw("request", requests)
}

// batch draws commands of one process that travel together, and now and then one that must not.
func (w *world) batch() Batch {
	var b Batch
	for range rapid.IntRange(1, 6).Draw(w.T, "size") {
		c := w.command()
		fits := Batch{[]Command{c}}.sound() && (ProcessOf(c) == (Process{}) || len(b.Commands) == 0 || ProcessOf(c) == ProcessOf(b))
		if fits || rapid.IntRange(0, 30).Draw(w.T, "misfit") == 0 {
			b.Commands = append(b.Commands, c)
		}
	}
	return b
}

// direct draws a command. Tokens are those that were granted: a caller knows no others.
func (w *world) direct() Command {
	t := w.T
	id := SessionID{w.node(), uint64(rapid.SampledFrom([]int{1, 1, 1, 2}).Draw(t, "incarnation")), w.draw("session", 3)}
	if last, left := w.m.Unfinished(); left && rapid.IntRange(0, 4).Draw(t, "go on") == 0 {
		return Continue{last}
	}
	switch rapid.IntRange(0, 40).Draw(t, "command") {
	case 40:
		if rapid.IntRange(0, 2).Draw(t, "silent") == 0 {
			return Silent{w.draw("seen", int(w.o.number)+1), []Silence{{id.Node, time.Duration(w.draw("silence", 3)-1) * time.Second}}}
		}
		if rapid.IntRange(0, 2).Draw(t, "evict") == 0 {
			return Evict{
				id.Node, rapid.SampledFrom([]uint64{0, 1, w.o.evicted, w.o.number, w.o.number + 1}).Draw(t, "seen"),
				rapid.SampledFrom([]string{"", "burnt"}).Draw(t, "words"),
				rapid.SampledFrom([]Reason{ReasonNone, ReasonHeard, ReasonLast, ReasonLeft}).Draw(t, "refusal"),
			}
		}
		return Raise{rapid.SampledFrom([]uint64{0, 1, w.o.counter, w.o.counter + 2, w.o.limits.token + 1}).Draw(t, "counter")}
	case 35, 36, 37, 38, 39:
		return w.kind(id)
	case 0:
		return Birth{[16]byte{byte(w.draw("cluster", 2))}, 0, uint32(w.draw("bootstrap", 3)), uint32(w.draw("voters", 3))}
	case 1:
		if rapid.IntRange(0, 3).Draw(t, "bound") == 0 {
			return RaiseTTL{rapid.SampledFrom([]time.Duration{time.Millisecond, 500 * time.Millisecond, time.Second}).Draw(t, "longest")}
		}
		return Serve{}
	case 2:
		return Level{w.draw("level", 3)}
	case 3:
		return Hello{id.Node, w.draw("new incarnation", 4), rapid.SampledFrom([]string{"", "n"}).Draw(t, "name"), rapid.SampledFrom(places).Draw(t, "place"), w.draw("known", 6)}
	case 4, 17, 18, 19:
		return w.departure(id)
	case 5, 14, 15, 16:
		if len(w.o.claims) > 0 && rapid.Bool().Draw(t, "live") {
			c := rapid.SampledFrom(w.o.claims).Draw(t, "claim")
			return Withdraw{c.Session, w.acked(), []uint64{c.Request}}
		}
		return Withdraw{id, w.acked(), []uint64{w.draw("request", requests), w.draw("request", requests)}}
	case 6, 7, 8:
		rest := rapid.SampledFrom([]time.Duration{0, 0, 0, time.Second}).Draw(t, "rest")
		return Release{id, w.acked(), []Grant{w.grant(), w.grant()}, rest, w.draw("close", 3) == 3}
	case 9:
		value := rapid.SampledFrom([][]byte{nil, {}, []byte("new")}).Draw(t, "value")
		g := w.grant()
		return SetValue{id, w.request(), w.acked(), g.Name, g.Token, value}
	case 10:
		if rapid.Bool().Draw(t, "timed") {
			return Keep{id.Node, id.Incarnation, w.draw("seq", 5), 0, []uint64{id.Number}, time.Duration(w.draw("ttl", 3)) * time.Second}
		}
		return Keep{id.Node, id.Incarnation, w.draw("seq", 5), w.draw("lowest", 2) - 1, []uint64{id.Number, w.draw("session", 3)}, 0}
	case 11:
		return CloseSession{id, rapid.Bool().Draw(t, "lost")}
	case 12:
		renewed := w.draw("renewed", int(w.o.number)+1)
		if s := w.o.session(id); s != nil && rapid.Bool().Draw(t, "right") {
			renewed = s.Renewed
		}
		return Expire{id, renewed}
	case 13:
		g := w.grant()
		if reason := rapid.SampledFrom([]string{"", "please", "now"}).Draw(t, "asked"); reason != "" {
			return Ask{g.Name, g.Token, reason}
		}
		return ForceRelease{g.Name, g.Token, "because"}
	}
	return w.acquire(id)
}

func (w *world) acquire(id SessionID) Acquire {
	t := w.T
	c := Acquire{
		Session: id, TTL: rapid.SampledFrom([]time.Duration{time.Second, time.Second, time.Second, 0}).Draw(t, "ttl"),
		Request: w.request(), Acked: w.acked(), Name: w.name(),
		Wait: rapid.SampledFrom([]bool{true, true, false}).Draw(t, "wait"),
	}
	c.Priority = int32(rapid.IntRange(-1, 1).Draw(t, "priority"))
	c.Label = rapid.SampledFrom([]string{"", "l"}).Draw(t, "label")
	c.Mode = w.mode(c.Name)
	c.Delay = rapid.SampledFrom([]time.Duration{0, 0, 0, time.Second}).Draw(t, "delay")
	if rapid.IntRange(0, 2).Draw(t, "nested") == 0 {
		c.While = []uint64{w.grant().Token}
		c.Refuse = rapid.Bool().Draw(t, "refuse")
	}
	switch {
	case isOnce(c.Name):
		c.Mode = Exclusive
	case c.Mode != Permit && rapid.IntRange(0, 3).Draw(t, "set") == 0:
		for _, name := range rapid.Permutation([]string{"x", "y", "z"}).Draw(t, "names")[:rapid.IntRange(1, 3).Draw(t, "size")] {
			if name != c.Name {
				c.Others = append(c.Others, name)
			}
		}
	}
	c.Election = c.Mode == Exclusive && len(c.Others) == 0 && !isOnce(c.Name) && rapid.Bool().Draw(t, "election")
	if c.Mode == Permit {
		c.Limit, c.Weight = uint32(rapid.SampledFrom([]int{3, 3, 2}).Draw(t, "limit")), uint32(w.draw("weight", 3))
	}
	if rapid.Bool().Draw(t, "has value") {
		c.HasValue, c.Value = true, rapid.SampledFrom([][]byte{nil, {}, []byte("v")}).Draw(t, "value")
	}
	return c
}

// kind draws a command about Once keys and rests.
func (w *world) kind(id SessionID) Command {
	t := w.T
	switch rapid.IntRange(0, 7).Draw(t, "kind") {
	case 6, 7:
		return w.resize()
	case 5:
		k := w.o.keys[OnceName("k")] // its token, or one above it
		return Forget{OnceName("k"), k.Token + w.draw("wrong", 2) - 1}
	case 0, 1, 2:
		g := w.keyGrant()
		keep := rapid.SampledFrom([]time.Duration{1, 150, 70_001}).Draw(t, "keep") * time.Millisecond
		if c := w.o.holders(g.Name); len(c) > 0 && rapid.IntRange(0, 3).Draw(t, "owner") > 0 {
			id = c[0].Session
		}
		return Finish{id, w.acked(), g.Name, g.Token, keep}
	case 3:
		if all := w.o.classes(); len(all) > 0 {
			k := rapid.SampledFrom(all).Draw(t, "class")
			if rapid.Bool().Draw(t, "sweep") {
				return Sweep{k.Keep, k.Over}
			}
			return Turn{k.Keep, k.Last}
		}
		return Turn{time.Millisecond, w.o.number + 1}
	default:
		if len(w.o.rests) > 0 {
			r := rapid.SampledFrom(w.o.rests).Draw(t, "rest")
			return EndRest{r.Name, r.Token}
		}
		return EndRest{w.name(), w.draw("token", 5)}
	}
}

func (w *world) draw(what string, highest int) uint64 {
	return uint64(rapid.IntRange(1, highest).Draw(w.T, what))
}

// acked is mostly low, so that requests come again which the client has not heard of.
func (w *world) acked() uint64 {
	if rapid.IntRange(0, 4).Draw(w.T, "heard") == 0 {
		return w.draw("acked", requests+int(w.next)+1)
	}
	return w.draw("acked", 4) - 1
}

func (w *world) node() Node {
	return rapid.SampledFrom([]Node{{'a'}, {'a'}, {'a'}, {'b'}, {'b'}, {'c'}, client}).Draw(w.T, "node")
}

func (w *world) name() string {
	return rapid.SampledFrom([]string{"x", "x", "x", "y", "z", "p", "p", OnceName("k")}).Draw(w.T, "lock")
}

// names are all that may be drawn.
func names() []string { return []string{"x", "y", "z", "p", OnceName("k")} }

// keyGrant is mostly the current one of the Once key.
func (w *world) keyGrant() Grant {
	for _, c := range w.o.holders(OnceName("k")) {
		if rapid.IntRange(0, 3).Draw(w.T, "current") > 0 {
			return Grant{c.Name, c.token}
		}
	}
	return Grant{OnceName("k"), uint64(rapid.IntRange(0, int(w.o.counter)).Draw(w.T, "token"))}
}

// grant is mostly a current one.
func (w *world) grant() Grant {
	var held []Grant
	for _, c := range w.o.claims {
		if c.token != 0 {
			held = append(held, Grant{c.Name, c.token})
		}
	}
	if len(held) > 0 && rapid.IntRange(0, 3).Draw(w.T, "current") > 0 {
		return rapid.SampledFrom(held).Draw(w.T, "grant")
	}
	return Grant{w.name(), uint64(rapid.IntRange(0, int(w.o.counter)).Draw(w.T, "token"))}
}
