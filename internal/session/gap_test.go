package session

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
)

// limitedGroup is a group that remembers few runs of numbers, and serves the table's process.
func limitedGroup(t *testing.T, l fsm.Limits) *groupOf {
	g := newGroupOf(t)
	g.m.Limit(l)
	for _, cmd := range []fsm.Command{fsm.Birth{Cluster: [16]byte{1}}, fsm.Serve{}, fsm.Hello{Node: fsm.Node{1}, Incarnation: 1}} {
		g.apply(cmd)
	}
	return g
}

// pay tells the group what the table owes it.
func (g *groupOf) pay(table *Table) {
	for d := table.Owed(); d != nil; d = table.Owed() {
		for cmd := d.Command(); cmd != nil; cmd = d.Command() {
			d.Paid(g.apply(cmd), begins)
		}
	}
}

// proposes makes a call's command.
func (g *groupOf) proposes(c Call, name string) fsm.Outcome {
	return g.apply(fsm.Acquire{
		Session: c.Session.ID(), TTL: c.Session.TTL(), Request: c.Request, Acked: c.Acked, Name: name, Wait: true,
	})
}

// waiting lets one call of a table wait for a lock that another holds.
func (g *groupOf) waiting(table *Table) (h *hold) {
	h = &hold{}
	first, _ := asks(g.T, table, time.Minute, false, begins)
	if out := g.proposes(first, "a"); first.Answered(out, false, begins) != Take || !h.take(first, out.Token, Terms{}, begins) {
		g.Fatal("not granted")
	}
	second, _ := asks(g.T, table, time.Minute, false, begins)
	if second.Answered(g.proposes(second, "a"), false, begins) != Wait {
		g.Fatal("it does not wait")
	}
	return h
}

// serves takes one lock and gives it back: the group then remembers its number for as long as an
// earlier call waits.
func (g *groupOf) serves(table *Table, round int) {
	g.Helper()
	c, _ := asks(g.T, table, time.Minute, false, begins)
	out := g.proposes(c, "held") // as hold.take calls it
	h := &hold{}
	if next := c.Answered(out, false, begins); next != Take || !h.take(c, out.Token, Terms{}, begins) {
		g.Fatalf("round %d: %v", round, out.Code)
	}
	h.grant.End(ErrReleased)
	h.grant.ReleaseLater(begins)
	g.pay(table)
}

// A candidate waited for hours beside calls that gave up before they were sent, and writes that a
// quota refused. The group never heard of their numbers, each split a run of finished ones for good,
// and with 65,536 of them it refused every call of that TTL for as long as the candidate waited.
func TestRequestsThatTheGroupNeverSeesUseNothingUpBesideACallThatWaits(t *testing.T) {
	t.Parallel()
	for name, unseen := range map[string]func(*groupOf, *Table, *hold){
		"a call that is never sent": func(_ *groupOf, table *Table, _ *hold) {
			c, _ := asks(t, table, time.Minute, false, begins)
			c.GiveUp(false)
		},
		"a write that is refused": func(g *groupOf, table *Table, h *hold) {
			s := h.grant.Session()
			request, acked, err := s.Begin(begins)
			if err != nil {
				g.Fatal(err)
			}
			out := g.apply(fsm.SetValue{
				Session: s.ID(), Request: request, Acked: acked, Name: "a", Token: h.grant.Token(), Value: []byte("long"),
			})
			if out.Code != fsm.CodeValuesFull {
				g.Fatalf("the write is answered %v", out.Code)
			}
			table.Skip(s, request)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, table := limitedGroup(t, fsm.Limits{Spans: 4, ValueBytes: 1}), newTable()
			h := g.waiting(table)
			for round := range 10 {
				unseen(g, table, h)
				g.pay(table)
				g.serves(table, round)
			}
			sound(t, table, begins)
		})
	}
}

// Calls with a TTL of their own gave up before they were sent, beside a session that lives. Each took
// a session number that the group never heard of, and with 4,096 gaps between those that it had
// heard of the process could open no session any more.
func TestSessionsThatTheGroupNeverSeesUseNothingUp(t *testing.T) {
	t.Parallel()
	g, table := limitedGroup(t, fsm.Limits{Spans: 4}), newTable()
	g.waiting(table)
	for round := range 10 {
		c, _ := asks(t, table, time.Second, false, begins)
		c.GiveUp(false)
		g.pay(table)
		c, _ = asks(t, table, time.Hour, true, begins)
		out := g.proposes(c, "held") // as hold.take calls it
		h := &hold{}
		if c.Answered(out, false, begins) != Take || !h.take(c, out.Token, Terms{}, begins) {
			t.Fatalf("round %d: %v", round, out.Code)
		}
		h.grant.End(ErrReleased)
		h.grant.ReleaseLater(begins)
		g.pay(table)
	}
	if all := table.All(); len(all) != 1 {
		t.Errorf("%d sessions are left", len(all))
	}
	sound(t, table, begins)
}

