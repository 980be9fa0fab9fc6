package fsm

import (
	"math/bits"
	"strings"
	"time"
)

// A Once key is a lock of a space of its own while it runs: it has the sessions, tokens, queue and
// loss of any other lock. Finish turns it into a record, which is kept for a time (I8).
//
// That time is counted without a clock in the log. Keys that are kept equally long make a class.
// Replicas propose a Turn of the class when one period, a small part of that time, went by on their
// own clock since they applied the last Turn. The time of a key is over when enough whole periods
// lie between its end and the last turn: never early, later by a period at most, and a restart of
// all replicas loses one period, not all.
const (
	onceMark  = "\x00" // before a Once key; no lock's name has it
	afterOnce = "\x01" // the lowest name that is not a Once key

	// PeriodsMax is into how many periods the time of a key is divided; fewer if they would be
	// shorter than PeriodMin. These and the next are part of the replicated machine.
	PeriodsMax = 64
	PeriodMin  = 100 * time.Millisecond
	// SweepMax is how many keys one Sweep forgets.
	SweepMax = 256
	// sweepAlong is how many keys each Finish forgets of its class: more than it adds, so that what
	// is added steadily is forgotten steadily.
	sweepAlong = 2
)

// OnceName is the name that a Once key has in commands and events.
func OnceName(key string) string { return onceMark + key }

// OnceKey is the key of such a name; false if it is that of a lock.
func OnceKey(name string) (key string, ok bool) { return strings.CutPrefix(name, onceMark) }

func isOnce(name string) bool { return strings.HasPrefix(name, onceMark) }

// OncePeriod is the period of the keys that are kept for a time.
func OncePeriod(keep time.Duration) time.Duration { return max(keep/PeriodsMax, PeriodMin) }

// onceRecord is a key that is finished.
type onceRecord struct {
	name  string
	owner *owner // of the run that finished it
	token uint64
	index uint64 // command that finished it
	keep  uint64 // milliseconds: its class
}

func lessByKey(a, b *onceRecord) bool { return a.name < b.name }

func lessByAge(a, b *onceRecord) bool {
	return a.keep < b.keep || a.keep == b.keep && a.index < b.index
}

// class is the keys that are kept equally long.
type class struct {
	turns []uint64 // commands that were its beginning or oldest turn that matters to the last. Never changed
	count int      // of keys
}

// classOf rounds a time up, by a sixteenth at most, so that there are not many classes.
func classOf(keep time.Duration) uint64 {
	millis := uint64(keep / time.Millisecond)
	unit := uint64(1) << max(bits.Len64(millis)-5, 0)
	return (millis + unit - 1) / unit * unit
}

// turnsFor is how many turns make the time of a class go by: its periods, and the one that a key
// came into.
func turnsFor(keep uint64) int {
	time, period := time.Duration(keep)*time.Millisecond, OncePeriod(time.Duration(keep)*time.Millisecond)
	return int((time+period-1)/period) + 1
}

// over is the command up to which the keys of a class have been kept for long enough, 0 if none
// has.
func (c class) over(keep uint64) uint64 {
	if len(c.turns) < turnsFor(keep) {
		return 0
	}
	return c.turns[0] - 1
}

// begin says whether a key that no call runs may be run.
func (m *Machine) begin(name string) Outcome {
	if r, ok := m.keys.Get(&onceRecord{name: name}); ok {
		h := r.view()
		return Outcome{Code: CodeDone, Token: r.token, Holder: &h}
	}
	if m.keys.Len() >= m.limits.keys {
		return Outcome{Code: CodeTooManyKeys}
	}
	return Outcome{}
}

func (r *onceRecord) view() Holder {
	return Holder{
		Session: r.owner.id, NodeName: r.owner.nodeName, Terms: Terms{Weight: 1}, Token: r.token, Granted: r.index,
	}
}

func (c *Finish) apply(m *Machine) Outcome {
	if !c.Session.valid() || !isOnce(c.Name) || !validLock(c.Name) || c.Keep < time.Millisecond || c.Keep > KeepMax {
		return Outcome{Code: CodeInvalid}
	}
	s := m.session(c.Session)
	if s != nil {
		m.ack(s, c.Acked)
		if l := m.lock(c.Name); m.heldBy(s, l, c.Token) != nil {
			m.close(s, l, classOf(c.Keep))
			return Outcome{}
		}
	}
	if r, ok := m.keys.Get(&onceRecord{name: c.Name}); ok && r.token == c.Token {
		return Outcome{} // it was this run that finished it
	}
	return Outcome{Code: CodeNotHeld}
}

// close turns the lock of a key into its record, and withdraws its waiters, in steps if they are
// many (I8).
func (m *Machine) close(s *session, l *lock, keep uint64) {
	held := l.holder
	m.work += costOfClaim
	m.finish(s, held.request)
	m.remove(held, ending{kind: EventReleased, reason: ReasonFinished})
	m.replaces(block{name: l.name}, l.value, nil)
	l.value = nil
	m.remember(&onceRecord{name: l.name, owner: s.owner, token: held.token, index: m.commands, keep: keep})
	m.settle(l)
	m.forgetKeys(keep, m.commands, sweepAlong)
}

