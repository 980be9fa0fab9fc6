package fsm

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

func TestLocksAndGrantsAreBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.m.limits.locks = 2
	first := b.must(acquire(1, "x"), CodeGranted)
	b.must(acquire(2, "y"), CodeGranted)
	b.must(acquire(3, "z"), CodeTooManyLocks)
	b.must(acquire(3, "z"), CodeFinished)
	b.must(Release{Session: sessionOf('a', 1), Grants: []Grant{{"x", first.Token}}}, CodeOK)
	b.must(acquire(4, "z"), CodeGranted)

	b.m.limits.locks, b.m.limits.grants = 100, 2
	shared := acquire(5, "s")
	shared.Mode = Shared
	b.must(shared, CodeTooManyLocks)
}

func TestWaitersAreBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.m.limits.waiters = 1
	b.must(acquire(1, "x"), CodeGranted)
	b.must(acquire(2, "x"), CodeQueued)
	b.must(acquire(3, "x"), CodeTooManyWaiters)
	b.must(acquire(3, "x"), CodeFinished)
	b.must(Withdraw{Session: sessionOf('a', 1), Requests: []uint64{2}}, CodeOK)
	b.must(acquire(4, "x"), CodeQueued)
}

// A limit of permits above the bound on holders was cut there without a word: the next one waited
// for a permit that was free.
func TestHoldersBeyondTheBoundAreRefusedUnlessOthersWait(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.m.limits.holders = 2
	c := acquire(0, "x")
	c.Mode = Shared
	var last Outcome
	for i, want := range []Code{CodeGranted, CodeGranted, CodeTooManyHolders} {
		c.Request = uint64(i + 1)
		if o := b.must(c, want); want == CodeGranted {
			last = o
		}
	}
	set := c
	set.Request, set.Others = 4, []string{"y"}
	b.must(set, CodeTooManyHolders)
	b.must(acquire(5, "x"), CodeQueued)
	c.Request = 6
	b.must(c, CodeQueued)
	b.must(Withdraw{Session: c.Session, Requests: []uint64{5}}, CodeOK)
	if state, _ := b.m.Request(c.Session, 6); state != RequestWaiting {
		t.Errorf("who waited while the bound was reached: %v", state)
	}
	b.must(Release{Session: c.Session, Grants: []Grant{{"x", last.Token}}}, CodeOK)
	b.must(c, CodeGranted)
}

func TestARenewalIsBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.must(acquire(1, "x"), CodeGranted)
	sessions := make([]uint64, RenewMax)
	for i := range sessions {
		sessions[i] = uint64(i + 1)
	}
	b.must(Keep{Node: Node{'a'}, Incarnation: sessionOf('a', 1).Incarnation, Seq: 1, Sessions: append(sessions, RenewMax+1)}, CodeInvalid)
	b.must(Keep{Node: Node{'a'}, Incarnation: sessionOf('a', 1).Incarnation, Seq: 1, Sessions: sessions}, CodeOK)
}

func TestSessionsAreBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.m.limits.sessions = 1
	b.must(acquire(1, "x"), CodeGranted)
	other := acquire(1, "y")
	other.Session.Number = 2
	b.must(other, CodeTooManySessions)
	b.must(CloseSession{Session: sessionOf('a', 1)}, CodeOK)
	b.must(other, CodeGranted) // it was not opened: the same number may be tried again
}

func TestTheMemoryOfSessionNumbersIsBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.m.limits.numbers = 2
	b.must(CloseSession{Session: sessionOf('a', 10)}, CodeOK)
	b.must(CloseSession{Session: sessionOf('a', 20)}, CodeOK)
	b.must(CloseSession{Session: sessionOf('a', 30)}, CodeTooManySessions)
	b.must(acquire(1, "x"), CodeTooManySessions)
	b.must(Keep{Node: Node{'a'}, Incarnation: 1, Seq: 1, Lowest: 25}, CodeOK)
	b.must(CloseSession{Session: sessionOf('a', 30)}, CodeOK)
	b.must(acquire(1, "x"), CodeSessionLost) // session 1 is below the lowest in use
}

