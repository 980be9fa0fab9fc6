package fsm

import (
	"iter"
	"strings"
	"time"
)

// rest is the place of a grant that has ended and stays taken: because its holder released it with
// a rest (minimum hold time), or because it was lost and had a delay. A rest has no session: it
// ends by EndRest alone, which replicas propose when its time is over by their clocks. It counts as
// a holder for I1 and keeps its lock for I6.
type rest struct {
	name   string
	token  uint64 // of the grant
	since  uint64 // command that ended it
	millis uint64
	weight uint32
	limit  uint32
	mode   Mode
}

// Rest is a place that stays taken though its holder is gone.
type Rest struct {
	Name  string
	Token uint64        // of the grant that was there
	Since uint64        // command that ended it
	For   time.Duration // counted from there
	Mode  Mode
}

func lessByRest(a, b *rest) bool {
	if c := strings.Compare(a.name, b.name); c != 0 {
		return c < 0
	}
	return a.token < b.token
}

func (r *rest) view() Rest {
	return Rest{Name: r.name, Token: r.token, Since: r.since, For: time.Duration(r.millis) * time.Millisecond, Mode: r.mode}
}

// beginRest keeps the place of a holder that has just been dropped.
func (m *Machine) beginRest(l *lock, c *claim, millis uint64) {
	r := &rest{
		name: l.name, token: c.token, since: m.commands, millis: millis,
		weight: c.Weight, limit: c.Limit, mode: c.Mode,
	}
	m.occupy(l, r)
	m.events = append(m.events, Event{
		Index: m.commands, Kind: EventResting, Name: r.name, Token: r.token, TTL: r.view().For, Terms: Terms{Mode: r.mode, Weight: r.weight},
	})
}

// occupy counts a rest in its lock (I1, I7).
func (m *Machine) occupy(l *lock, r *rest) {
	if !l.inUse() {
		l.limit = r.limit
		if x, resized := m.resizes.Get(l.name); resized { // since the grant, perhaps
			l.limit = x.limit
		}
	}
	m.rests.Set(r)
	l.resting++
	l.used += r.weight
	l.mode = r.mode
}

func (c *EndRest) apply(m *Machine) Outcome {
	if !validLock(c.Name) {
		return Outcome{Code: CodeInvalid}
	}
	r, ok := m.rests.Delete(&rest{name: c.Name, token: c.Token})
	if !ok {
		return Outcome{Code: CodeFinished}
	}
	l := m.lock(c.Name)
	l.resting--
	l.used -= r.weight
	l.vacate()
	m.events = append(m.events, Event{
		Index: m.commands, Kind: EventRested, Name: r.name, Token: r.token, Terms: Terms{Mode: r.mode, Weight: r.weight},
	})
	m.settle(l)
	return Outcome{}
}

// restsOf are the rests of a lock in the order of their tokens.
func (m *Machine) restsOf(l *lock) iter.Seq[*rest] {
	return func(yield func(*rest) bool) {
		m.rests.Ascend(&rest{name: l.name}, func(r *rest) bool { return r.name == l.name && yield(r) })
	}
}

// Rests are all places that stay taken, by name and token. The machine must not change meanwhile.
func (m *Machine) Rests() iter.Seq[Rest] {
	return func(yield func(Rest) bool) {
		m.rests.Scan(func(r *rest) bool { return yield(r.view()) })
	}
}
