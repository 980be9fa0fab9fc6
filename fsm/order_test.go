package fsm

import (
	"bytes"
	"fmt"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// bench is a serving machine with nodes a and b, for tests that need no oracle.
type bench struct {
	testing.TB
	m *Machine
}

func newBench(t testing.TB) *bench {
	b := &bench{t, New()}
	b.must(Birth{Cluster: [16]byte{1}, Bootstrap: 5, Voters: 3}, CodeOK)
	b.must(Serve{}, CodeOK)
	b.must(Hello{Node{'a'}, 1, "alpha", Place{"boot", 1, 2}, 2}, CodeOK)
	b.must(Hello{Node{'b'}, 1, "beta", Place{}, 2}, CodeOK)
	return b
}

// must applies a command, which has to be answered by the code, and checks the state.
func (b *bench) must(c Command, want Code) Outcome {
	b.Helper()
	o, _ := b.m.Apply(b.m.Applied()+1, ProcessOf(c), Encode(c))
	if o.Code != want {
		b.Fatalf("%T%+v: %v, want %v", c, c, o.Code, want)
	}
	if b.m.locks.Len()+b.m.requests.Len() < 1000 {
		if err := b.m.Check(); err != nil {
			b.Fatalf("after %T%+v: %v", c, c, err)
		}
	}
	return o
}

// goOn takes all the steps of what has ended, and returns how many those were.
func (b *bench) goOn() (steps int) {
	b.Helper()
	for last, left := b.m.Unfinished(); left; last, left = b.m.Unfinished() {
		b.must(Continue{last}, CodeOK)
		steps++
	}
	return steps
}

// acquire is the request of a's session 1 for a lock.
func acquire(request uint64, name string) Acquire {
	return Acquire{Session: sessionOf('a', 1), TTL: time.Second, Request: request, Name: name, Wait: true}
}

func sessionOf(node byte, number uint64) SessionID { return SessionID{Node{node}, 1, number} }

func TestTenThousandWaitersAreServedInOrder(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const waiters, sessions = 10_000, 100
	b.must(acquire(waiters+1, "x"), CodeGranted)
	for i := range uint64(waiters) {
		c := acquire(i+1, "x")
		c.Session = sessionOf('b', i%sessions+1)
		b.must(c, CodeQueued)
	}
	token := b.m.Info().Counter
	owner := sessionOf('a', 1)
	for i := range uint64(waiters) {
		if i == waiters/2 {
			m, err := ReadSnapshot(bytes.NewReader(snapshot(b.m)))
			if err != nil {
				t.Fatal(err)
			}
			b.m = m
		}
		cmd := Encode(Release{Session: owner, Grants: []Grant{{"x", token}}})
		_, events := b.m.own(b.m.Applied()+1, cmd)
		token++
		owner = sessionOf('b', i%sessions+1)
		e := events[1]
		if e.Kind != EventGranted || e.Session != owner || e.Request != i+1 || e.Token != token {
			t.Fatalf("waiter %d: got %+v", i, e)
		}
		if i+1 < waiters && len(events) != 3 { // released, granted, wanted
			t.Fatalf("waiter %d: one release made %d events", i, len(events))
		}
	}
	b.must(Release{Session: owner, Grants: []Grant{{"x", token}}}, CodeOK)
	if err := b.m.Check(); err != nil {
		t.Fatal(err)
	}
	if i := b.m.Info(); i.Locks+i.Grants+i.Waiters+b.m.requests.Len() != 0 {
		t.Fatalf("something is left: %+v", i)
	}
}

func TestAReleaseServesAllReadersAtTheHeadAndNoneBehindTheNextWriter(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := b.must(acquire(1, "x"), CodeGranted)
	modes := []Mode{Shared, Shared, Shared, Exclusive, Shared}
	for i, mode := range modes {
		c := acquire(uint64(i+2), "x")
		c.Mode = mode
		b.must(c, CodeQueued)
	}
	b.must(Release{Session: sessionOf('a', 1), Grants: []Grant{{"x", first.Token}}}, CodeOK)
	l, _ := b.m.Lock("x")
	if len(l.Holders) != 3 || len(l.Waiters) != 2 || l.Waiters[0].Mode != Exclusive {
		t.Fatalf("%d holders, waiters %+v", len(l.Holders), l.Waiters)
	}
}

func TestTheEndOfASessionServesEveryLockItHeldAndNoneOfItsOwnWaiters(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const locks = 500
	for i := range uint64(locks) {
		name := fmt.Sprint("lock ", i)
		b.must(acquire(2*i+1, name), CodeGranted)
		b.must(acquire(2*i+2, name), CodeQueued) // of the same session: must go with it
		c := acquire(i+1, name)
		c.Session = sessionOf('b', 1)
		b.must(c, CodeQueued)
	}
	b.must(Hello{Node{'a'}, 2, "alpha", Place{"boot", 1, 2}, 0}, CodeOK)
	if b.goOn() == 0 {
		t.Fatal("it took one step")
	}
	if err := b.m.Check(); err != nil {
		t.Fatal(err)
	}
	for l := range b.m.Locks("") {
		if len(l.Holders) != 1 || l.Holders[0].Session != sessionOf('b', 1) || len(l.Waiters) != 0 {
			t.Fatalf("%s is held by %+v", l.Name, l.Holders)
		}
	}
}

func TestAnIndexThatWasAppliedIsNotAppliedAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	before := snapshot(b.m)
	for index := range b.m.Applied() + 1 {
		if o, events := b.m.own(index, Encode(acquire(1, "x"))); o.Code != CodeInvalid || events != nil {
			t.Fatalf("index %d: %v", index, o.Code)
		}
	}
	if !bytes.Equal(snapshot(b.m), before) {
		t.Fatal("the state changed")
	}
}