func TestNodesAreBoundedAndTheOldestForgottenNodeIsDropped(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.m.limits.nodes, b.m.limits.forgotten = 2, 2
	b.must(Hello{Node{'c'}, 1, "", Place{}, 0}, CodeTooManyNodes)
	b.must(Hello{Node{'b'}, 2, "", Place{}, 0}, CodeOK) // a known node may come back
	for _, n := range []byte("bcd") {
		b.must(Goodbye{Node{n}, 5, Stays}, CodeOK)
	}
	b.must(Hello{Node{'d'}, 5, "", Place{}, 0}, CodeStaleIncarnation)
	b.must(Hello{Node{'b'}, 5, "", Place{}, 0}, CodeOK) // dropped, so nobody knows
	if i := b.m.Info(); i.Nodes != 2 || b.m.nodes.Len() != 4 {
		t.Fatalf("%d nodes of %d", i.Nodes, b.m.nodes.Len())
	}
}

// A Goodbye ended the last session of a process that had been removed, and so made it the oldest of
// the memories, which was dropped; then a copy of its record, read before that, was written back,
// and nobody counted it. The replica and one that was restored from its snapshot would have
// forgotten different processes, and after the next Hello no snapshot could be read.
func TestAGoodbyeWhoseRecordIsDroppedMeanwhileIsRememberedAnew(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.m.limits.forgotten = 1
	b.must(acquire(1, "x"), CodeGranted)
	b.must(Remove{Node{'a'}, 1, 3}, CodeOK)
	b.must(Goodbye{Node{'c'}, 1, Stays}, CodeOK) // younger than a's
	b.must(Goodbye{Node{'a'}, 1, Gone}, CodeOK)
	if i := b.m.Info(); b.m.forgotten != 1 || b.m.Departed(Node{'a'}) != Gone || i.Grants != 0 {
		t.Fatalf("%d memories, node a %v, %+v", b.m.forgotten, b.m.Departed(Node{'a'}), i)
	}
	restored, err := readSnapshot(bytes.NewReader(snapshot(b.m)), b.m.limits)
	if err != nil {
		t.Fatal(err)
	}
	other := &bench{t, restored}
	for _, b := range []*bench{b, other} {
		b.must(Hello{Node{'a'}, 2, "", Place{}, 0}, CodeStaleIncarnation)
		b.must(Goodbye{Node{'d'}, 1, Stays}, CodeOK)
		b.must(Hello{Node{'a'}, 2, "", Place{}, 0}, CodeOK)
	}
	if !bytes.Equal(snapshot(b.m), snapshot(other.m)) {
		t.Fatal("a restored replica has forgotten something else")
	}
}

// The memory of a process may be dropped while a teardown of all that it waits for is still there,
// since its sessions have ended by themselves. When the process came back, nothing knew of that.
func TestAProcessThatComesBackGoesOnWithItsTeardown(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.m.limits.forgotten, b.m.limits.step = 1, 1
	grants := make([]Grant, 2*costOfClaim)
	for i := range grants {
		grants[i].Name = fmt.Sprint(i)
		grants[i].Token = b.must(acquire(uint64(i+1), grants[i].Name), CodeGranted).Token
	}
	b.must(Remove{Node{'a'}, 1, 3}, CodeOK)
	b.must(Release{Session: sessionOf('a', 1), Grants: grants[:ListMax]}, CodeOK)
	b.must(Release{Session: sessionOf('a', 1), Grants: grants[ListMax:], Close: true}, CodeOK)
	b.must(Goodbye{Node{'c'}, 1, Stays}, CodeOK)
	if _, known := b.m.process(Node{'a'}, 1); known || b.m.teardowns.Len() != 1 {
		t.Fatalf("known %v, %d teardowns: this test shows nothing", known, b.m.teardowns.Len())
	}
	b.must(Hello{Node{'a'}, 1, "", Place{}, 0}, CodeOK)
	b.must(acquire(1, "x"), CodeGranted)
	b.goOn()
	b.must(acquire(1, "x"), CodeGranted)
}

