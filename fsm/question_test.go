package fsm

import (
	"bytes"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-go/holdfast/internal/frozen"
)

// pages are all pages of a list of so many items each.
func pages(m *Machine, q QueryLocks, items int) iter.Seq2[LocksPage, error] {
	return func(yield func(LocksPage, error) bool) {
		for next := &q; next != nil; {
			page := next.page(m, items)
			if !yield(page, nil) {
				return
			}
			next = page.Next
		}
	}
}

// A caller that reads a list page by page must see what there is, once, wherever the pages end: in the
// middle of a lock's holders, between those and its waiters, between two locks.
func TestPagesHaveEachLockWithAllOfItOnceWhereverTheyEnd(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := run(New(), history(t, 80))
		items, prefix := rapid.IntRange(1, 5).Draw(t, "items"), rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "prefix")
		var got, want []Lock
		for l, err := range JoinPages(pages(m, QueryLocks{Name: prefix, Parts: PartWaiters}, items)) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, clean(l.Lock))
		}
		for l := range m.Locks(prefix) {
			want = append(want, clean(l))
			for one := range JoinPages(pages(m, QueryLocks{Name: l.Name, Exact: true, Parts: PartWaiters | PartPast | PartSessions | PartCycles}, items)) {
				if !reflect.DeepEqual(clean(one.Lock), clean(l)) || !reflect.DeepEqual(one.Past, m.Past(l.Name)) || !reflect.DeepEqual(one.Cycles, m.Cycles(l.Name)) {
					t.Fatalf("%q alone is\n%+v\nand in the list\n%+v", l.Name, one, l)
				}
				for i, s := range one.Sessions {
					if open, ok := m.Session(s.ID); !ok || open != s || i >= len(l.Holders) {
						t.Fatalf("%q has a session %+v, which is %+v, %v", l.Name, s, open, ok)
					}
				}
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("the pages have\n%+v\nand the state\n%+v", got, want)
		}
	})
}

// clean makes empty lists equal to none.
func clean(l Lock) Lock {
	l.Holders, l.Waiters = slices.Clip(append([]Holder(nil), l.Holders...)), slices.Clip(append([]Holder(nil), l.Waiters...))
	return l
}

func TestAPageIsBoundedWhateverALockHas(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c := acquire(1, "x")
	b.must(c, CodeGranted)
	for c.Request = 2; c.Request < 3*PageItems; c.Request++ {
		b.must(c, CodeQueued)
	}
	count, waiters := 0, 0
	for page := range pages(b.m, QueryLocks{Name: "x", Exact: true, Parts: PartWaiters}, PageItems) {
		count++
		for _, l := range page.Locks {
			waiters += len(l.Waiters)
			if len(l.Waiters) > PageItems {
				t.Fatalf("a page of %d waiters", len(l.Waiters))
			}
		}
	}
	if count != 3 || waiters != 3*PageItems-2 {
		t.Fatalf("%d pages with %d waiters", count, waiters)
	}
}

// Permits that are taken "at most so often in a day" are rests for the day. They were not counted: a page
// of many such semaphores was longer than a replica may answer a client.
func TestAPageCountsTheRestsOfALock(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const permits, semaphores = 300, 20
	number := uint64(0)
	for s := range semaphores {
		for range permits {
			number++
			c := acquire(number, fmt.Sprintf("tenant%02d", s))
			c.Mode, c.Limit, c.Weight, c.Acked = Permit, permits, 1, number
			token := b.must(c, CodeGranted).Token
			b.must(Release{Session: c.Session, Grants: []Grant{{c.Name, token}}, Rest: time.Hour}, CodeOK)
		}
	}
	rests := 0
	for page := range pages(b.m, QueryLocks{}, PageItems) {
		here := 0
		for _, l := range page.Locks {
			here += len(l.Rests)
		}
		if rests += here; here > PageItems+permits {
			t.Errorf("a page has %d rests", here)
		}
	}
	if rests != permits*semaphores {
		t.Errorf("the pages have %d rests of %d", rests, permits*semaphores)
	}
}

// everyQuestion is one of each kind, with all its fields set.
func everyQuestion() []Question {
	p := Process{Node{'a', 1, 2, 255}, 300}
	return []Question{
		QueryGroup{},
		QueryName{"orders/ä", TokenMax},
		QueryLocks{Name: "orders/"},
		QueryLocks{"orders/ä", true, PartWaiters | PartPast | PartSessions | PartCycles, Bookmark{"orders/ä", true, 7, -3, 1 << 40}},
		QueryClaims{p, []SessionClaims{{1, nil}, {2, []ClaimQuery{{9, Grant{}}, {10, Grant{"x", 101}}}}}},
		QueryKeys{"jobs/", "jobs/ä"},
		QuerySessions{SessionID{p.Node, p.Incarnation, 7}},
		QueryQuotas{},
	}
}

