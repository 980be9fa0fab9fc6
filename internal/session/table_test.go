package session

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/lease"
)

// begins is what the clock of these tests shows when a table is new.
const begins = lease.Instant(time.Hour)

func newTable() *Table {
	t := New(0, func() float64 { return 0 })
	t.Identify(fsm.Process{Node: fsm.Node{1}, Incarnation: 1})
	return t
}

// call is a waiter that notes the first thing that it is told.
type call struct {
	told  bool
	token uint64
	err   error
}

func (c *call) Granted(token uint64) { c.hear(token, nil) }
func (c *call) Over(err error)       { c.hear(0, err) }

func (c *call) hear(token uint64, err error) {
	if !c.told {
		c.told, c.token, c.err = true, token, err
	}
}

// hold is a holder that notes what it is told.
type hold struct {
	grant    Grant
	ended    []error
	isWanted bool
	asked    string
	warnings []bool // safe
}

func (h *hold) Ended(err error) { h.ended = append(h.ended, err) }
func (h *hold) Wanted(reason string) {
	if reason == "" {
		h.isWanted = true
	} else {
		h.asked = reason
	}
}
func (h *hold) Warned(safe bool, _ time.Duration) { h.warnings = append(h.warnings, safe) }
func (h *hold) valid(now lease.Instant) bool      { return now < h.grant.Until() }
func (h *hold) take(c Call, token uint64, terms Terms, now lease.Instant) bool {
	return c.Take(&h.grant, h, "held", token, terms, now)
}

// asks is a call of the shared session of a TTL.
func asks(t *testing.T, table *Table, ttl time.Duration, manual bool, now lease.Instant) (Call, *call) {
	t.Helper()
	w := &call{}
	c, err := table.Ask(ttl, manual, w, now)
	if err != nil {
		t.Fatal(err)
	}
	return c, w
}

// sound asks whether the invariants hold.
func sound(t *testing.T, table *Table, now lease.Instant) {
	t.Helper()
	if err := table.Check(now); err != nil {
		t.Error(err)
	}
}

func TestASessionTakesSoManyUnfinishedCallsAndNoMore(t *testing.T) {
	t.Parallel()
	s := &Session{claims: make(map[uint64]*claim)}
	var last uint64
	for range OpenMax {
		n, _, err := s.Begin(1)
		if err != nil {
			t.Fatal(err)
		}
		last = n
	}
	if _, _, err := s.Begin(1); !errors.Is(err, ErrBusy) {
		t.Errorf("call %d: %v", last+1, err)
	}
	s.Finish(last) // not the oldest
	if _, _, err := s.Begin(1); err != nil {
		t.Error(err)
	}
}

func TestACallThatASessionHasNoRoomForGoesToAnother(t *testing.T) {
	t.Parallel()
	table := newTable()
	for range ClaimsMax {
		asks(t, table, time.Minute, false, begins)
	}
	c, _ := asks(t, table, time.Minute, false, begins)
	if held, waiting := c.Session.Counts(); held != 0 || waiting != 1 || len(table.All()) != 2 {
		t.Errorf("%d and %d on the session of the next call, %d sessions", held, waiting, len(table.All()))
	}
	sound(t, table, begins)
}

// A group is given up in which the end of a session was on its way: the answer never comes. Its
// node kept the session, and its number in use, for as long as the process lived.
func TestASessionWhoseEndIsUnderWayWhenItsGroupIsGivenUpIsForgotten(t *testing.T) {
	t.Parallel()
	table := newTable()
	c, _ := asks(t, table, time.Minute, false, begins)
	table.Opened(c.Session, false, begins)
	table.Lose(c.Session, ErrExpired)
	if table.Owed() == nil { // the caller that tells the group will hear that there is another
		t.Fatal("nothing is owed")
	}
	table.Forsake(errors.New("given up"))
	if !table.Empty() || table.numbers.Open() > 0 {
		t.Errorf("%d sessions and %d numbers are left", len(table.All()), table.numbers.Open())
	}
	sound(t, table, begins)
}

// A call whose command opens its session in the next group does so for nobody.
func TestASessionOfAGroupThatWasGivenUpIsClosedInTheNextOneIfACallOpensIt(t *testing.T) {
	t.Parallel()
	table := newTable()
	c, _ := asks(t, table, time.Minute, false, begins)
	table.Forsake(errors.New("given up"))
	if next := c.Answered(fsm.Outcome{Code: fsm.CodeGranted, Token: 1}, false, begins); next != Again {
		t.Errorf("the call goes on with %v", next)
	}
	d := table.Owed()
	if d == nil {
		t.Fatal("nothing is owed")
	}
	if cmd, ok := d.Command().(fsm.CloseSession); !ok || cmd.Session != c.Session.ID() {
		t.Errorf("%#v is owed", d.Command())
	}
}

// keepalives that are not answered do not pile up.
func TestSoManyKeepalivesAreUnderWayAndNoMore(t *testing.T) {
	t.Parallel()
	table, now, flying := newTable(), begins, []Keepalive(nil)
	c, _ := asks(t, table, time.Hour, false, now)
	table.Opened(c.Session, false, now)
	for now < c.Session.Until() {
		work := table.Step(now)
		flying = append(flying, work.Keepalives...)
		now = max(work.Next, now+1)
	}
	if len(flying) != keepalivesMax {
		t.Fatalf("%d keepalives under way", len(flying))
	}
	if !table.takeOff() {
		table.Unanswered(flying[0])
	}
	if !table.takeOff() {
		t.Error("the end of one makes no room for the next")
	}
	sound(t, table, now)
}

// The group says that it has ended the session; its event is still on its way.
func TestACallThatHearsThatItsSessionIsLostIsMadeOnAnother(t *testing.T) {
	t.Parallel()
	table, h := newTable(), &hold{}
	held, _ := asks(t, table, time.Minute, false, begins)
	next, _ := asks(t, table, time.Minute, false, begins)
	if held.Answered(fsm.Outcome{Code: fsm.CodeGranted, Token: 1}, false, begins) != Take || !h.take(held, 1, Terms{}, begins) {
		t.Fatal("not taken")
	}
	if got := next.Answered(fsm.Outcome{Code: fsm.CodeSessionLost}, false, begins); got != Again {
		t.Errorf("the call goes on with %v", got)
	}
	if h.valid(begins) || !errors.Is(h.grant.Err(), ErrExpired) || table.Owes() || !table.Empty() {
		t.Errorf("the lease is valid %v, its error %v; owes %v, %d sessions", h.valid(begins), h.grant.Err(), table.Owes(), len(table.All()))
	}
	again, _ := asks(t, table, time.Minute, false, begins)
	if again.Session == next.Session {
		t.Error("the next call is made on the session that is lost")
	}
	sound(t, table, begins)
}