// Those who were superseded and keep a session until its TTL counted with the processes that are
// here: a full group that was rolled wrote snapshots that it could not read.
func TestProcessesThatAreOverTakeNoPlaceOfOthers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.m.limits.nodes = 2
	b.must(acquire(1, "x"), CodeGranted)
	b.must(Hello{Node{'a'}, 2, "", Place{}, 0}, CodeOK)
	if _, err := readSnapshot(bytes.NewReader(snapshot(b.m)), b.m.limits); err != nil || b.m.nodes.Len() != 3 {
		t.Fatalf("%d records: %v", b.m.nodes.Len(), err)
	}
}

func TestFinishedRequestsAreBoundedPerSessionAndInAll(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.m.limits.spans = 2
	try := func(request uint64) Acquire {
		c := acquire(request, "x")
		c.Wait = false
		return c
	}
	id := sessionOf('a', 1)
	token := b.must(try(1), CodeGranted).Token
	b.must(try(10), CodeHeld)
	b.must(try(20), CodeHeld)
	b.must(try(30), CodeTooManyRequests)
	b.must(SetValue{Session: id, Request: 30, Name: "x", Token: token}, CodeTooManyRequests)
	b.must(Withdraw{Session: id, Requests: []uint64{30}}, CodeTooManyRequests)
	// what was let in can always end, and its end is remembered
	b.must(Release{Session: id, Grants: []Grant{{"x", token}}}, CodeOK)
	b.must(try(1), CodeFinished)
	next := try(30)
	next.Acked = 15
	token = b.must(next, CodeGranted).Token

	b.m.limits.spans, b.m.limits.spansTotal = 100, 1
	b.must(try(40), CodeTooManyRequests)
	b.must(Withdraw{Session: id, Acked: 41, Requests: []uint64{30}}, CodeOK)
	if b.m.Granted("x", token) || b.m.finished.tree.Len() != 0 {
		t.Fatal("the grant is left, or memory of what was acknowledged")
	}
}

func TestValuesAreBoundedThoseOfWaitersIncluded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.m.limits.values = 10
	with := func(request uint64, name, value string) Acquire {
		c := acquire(request, name)
		c.HasValue, c.Value = true, []byte(value)
		return c
	}
	token := b.must(with(1, "x", "12345"), CodeGranted).Token
	b.must(with(2, "x", "12345"), CodeQueued)
	b.must(with(3, "x", "1"), CodeValuesFull)
	b.must(with(4, "y", "1"), CodeValuesFull)
	b.must(with(4, "y", "1"), CodeFinished)
	id := sessionOf('a', 1)
	set := SetValue{Session: id, Request: 5, Name: "x", Token: token, Value: []byte("123456")}
	b.must(set, CodeValuesFull)
	b.must(set, CodeValuesFull) // nothing was written, and nothing is remembered
	set.Request, set.Value = 6, []byte("1234")
	b.must(set, CodeOK)
	b.must(with(7, "y", "1"), CodeGranted)
	b.must(Release{Session: id, Grants: []Grant{{"x", token}}}, CodeOK)
	if l, _ := b.m.Lock("x"); string(l.Value) != "12345" || b.m.Info().ValueBytes != 6 {
		t.Fatalf("%q, %d bytes in all", l.Value, b.m.Info().ValueBytes)
	}
}

func TestTokensEndBeforeTheyWrapAndEachWaiterHasOneSetAside(t *testing.T) {
	t.Parallel()
	b := &bench{t, New()}
	b.must(Birth{Cluster: [16]byte{1}, Counter: TokenMax + 1}, CodeInvalid)
	b.must(Birth{Cluster: [16]byte{1}, Counter: TokenMax - 2}, CodeOK)
	b.must(Serve{}, CodeOK)
	b.must(Hello{Node{'a'}, 1, "", Place{}, 0}, CodeOK)
	first := b.must(acquire(1, "x"), CodeGranted)
	b.must(acquire(2, "x"), CodeQueued)
	b.must(acquire(3, "y"), CodeTokensExhausted)
	b.must(acquire(4, "x"), CodeTokensExhausted)
	b.must(Release{Session: sessionOf('a', 1), Grants: []Grant{{"x", first.Token}}}, CodeOK)
	if o := b.must(acquire(2, "x"), CodeGranted); o.Token != TokenMax {
		t.Fatalf("last token %d", o.Token)
	}
	b.must(acquire(5, "y"), CodeTokensExhausted)
}

