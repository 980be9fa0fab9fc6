package fsm

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-go/holdfast/internal/frozen"
)

// quota sets one at once.
func quota(b *bench, q Quota) {
	b.Helper()
	b.must(SetQuota{q, b.m.Commands(), "it leaks"}, CodeOK)
}

// What level 2 adds to commands, outcomes and events, in the bytes that it has.
func TestWhatLevel2AddsKeepsItsEncoding(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for _, c := range everyCommand() {
		if Needs(Encode(c)) == 2 {
			fmt.Fprintf(&b, "%T %x\n", c, Encode(c))
		}
	}
	pack := func(name string, o Outcome) {
		value, data := o.Pack()
		fmt.Fprintf(&b, "outcome %s %x %x\n", name, value, data)
		if again, err := Unpack(value, data); err != nil || fmt.Sprintf("%+v", again.Over) != fmt.Sprintf("%+v", o.Over) {
			t.Errorf("%+v became %+v: %v", o, again, err)
		}
	}
	for code := CodeTooManyQuotas; code < codeEnd; code++ {
		pack(code.String(), Outcome{Code: code})
	}
	pack("of a node", Outcome{Code: CodeOverQuota, Over: &Over{Node: Node{'a', 255}, What: QuotaLocks, Limit: 300}})
	pack("of a prefix", Outcome{Code: CodeOverQuota, Over: &Over{Prefix: "jobs/ä", What: QuotaValue, Limit: 4096}})
	pack("of bytes", Outcome{Code: CodeOverQuota, Over: &Over{Prefix: "jobs/", What: QuotaBytes, Limit: 1 << 20}})
	act := Event{Index: 2, Kind: EventAct, Act: ActForgetOnce, Name: OnceName("x"), Token: 3, Detail: "why", By: Node{'b'}}
	fmt.Fprintf(&b, "event %x\n", AppendEvents(nil, []Event{act}))
	fmt.Fprintf(&b, "event %x\n", AppendEvents(nil, []Event{{Index: 1, Kind: EventQuota, Session: SessionID{Node: Node{'a'}}, Name: "x", Detail: "why"}}))
	frozen.Check(t, "testdata/level.v2", []byte(b.String()))
}

func TestAQuotaOutOfBoundsIsInvalid(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]SetQuota{
		"of a node and a prefix":   {Quota{Node: Node{'a'}, Prefix: "x", Locks: 1}, 1, "why"},
		"sessions of a prefix":     {Quota{Prefix: "x", Sessions: 1}, 1, "why"},
		"a prefix that is no text": {Quota{Prefix: "\xff", Locks: 1}, 1, "why"},
		"a prefix of 513 bytes":    {Quota{Prefix: strings.Repeat("x", NameBytesMax+1), Locks: 1}, 1, "why"},
		"no reason":                {Quota{Locks: 1}, 1, ""},
		"without a look":           {Quota{Locks: 1}, 0, "why"},
		"seen ahead":               {Quota{Locks: 1}, 99, "why"},
	} {
		b := newBench(t)
		before := stateOf(b.m)
		b.must(c, CodeInvalid)
		if string(stateOf(b.m)) != string(before) {
			t.Errorf("%s: the state changed", what)
		}
	}
}

// Two nodes take and give back locks, values and sessions, under quotas that a few of them reach.
func TestQuotasBoundWhatTheNaiveMachineBounds(t *testing.T) {
	t.Parallel()
	missing := map[Over]bool{ // bounds that no request has met yet
		{What: QuotaLocks}: true, {What: QuotaWaiters}: true, {What: QuotaSessions}: true, {What: QuotaValue}: true,
		{Prefix: "x", What: QuotaLocks}: true, {Prefix: "x", What: QuotaWaiters}: true, {Prefix: "x", What: QuotaValue}: true,
		{What: QuotaBytes}: true, {Prefix: "x", What: QuotaBytes}: true,
	}
	for range 10 { // mostly one round is enough
		rapid.Check(t, func(t *rapid.T) { underQuotas(t, missing) })
		if len(missing) == 0 || testing.Short() {
			return
		}
	}
	t.Errorf("no request has met %v", missing)
}

