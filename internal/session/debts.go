package session

import (
	"sync"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/lease"
)

// debts are the commands that the group has not heard yet: withdrawals of calls whose context
// ended, releases without an answer, ends of sessions lost here. They are bounded by the unfinished
// calls and the leases that they come from.
type debts struct {
	count atomic.Int64 // of line
	mu    sync.Mutex
	jobs  map[*Session]*Debt
	line  []*Session // in order of arrival
}

// Debt is the debt of one session: one command after the other (K8).
type Debt struct {
	s        *Session
	rests    []resting
	close    bool
	lost     bool // close is for a session that was lost
	withdraw []uint64
	most     int      // withdrawals in a command
	refused  []uint64 // withdrawals that the group had no room to remember
	release  []fsm.Grant
}

// resting is a release after which the place stays taken.
type resting struct {
	grant   *Grant
	command fsm.Release
}

// Withdraw has the group told that no caller waits for the answer of a request any more.
func (t *Table) Withdraw(s *Session, request uint64) {
	t.owe(s, func(d *Debt) { d.withdraw = append(d.withdraw, request) })
}

func (t *Table) owe(s *Session, put func(*Debt)) {
	t.debts.mu.Lock()
	d := t.debts.jobs[s]
	if d == nil {
		d = &Debt{s: s, most: fsm.ListMax}
		t.debts.jobs[s] = d
		t.debts.line = append(t.debts.line, s)
		t.debts.count.Add(1)
	}
	put(d)
	closes := d.close
	t.debts.mu.Unlock()
	if closes {
		s.mu.Lock()
		s.closing = true
		s.mu.Unlock()
	}
}

// Owes reports whether a debt is in the queue.
func (t *Table) Owes() bool { return t.debts.count.Load() > 0 }

// Owed takes the oldest debt; nil if there is none.
func (t *Table) Owed() *Debt {
	t.debts.mu.Lock()
	defer t.debts.mu.Unlock()
	if len(t.debts.line) == 0 {
		return nil
	}
	s := t.debts.line[0]
	t.debts.line = t.debts.line[1:]
	t.debts.count.Add(-1)
	d := t.debts.jobs[s]
	delete(t.debts.jobs, s)
	return d
}

// Command is what the group is to be told next; nil if that is all. Give its outcome to Paid.
func (d *Debt) Command() fsm.Command {
	switch {
	case len(d.rests) > 0:
		return d.rests[0].command
	case d.close: // the end of the session ends all that hangs on it
		return fsm.CloseSession{Session: d.s.id, Lost: d.lost}
	case len(d.withdraw) > 0:
		return fsm.Withdraw{Session: d.s.id, Acked: d.s.Acked(), Requests: d.withdraw[:min(len(d.withdraw), d.most)]}
	case len(d.release) > 0:
		return fsm.Release{Session: d.s.id, Acked: d.s.Acked(), Grants: d.release[:min(len(d.release), fsm.ListMax)]}
	}
	return nil
}

// Lost is the session of a debt if the group has ended it, by the outcome of Command.
func (d *Debt) Lost(out fsm.Outcome) []*Session {
	if len(d.rests) > 0 || d.close || len(d.withdraw) == 0 {
		return nil
	}
	return lostBy(out, d.s)
}

// Paid takes the outcome of Command.
func (d *Debt) Paid(out fsm.Outcome, now lease.Instant) {
	switch {
	case len(d.rests) > 0:
		d.rests[0].grant.left()
		d.rests = d.rests[1:]
		d.s.table.closed(d.s)
	case d.close:
		d.s.table.forget(d.s)
		*d = Debt{s: d.s}
	case len(d.withdraw) > 0:
		d.withdrawn(out, now)
	default:
		d.release = d.release[min(len(d.release), fsm.ListMax):]
	}
}

// withdrawn takes the outcome of a withdrawal. Until the group has room to remember it, a late
// duplicate of the request's command could still be carried out.
func (d *Debt) withdrawn(out fsm.Outcome, now lease.Instant) {
	batch := d.withdraw[:min(len(d.withdraw), d.most)]
	full := out.Code == fsm.CodeTooManyRequests || out.Code == fsm.CodeTooManySessions
	if full && len(batch) > 1 {
		d.most = 1 // those that are over make room
		return
	}
	d.withdraw = d.withdraw[len(batch):]
	if full {
		d.refused = append(d.refused, batch...)
		return
	}
	for _, request := range batch {
		d.s.Finish(request)
	}
	switch open, state := out.Code.Left(); {
	case state == fsm.RequestSessionLost:
		d.s.table.Lose(d.s, ErrExpired)
		*d = Debt{s: d.s}
		return
	case open: // perhaps by a call that never heard so
		d.s.table.Opened(d.s, false, now)
	}
	if len(d.withdraw)+len(d.refused) == 0 {
		d.s.table.discard(d.s)
	}
}

// Refused reports whether the group had no room for some of it: wait a little, and call Again.
func (d *Debt) Refused() bool { return len(d.refused) > 0 }

// Again owes what was refused once more.
func (d *Debt) Again() {
	d.s.table.owe(d.s, func(again *Debt) { again.withdraw = append(again.withdraw, d.refused...) })
}