// isDone reports whether a lock is that of a finished Once key: its waiters are to be withdrawn
// (I8).
func (m *Machine) isDone(name string) bool {
	if !isOnce(name) {
		return false
	}
	_, done := m.keys.Get(&onceRecord{name: name})
	return done
}

func (m *Machine) sendAway(c *claim, why Reason) {
	m.finish(m.session(c.owner.id), c.request)
	m.remove(c, ending{kind: EventWithdrawn, reason: why})
}

func (m *Machine) remember(r *onceRecord) {
	m.keys.Set(r)
	m.aged.Set(r)
	k, ok := m.classes.Get(r.keep)
	if !ok {
		k.turns = []uint64{m.commands}
	}
	k.count++
	m.classes.Set(r.keep, k)
}

// forgetKeys forgets keys of a class that were kept for their time and were finished up to a
// command: most at most.
func (m *Machine) forgetKeys(keep, upto uint64, most int) {
	k, ok := m.classes.Get(keep)
	if !ok {
		return
	}
	upto = min(upto, k.over(keep))
	for ; most > 0; most-- {
		var oldest *onceRecord
		m.aged.Ascend(&onceRecord{keep: keep}, func(r *onceRecord) bool {
			oldest = r
			return false
		})
		if oldest == nil || oldest.keep != keep || oldest.index > upto {
			break
		}
		m.dropKey(oldest, &k)
	}
	m.fileClass(keep, k)
}

func (c *Turn) apply(m *Machine) Outcome {
	keep := uint64(c.Keep / time.Millisecond)
	k, ok := m.classes.Get(keep)
	if !ok || k.turns[len(k.turns)-1] != c.Last {
		return Outcome{Code: CodeFinished}
	}
	from := max(0, len(k.turns)+1-turnsFor(keep))
	k.turns = append(append(make([]uint64, 0, len(k.turns)+1-from), k.turns[from:]...), m.commands)
	m.classes.Set(keep, k)
	return Outcome{}
}

func (c *Sweep) apply(m *Machine) Outcome {
	m.forgetKeys(uint64(c.Keep/time.Millisecond), c.Upto, SweepMax)
	return Outcome{}
}

// Key returns the run that finished a Once key; Granted is the number of that command. False if the
// key is not remembered as finished.
func (m *Machine) Key(key string) (Holder, bool) {
	r, ok := m.keys.Get(&onceRecord{name: OnceName(key)})
	if !ok {
		return Holder{}, false
	}
	return r.view(), true
}

// Class is the Once keys that are remembered equally long.
type Class struct {
	Keep time.Duration
	Last uint64 // command that was its last turn
	Over uint64 // if not 0, that of the last key that a Sweep may forget now
}

// Classes are the classes of Once keys by how long they are kept. They are few: less than a
// thousand.
func (m *Machine) Classes() (all []Class) {
	m.classes.Scan(func(keep uint64, k class) bool {
		all = append(all, Class{
			Keep: time.Duration(keep) * time.Millisecond, Last: k.turns[len(k.turns)-1], Over: m.overdue(keep, k.over(keep)),
		})
		return true
	})
	return all
}

// overdue is the command that finished the last key of a class that one Sweep may forget.
func (m *Machine) overdue(keep, upto uint64) (last uint64) {
	n := 0
	m.aged.Ascend(&onceRecord{keep: keep}, func(r *onceRecord) bool {
		if n++; n > SweepMax || r.keep != keep || r.index > upto {
			return false
		}
		last = r.index
		return true
	})
	return last
}

// Forget says that a finished Once key is to be remembered no longer. The token is that of its
// record: of a later run it forgets nothing. CodeOK also when there is no such record.
type Forget struct {
	Name  string // see OnceName
	Token uint64
}

func (c *Forget) apply(m *Machine) Outcome {
	if !isOnce(c.Name) || !validLock(c.Name) {
		return Outcome{Code: CodeInvalid}
	}
	if r, ok := m.keys.Get(&onceRecord{name: c.Name}); ok && r.token == c.Token {
		k, _ := m.classes.Get(r.keep)
		m.dropKey(r, &k)
		m.fileClass(r.keep, k)
	}
	return Outcome{}
}

// dropKey forgets a key of a class.
func (m *Machine) dropKey(r *onceRecord, k *class) {
	m.aged.Delete(r)
	m.keys.Delete(r)
	k.count--
}

// fileClass notes what has become of a class.
func (m *Machine) fileClass(keep uint64, k class) {
	if k.count == 0 {
		m.classes.Delete(keep)
	} else {
		m.classes.Set(keep, k)
	}
}