// A Raise took the tokens that were set aside for waiters: these were granted some above the
// highest, and no snapshot of that could be read.
func TestARaiseLeavesATokenForEachWaiter(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := b.must(acquire(1, "x"), CodeGranted)
	b.must(acquire(2, "x"), CodeQueued)
	b.must(Raise{TokenMax}, CodeInvalid)
	b.must(Raise{TokenMax - 1}, CodeOK)
	b.must(Raise{TokenMax - 1}, CodeOK)
	b.must(Release{Session: sessionOf('a', 1), Grants: []Grant{{"x", first.Token}}}, CodeOK)
	if o := b.must(acquire(2, "x"), CodeGranted); o.Token != TokenMax {
		t.Fatalf("token %d", o.Token)
	}
}

func TestCommandsOutOfBoundsAreInvalidAndChangeNothing(t *testing.T) {
	t.Parallel()
	good := acquire(1, "x")
	acquireWith := func(change func(*Acquire)) Command {
		c := good
		change(&c)
		return c
	}
	long := strings.Repeat("n", NameBytesMax)
	for name, c := range map[string]Command{
		"no name":                acquireWith(func(c *Acquire) { c.Name = "" }),
		"long name":              acquireWith(func(c *Acquire) { c.Name = long + "n" }),
		"control character":      acquireWith(func(c *Acquire) { c.Name = "a\x00b" }),
		"C1 control character":   acquireWith(func(c *Acquire) { c.Name = "a\u0085b" }),
		"not UTF-8":              acquireWith(func(c *Acquire) { c.Name = "a\xffb" }),
		"long label":             acquireWith(func(c *Acquire) { c.Label = strings.Repeat("l", LabelBytesMax+1) }),
		"label not UTF-8":        acquireWith(func(c *Acquire) { c.Label = "\xff" }),
		"long value":             acquireWith(func(c *Acquire) { c.HasValue, c.Value = true, make([]byte, ValueBytesMax+1) }),
		"long TTL":               acquireWith(func(c *Acquire) { c.TTL = TTLMax + time.Millisecond }),
		"no request":             acquireWith(func(c *Acquire) { c.Request = 0 }),
		"no session number":      acquireWith(func(c *Acquire) { c.Session.Number = 0 }),
		"no incarnation":         acquireWith(func(c *Acquire) { c.Session.Incarnation = 0 }),
		"no node":                acquireWith(func(c *Acquire) { c.Session.Node = Node{} }),
		"unknown mode":           acquireWith(func(c *Acquire) { c.Mode = Permit + 1 }),
		"shared with a limit":    acquireWith(func(c *Acquire) { c.Mode, c.Limit = Shared, 2 }),
		"weight without a limit": acquireWith(func(c *Acquire) { c.Weight = 2 }),
		"permit without a limit": acquireWith(func(c *Acquire) { c.Mode = Permit }),
		"weight above the limit": acquireWith(func(c *Acquire) { c.Mode, c.Limit, c.Weight = Permit, 2, 3 }),
		"limit too high":         acquireWith(func(c *Acquire) { c.Mode, c.Limit = Permit, math.MaxUint32 }),
		"withdraw of 0":          Withdraw{Session: good.Session, Requests: []uint64{0}},
		"withdraw of nobody":     Withdraw{},
		"release of nobody":      Release{},
		"value of nobody":        SetValue{Request: 1, Name: "x"},
		"long new value":         SetValue{Session: good.Session, Request: 1, Name: "x", Value: make([]byte, ValueBytesMax+1)},
		"keep of nobody":         Keep{},
		"keep of 0":              Keep{Node: Node{'a'}, Incarnation: 1, Sessions: []uint64{0}},
		"TTL of none":            Keep{Node: Node{'a'}, Incarnation: 1, TTL: time.Second},
		"TTL of two":             Keep{Node: Node{'a'}, Incarnation: 1, Sessions: []uint64{1, 2}, TTL: time.Second},
		"TTL of a year":          Keep{Node: Node{'a'}, Incarnation: 1, Sessions: []uint64{1}, TTL: 8760 * time.Hour},
		"close of nobody":        CloseSession{},
		"expire of nobody":       Expire{},
		"hello of nobody":        Hello{Incarnation: 1},
		"hello of no run":        Hello{Node: Node{'a'}},
		"long node name":         Hello{Node{'a'}, 2, long + "n", Place{}, 0},
		"good-bye of nobody":     Goodbye{},
		"removal of nobody":      Remove{},
		"removal of no record":   Remove{Node{'a'}, 1, 0},
		"revocation for nothing": Revoke{Node{'a'}, 9, ""},
		"long name of a boot":    Hello{Node{'a'}, 2, "", Place{Boot: long[:BootBytesMax+1]}, 0},
		"force without reason":   ForceRelease{Name: "x", Token: 1},
		"asked without reason":   Ask{Name: "x", Token: 1},
		"asked at length":        Ask{"x", 1, strings.Repeat("r", LabelBytesMax+1)},
		"asked for no name":      Ask{"", 1, "r"},
		"forget a lock":          Forget{"x", 1},
		"long reason":            ForceRelease{"x", 1, strings.Repeat("r", LabelBytesMax+1)},
		"birth of no cluster":    Birth{},
		"another cluster":        Birth{Cluster: [16]byte{2}},
		"more voters than nodes": Birth{[16]byte{1}, 0, 2, 3},
	} {
		b := newBench(t)
		before := stateOf(b.m)
		b.must(c, CodeInvalid)
		if string(stateOf(b.m)) != string(before) {
			t.Errorf("%s: the state changed", name)
		}
	}
	b := newBench(t)
	b.must(acquire(1, long), CodeGranted)
}