// Whatever uses a session up: the next call is made on another one, and its caller is not told. In a
// group that has no room for the requests of any session a new one would be of no use, and each
// further call would open one more.
func TestACallThatASessionHasNoNumbersLeftForGoesToAnother(t *testing.T) {
	t.Parallel()
	for name, numbers := range map[string]int{"used up": fsm.SpansMax + 1, "of a full group": 100} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			table := newTable()
			first, _ := asks(t, table, time.Minute, false, begins)
			first.Answered(fsm.Outcome{Code: fsm.CodeQueued}, false, begins)
			for range numbers {
				request, _, err := first.Session.Begin(begins)
				if err != nil {
					t.Fatal(err)
				}
				first.Session.Finish(request)
			}
			c, _ := asks(t, table, time.Minute, false, begins)
			next := c.Answered(fsm.Outcome{Code: fsm.CodeTooManyRequests}, false, begins)
			again, _ := asks(t, table, time.Minute, false, begins)
			if full := numbers > fsm.SpansMax; (next == Again) != full || (again.Session != first.Session) != full {
				t.Errorf("%v, and the next call on another session: %v", next, again.Session != first.Session)
			}
			if _, waiting := first.Session.Counts(); waiting == 0 {
				t.Error("the call that waits has gone")
			}
			sound(t, table, begins)
		})
	}
}

// A client cut off from its group made a session for each call that gave up before it was sent, and owed
// the end of each: memory grew with the attempts for as long as the outage lasted, and the group heard
// one command for each afterwards.
func TestCallsInAnOutageLeaveNoMoreThanABoundedDebt(t *testing.T) {
	t.Parallel()
	for name, manual := range map[string]bool{"renewed automatically": false, "renewed by hand": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, table := limitedGroup(t, fsm.Limits{Spans: 4}), newTable()
			h := g.waiting(table)
			table.Lose(h.grant.Session(), ErrExpired) // the outage begins
			for range 1000 {
				c, _ := asks(t, table, time.Second, manual, begins)
				c.GiveUp(false)
			}
			if all, owed := len(table.All()), len(table.debts.line); all > unheardMax+1 || owed > unheardMax+1 {
				t.Errorf("%d sessions, and the ends of %d are owed", all, owed)
			}
			g.pay(table) // it is over
			if all := table.All(); len(all) != 0 || table.unheard != 0 {
				t.Errorf("%d sessions are left, %d of them unheard", len(all), table.unheard)
			}
			g.serves(table, 0)
			sound(t, table, begins)
		})
	}
}

// Beside a call that waits, calls gave up faster than the group heard of them, and the runs between their numbers
// filled the session. The group then had no room for their withdrawals, which would have joined the runs: every
// call of that TTL was refused until the one that waited was over.
func TestASessionThatIsFullOfGapsIsSoonFreeAgain(t *testing.T) {
	t.Parallel()
	g, table := limitedGroup(t, fsm.Limits{Spans: 4}), newTable()
	g.waiting(table)
	var late []Call
	for range 4 {
		c, _ := asks(t, table, time.Minute, false, begins)
		late = append(late, c) // it gives up below, and the group hears of it later than of the next one
		c, _ = asks(t, table, time.Minute, false, begins)
		if out := g.proposes(c, "held"); out.Code != fsm.CodeGranted {
			t.Fatal(out.Code)
		}
		c.GiveUp(true)
		g.pay(table)
	}
	for _, c := range late {
		c.GiveUp(false)
	}
	full, _ := asks(t, table, time.Minute, false, begins)
	for d := table.Owed(); d != nil; d = table.Owed() { // in no time at all: what was refused is asked for again
		for cmd := d.Command(); cmd != nil; cmd = d.Command() {
			d.Paid(g.apply(cmd), begins)
		}
		if d.Refused() {
			t.Fatal("the group has no room for a withdrawal that makes no further run")
		}
	}
	full.Answered(g.proposes(full, "held"), false, begins)
	full.GiveUp(true)
	g.pay(table)
	for round := range 5 {
		g.serves(table, round)
	}
	sound(t, table, begins)
}