// everyAnswer is one of each kind, with all its fields set.
func everyAnswer() []Answer {
	h := Holder{
		Session: sessionOf('a', 1), Request: 2, NodeName: "alpha", Token: 3, Granted: 6,
		Terms: Terms{Label: "l", Mode: Permit, Weight: 4, Priority: -5},
	}
	past := PastGrant{h, 7, EventForced, ReasonForced, "stuck"}
	return []Answer{
		GroupState{Info{
			Cluster: [16]byte{1}, Born: true, Serving: true, Level: 1, Counter: 2, Applied: 3, Commands: 4, Bootstrap: 5, Voters: 6,
			Locks: 7, Grants: 8, Waiters: 9, Sessions: 10, Nodes: 11, ValueBytes: 12, Rests: 13, Keys: 14,
		}},
		NameState{1, &Head{h, []byte{}, 3}, true, 5, &h, true, &past},
		NameState{At: 1},
		LocksPage{At: 9, Next: &QueryLocks{Name: "x", After: Bookmark{Lock: "x", Within: true}}, Locks: []LockState{
			{
				Lock: Lock{"x", Permit, 5, 4, []Holder{h}, []Holder{h, {}}, []byte("v"), 3, true, []Rest{{"x", 2, 8, time.Second, Permit}}},
				Past: []PastGrant{past}, Sessions: []Session{{h.Session, time.Minute, 5}}, Cycles: [][]Wait{{{h, "y"}, {h, "x"}}, nil},
			},
			{More: true},
		}},
		ClaimsState{3, []SessionState{
			{true, nil},
			{false, []ClaimState{{}, {State: RequestGranted, Token: 3, Wanted: true, Asked: "maintenance"}, {State: RequestFinished, End: &past}}},
		}},
		KeysPage{4, []KeyState{{"jobs/ä", h, true}, {Key: "k"}}, &QueryKeys{"jobs/", "k"}},
		SessionsPage{5, []SessionLoad{{Session{h.Session, time.Minute, 5}, "alpha", 6, 7}}, &QuerySessions{h.Session}},
		QuotasState{6, []QuotaState{{Quota{Node{'a'}, "", 1, 2, 3, 4, 5}, QuotaUse{5, 6, 7, 1024}}, {Quota: Quota{Prefix: "jobs/ä", Waiters: 8}}}},
	}
}

// The golden file holds the bytes of version 1: processes of several versions ask each other.
func TestQuestionsAndAnswersKeepTheirEncoding(t *testing.T) {
	t.Parallel()
	var b, second strings.Builder
	of := func(kind query) *strings.Builder {
		if kind == queryQuotas {
			return &second
		}
		return &b
	}
	for _, q := range everyQuestion() {
		fmt.Fprintf(of(q.query()), "%T %x\n", q, EncodeQuestion(q))
		if again, err := DecodeQuestion(EncodeQuestion(q)); err != nil || !reflect.DeepEqual(again, q) {
			t.Errorf("%+v became %+v: %v", q, again, err)
		}
	}
	for _, a := range everyAnswer() {
		fmt.Fprintf(of(a.query()), "%T %x\n", a, EncodeAnswer(a))
		if again, err := DecodeAnswer(EncodeAnswer(a)); err != nil || !reflect.DeepEqual(again, a) {
			t.Errorf("%+v became %+v: %v", a, again, err)
		}
	}
	frozen.Check(t, "testdata/questions.v1", []byte(b.String()))
	frozen.Check(t, "testdata/questions.v2", []byte(second.String()))
}

func TestAnAnswerThatTravelsSaysWhatTheStateSays(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := run(New(), history(t, 80))
		questions := []Question{QueryGroup{}, QueryQuotas{}, QueryKeys{}, QuerySessions{}, QueryLocks{Parts: PartWaiters | PartPast | PartSessions | PartCycles}}
		for l := range m.Locks("") {
			for _, h := range append(l.Holders, Holder{}) {
				questions = append(questions, QueryName{l.Name, h.Token})
			}
		}
		for s := range m.Sessions() {
			claims := []ClaimQuery{{1, Grant{}}, {2, Grant{"a", 2}}, {3, Grant{}}}
			questions = append(questions, QueryClaims{s.ID.Process(), []SessionClaims{{s.ID.Number, claims}}})
		}
		for _, q := range questions {
			heard, err := DecodeQuestion(EncodeQuestion(q))
			if err != nil {
				t.Fatal(err)
			}
			sent := EncodeAnswer(m.Answer(heard))
			a, err := DecodeAnswer(sent)
			if err != nil || !bytes.Equal(EncodeAnswer(a), sent) || !bytes.Equal(EncodeAnswer(m.Answer(q)), sent) || a.State() != m.Commands() {
				t.Fatalf("%+v: %v, answered with %+v", q, err, a)
			}
		}
	})
}

func FuzzDecodeQuestion(f *testing.F) {
	for _, q := range everyQuestion() {
		f.Add(EncodeQuestion(q))
	}
	m := small(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		q, err := DecodeQuestion(b)
		if err != nil {
			return
		}
		if again, err := DecodeQuestion(EncodeQuestion(q)); err != nil || !reflect.DeepEqual(again, q) {
			t.Fatalf("%+v became %+v: %v", q, again, err)
		}
		if _, err := DecodeAnswer(EncodeAnswer(m.Answer(q))); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzDecodeAnswer(f *testing.F) {
	for _, a := range everyAnswer() {
		f.Add(EncodeAnswer(a))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := DecodeAnswer(b)
		if err != nil {
			return
		}
		if again, err := DecodeAnswer(EncodeAnswer(a)); err != nil || !reflect.DeepEqual(again, a) {
			t.Fatalf("%+v became %+v: %v", a, again, err)
		}
	})
}