func TestOnceKeysAreBoundedAndWhatRunsCanAlwaysFinish(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.m.limits.keys = 1
	id := sessionOf('a', 1)
	var tokens []uint64
	for i := range uint64(2) {
		tokens = append(tokens, b.must(acquire(i+1, OnceName(string(rune('a'+i)))), CodeGranted).Token)
	}
	for i, token := range tokens {
		b.must(Finish{Session: id, Name: OnceName(string(rune('a' + i))), Token: token, Keep: time.Hour}, CodeOK)
	}
	b.must(acquire(3, OnceName("c")), CodeTooManyKeys)
	b.must(acquire(4, OnceName("a")), CodeDone)
	b.must(acquire(5, "c"), CodeGranted)
}

func TestSetsAreBoundedAndCountWithAllTheirNames(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c := acquire(1, "first")
	for i := range SetMax {
		c.Others = append(c.Others, strings.Repeat("x", i+1))
	}
	b.must(c, CodeInvalid)
	c.Others = c.Others[:SetMax-1]
	b.m.limits.locks = SetMax - 1
	b.must(c, CodeTooManyLocks)
	b.m.limits.locks, c.Request = SetMax, 2
	b.must(c, CodeGranted)
	b.m.limits.waiters, c.Request = SetMax-1, 3
	b.must(c, CodeTooManyWaiters)
	b.m.limits.waiters, c.Request = SetMax, 4
	b.must(c, CodeQueued)
	if i := b.m.Info(); i.Grants != SetMax || i.Waiters != SetMax {
		t.Fatalf("%+v", i)
	}
}

// Rests count with the grants: who releases with a rest and comes back does not fill the memory.
func TestRestsAreBoundedWithTheGrants(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.m.limits.grants = 2
	for i, name := range []string{"x", "y"} {
		token := b.must(acquire(uint64(i+1), name), CodeGranted).Token
		b.must(Release{Session: sessionOf('a', 1), Grants: []Grant{{name, token}}, Rest: time.Hour}, CodeOK)
	}
	b.must(acquire(3, "z"), CodeTooManyLocks)
	b.must(Release{Session: sessionOf('a', 1), Rest: RestMax + time.Millisecond}, CodeInvalid)
}