// An entry of the log that is no command (a change of membership, the first one of a raft leader)
// makes a gap in its indexes. Nothing in the state but how far the log is applied may show that.
func TestNothingButTheCommandsNumbersSaysWhatHappenedWhen(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		log := history(t, 40)
		dense, sparse := New(), New()
		for i, e := range log {
			o, events := dense.own(uint64(i+1), e.cmd)
			other, others := sparse.own(uint64(i*i+7), e.cmd)
			if !reflect.DeepEqual(o, other) || !reflect.DeepEqual(events, others) {
				t.Fatalf("command %d: %v %v, and in another place of the log %v %v", i+1, o, events, other, others)
			}
			for _, e := range events {
				if e.Index != dense.Commands() || e.Index != uint64(i+1) {
					t.Fatalf("an event of command %d names %d", i+1, e.Index)
				}
			}
		}
		sparse.applied = dense.applied
		if !bytes.Equal(snapshot(dense), snapshot(sparse)) {
			t.Fatal("the state knows of the indexes of the log")
		}
	})
}

func TestACommandOfANewerVersionLeavesTheMachineAtTheIndexBefore(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	before := snapshot(b.m)
	for _, cmd := range [][]byte{{2, 1}, {1, 200}, {1, 0}} {
		if o, _ := b.m.own(b.m.Applied()+1, cmd); o.Code != CodeUnsupported {
			t.Errorf("%v: %v", cmd, o.Code)
		}
	}
	if !bytes.Equal(snapshot(b.m), before) {
		t.Fatal("the state changed")
	}
}

func TestLocksAreListedByPrefixInTheOrderOfTheirNames(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i, name := range []string{"b/2", "a/1", "b/1", "c", "b"} {
		b.must(acquire(uint64(i+1), name), CodeGranted)
	}
	got := ""
	for l := range b.m.Locks("b") {
		got += l.Name + " "
		if l.Name == "b/1" {
			break // a listing may be left
		}
	}
	if got != "b b/1 " {
		t.Fatal(got)
	}
}