// underQuotas is one world of two nodes. It notes which bounds were met.
func underQuotas(t *rapid.T, missing map[Over]bool) {
	w := newWorld(t, lowStep(t))
	if !w.o.serving {
		return
	}
	if rapid.Bool().Draw(t, "of level 2") { // without, values have no writers
		w.apply(Level{2})
	}
	note := func(o Outcome) {
		if o.Over != nil {
			delete(missing, Over{Prefix: o.Over.Prefix, What: o.Over.What})
		}
	}
	for range rapid.IntRange(20, 80).Draw(t, "steps") {
		id := SessionID{rapid.SampledFrom([]Node{{'a'}, {'b'}}).Draw(t, "node"), 1, w.draw("session", 3)}
		switch rapid.IntRange(0, 11).Draw(t, "step") {
		case 0, 1:
			w.apply(w.oneBound())
		case 2:
			w.reload()
		case 3:
			w.forks = append(w.forks, aside{w.m.Fork(), snapshot(w.m)})
		case 4:
			if len(w.o.claims) > 0 {
				c := rapid.SampledFrom(w.o.claims).Draw(t, "claim")
				w.apply(Withdraw{Session: c.Session, Requests: []uint64{c.Request}})
			}
		case 5:
			w.apply(CloseSession{Session: id})
		case 6:
			g := w.grant()
			for _, c := range w.o.holders(g.Name) {
				w.next++
				note(w.apply(SetValue{c.Session, requests + w.next, 0, g.Name, c.token, rapid.SampledFrom([][]byte{[]byte("new"), long}).Draw(t, "new")}))
			}
		default:
			c := w.acquire(id)
			w.next++
			c.TTL, c.Request, c.Acked, c.While, c.Wait = time.Second, requests+w.next, 0, nil, true
			if c.Mode == Permit { // which mostly only disagree
				c.Terms = Terms{}
			}
			note(w.apply(c))
		}
	}
	for _, f := range w.forks {
		if err := f.m.Check(); err != nil || !bytes.Equal(snapshot(f.m), f.then) {
			t.Fatal("a fork changed after it was made", err)
		}
	}
}

// oneBound draws a quota with one bound, mostly.
func (w *world) oneBound() SetQuota {
	c := SetQuota{Reason: "it leaks", Seen: w.o.number}
	c.Prefix = rapid.SampledFrom([]string{"", "x", "x", "xx"}).Draw(w.T, "prefix")
	if c.Prefix == "" {
		c.Node = rapid.SampledFrom([]Node{{}, {'a'}, {'a'}}).Draw(w.T, "of")
	}
	n := uint32(w.draw("bound", 4) - 1)
	switch bound := QuotaBound(w.draw("what", 5)); {
	case bound == QuotaLocks:
		c.Locks = n
	case bound == QuotaWaiters:
		c.Waiters = n
	case bound == QuotaSessions && c.Prefix == "":
		c.Sessions = n
	case bound == QuotaBytes:
		c.Bytes = n * BlockBytes
	default:
		c.Value = n
	}
	return c
}

// The first and the last name of a prefix are looked for, and the names between them are not counted.
func TestAsManyNamesAreUnderAPrefixAsBeginWithIt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.SampledFrom([]rune{'a', 'b', '\x00', 'ÿ'}), 0, 4, -1)
		names := rapid.SliceOfN(text, 0, 30).Draw(t, "names")
		slices.Sort(names)
		prefix := text.Draw(t, "prefix")
		want := 0
		for _, name := range names {
			if strings.HasPrefix(name, prefix) {
				want++
			}
		}
		if got := under(prefix, len(names), func(i int) string { return names[i] }); got != want {
			t.Fatalf("%d names of %q begin with %q, counted %d", want, names, prefix, got)
		}
	})
}

// The bytes of a node are those of the values that it wrote last, whoever holds the locks now. Each value
// takes whole blocks, and one that takes no more of them than the value before it is written above a quota, too.
func TestBytesBelongToTheNodeThatWroteThemLast(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.must(Level{2}, CodeOK)
	write := func(node byte, request uint64, size int, want Code) {
		b.Helper()
		c := acquireOf(node, "x")
		c.Request, c.HasValue, c.Value = request, true, make([]byte, size)
		if o := b.must(c, want); want == CodeGranted {
			b.must(Release{Session: c.Session, Grants: []Grant{{"x", o.Token}}}, CodeOK)
		}
	}
	taken := func(want ...int) {
		b.Helper()
		for i, q := range b.m.Answer(QueryQuotas{}).(QuotasState).Quotas {
			if q.Use.Bytes != want[i] {
				b.Errorf("%+v takes %d bytes, want %d", q.Quota, q.Use.Bytes, want[i])
			}
		}
	}
	quota(b, Quota{Node: Node{'a'}, Bytes: 2 * BlockBytes})
	quota(b, Quota{Node: Node{'b'}, Bytes: 9 * BlockBytes})
	quota(b, Quota{Prefix: "x", Bytes: 4 * BlockBytes})
	write('a', 1, BlockBytes+1, CodeGranted)
	taken(2*BlockBytes, 0, 2*BlockBytes)
	write('a', 2, 2*BlockBytes+1, CodeOverQuota)
	write('b', 1, 3*BlockBytes, CodeGranted)
	taken(0, 3*BlockBytes, 3*BlockBytes)
	quota(b, Quota{Prefix: "x", Bytes: BlockBytes})
	write('b', 2, 3*BlockBytes-1, CodeGranted)
	write('b', 3, 3*BlockBytes+1, CodeOverQuota)
	write('a', 3, 0, CodeGranted)
	taken(0, 0, 0)
}