// Waiters become holders, and others wait then: there are more grants than both bounds allow together.
// A replica could not read its own snapshot any more, so none of the group started again.
func TestAStateBeyondABoundIsReadAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.m.limits.grants, b.m.limits.waiters = 4, 2
	names, tokens := []string{"w", "x", "y", "z"}, make(map[string]uint64)
	number := uint64(0)
	ask := func(name string, mode Mode, want Code) Outcome {
		number++
		c := acquire(number, name)
		c.Mode = mode
		o, _ := b.m.Apply(b.m.Applied()+1, ProcessOf(c), Encode(c))
		if o.Code != want {
			t.Fatalf("%s: %v, want %v", name, o.Code, want)
		}
		return o
	}
	for _, name := range names {
		tokens[name] = ask(name, Exclusive, CodeGranted).Token
	}
	for _, name := range names {
		ask(name, Shared, CodeQueued)
		ask(name, Shared, CodeQueued)
		r := Release{Session: sessionOf('a', 1), Grants: []Grant{{name, tokens[name]}}}
		if o, _ := b.m.Apply(b.m.Applied()+1, ProcessOf(r), Encode(r)); o.Code != CodeOK {
			t.Fatal(o.Code)
		}
	}
	if grants := b.m.Info().Grants; grants <= 6 {
		t.Fatalf("%d grants: the bounds hold", grants)
	}
	if _, err := readSnapshot(bytes.NewReader(snapshot(b.m)), b.m.limits); err != nil {
		t.Error(err)
	}
}

// A lock that is taken all the time does not push the past of a quiet one out.
func TestThePastHoldsTheLastGrantsOfEachLock(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	number := uint64(0)
	pass := func(name string) (token uint64) {
		number++
		c := acquire(number, name)
		c.Acked = number
		token = b.must(c, CodeGranted).Token
		b.must(Release{Session: sessionOf('a', 1), Grants: []Grant{{name, token}}}, CodeOK)
		return token
	}
	pass("quiet")
	fork := b.m.Fork()
	first := pass("busy")
	for range PastLocksMax {
		pass("busy")
	}
	past := b.m.Past("busy")
	if len(b.m.Past("quiet")) != 1 || len(past) != PastMax || past[PastMax-1].Token != first+PastLocksMax-PastMax+1 {
		t.Fatalf("something is missing: %d of the busy lock: %+v", len(past), past)
	}
	if last := past[0]; last.Kind != EventReleased || last.Token != b.m.Info().Counter || last.Ended != last.Granted+1 {
		t.Fatalf("%+v", last)
	}
	for i := range PastLocksMax - 1 {
		pass(fmt.Sprint("other", i))
	}
	if len(b.m.Past("quiet")) != 0 || len(b.m.Past("busy")) != PastMax || len(fork.Past("quiet")) != 1 || len(fork.Past("busy")) != 0 {
		t.Fatal("the oldest is not the one that was forgotten, or a fork forgot it too")
	}
	pass("busy") // the youngest again
	pass("one more")
	if len(b.m.Past("busy")) != PastMax || len(b.m.Past("other0")) != 0 {
		t.Fatal("not the lock whose last grant ended first was forgotten")
	}
}

func TestAnOrderOutOfBoundsIsInvalid(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]Command{
		"order without words":   Evict{Node: Node{'a'}, Seen: 1},
		"order about nobody":    Evict{Seen: 1, Reason: "r"},
		"order at length":       Evict{Node: Node{'a'}, Seen: 1, Reason: strings.Repeat("r", LabelBytesMax+1)},
		"order out of the blue": Evict{Node: Node{'a'}, Reason: "r"},
		"order of tomorrow":     Evict{Node: Node{'a'}, Seen: 99, Reason: "r"},
		"refusal for nothing":   Evict{Node: Node{'a'}, Seen: 1, Refusal: ReasonLeft},
		"order that is refused": Evict{Node{'a'}, 1, "r", ReasonHeard},
	} {
		b := newBench(t)
		before := stateOf(b.m)
		if b.must(c, CodeInvalid); string(stateOf(b.m)) != string(before) {
			t.Errorf("%s: the state changed", name)
		}
	}
}
