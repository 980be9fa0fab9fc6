package fsm

import "math"

// Resize changes the limit of a semaphore. The limit before it is accepted from then on, too, as
// the limit that all users share: a caller with either is served under the new one. A grant that
// does not fit any more stays; no further one is made until the weight in use fits, and a waiter
// whose weight is above the limit is withdrawn (ReasonResized).
//
// Seen is how many commands its proposer had applied: CodeFinished where another Resize was carried
// out since. CodeOK also where the limit is that already. CodeLimitMismatch for a name that is in
// use as a lock, CodeNotHeld for one that nobody uses and that was never resized: its next user
// says the limit. CodeTooManyResized: ResizesMax.
type Resize struct {
	Name  string
	Limit uint32
	Seen  uint64
}

// about is of no process: the command is an operator's.
func (Resize) about() (op, Process) { return opResize, Process{} }

func (c *Resize) fields(f *codec) {
	f.text(1, &c.Name)
	narrow(f, 2, &c.Limit)
	f.uint(3, &c.Seen)
}

// resize is what the group remembers of a semaphore that was resized, in use or not. It is forgotten
// when the name comes into use with neither of the limits.
type resize struct {
	limit  uint32
	former uint32 // before it
	at     uint64 // number of the command
}

func (c *Resize) apply(m *Machine) Outcome {
	if !validName(c.Name) || c.Limit == 0 || c.Limit > LimitMax || c.Seen == 0 || c.Seen >= m.commands {
		return Outcome{Code: CodeInvalid}
	}
	l := m.lock(c.Name)
	r, known := m.resizes.Get(c.Name)
	used := l != nil && l.inUse()
	now := r.limit
	if used {
		now = l.limit
	}
	if c.Seen < m.resized {
		if now == c.Limit {
			return Outcome{}
		}
		return Outcome{Code: CodeFinished}
	}
	m.resized = m.commands // whatever the answer: a late duplicate changes nothing
	switch {
	case used && now == 0:
		return Outcome{Code: CodeLimitMismatch}
	case now == 0:
		return Outcome{Code: CodeNotHeld}
	case now == c.Limit:
		return Outcome{}
	case !known && !m.roomForResize():
		return Outcome{Code: CodeTooManyResized}
	}
	m.resizes.Set(c.Name, resize{limit: c.Limit, former: now, at: m.commands})
	m.events = append(m.events, Event{Index: m.commands, Kind: EventResized, Name: c.Name, Terms: Terms{Mode: Permit, Limit: c.Limit}})
	if used {
		m.relimit(l, c.Limit)
	}
	return Outcome{}
}

// relimit gives a semaphore in use another limit, and serves or withdraws its waiters.
func (m *Machine) relimit(l *lock, limit uint32) {
	shrinks := limit < l.limit
	l.limit = limit
	if shrinks && l.waiters > 0 {
		l.unsettled = true
		m.unsettled.Set(l.name, sift{on: true, priority: math.MaxInt32})
	}
	m.settle(l)
}

// roomForResize reports whether one more name can be remembered as resized. A name that nobody uses
// makes room: the one that was resized first.
func (m *Machine) roomForResize() bool {
	if m.resizes.Len() < m.limits.resizes {
		return true
	}
	oldest, at := "", uint64(math.MaxUint64)
	m.resizes.Scan(func(name string, r resize) bool {
		if l, ok := m.locks.Get(name); r.at < at && !(ok && l.inUse()) {
			oldest, at = name, r.at
		}
		return true
	})
	m.work += costOfLook * m.resizes.Len()
	_, found := m.resizes.Delete(oldest)
	return found
}

// agrees reports whether a request's limit is one that its name is in use with, and its weight
// fits. The terms then have the limit that is in force (I1). l is nil for a name that is not there.
func (m *Machine) agrees(l *lock, name string, t *Terms) bool {
	used := l != nil && l.inUse()
	if used && l.limit == t.Limit {
		return true
	}
	r, resized := m.resizes.Get(name)
	if resized && t.Limit > 0 && !(used && l.limit == 0) && (t.Limit == r.former || t.Limit == r.limit) {
		t.Limit = r.limit
		return t.Weight <= r.limit
	}
	return !used
}

// begins gives a lock that comes into use the limit of its first claim. A resize to another limit
// is forgotten.
func (m *Machine) begins(l *lock, limit uint32) {
	if r, ok := m.resizes.Get(l.name); ok && r.limit != limit {
		m.resizes.Delete(l.name)
	}
	l.limit = limit
}

// sift is how far the waiters of an unsettled lock have been looked at since its limit became
// smaller.
type sift struct {
	on       bool // some are still to be looked at: those after
	priority int32
	index    uint64 // of the claim
}

// sifts withdraws waiters that want more than the limit of their semaphore, as far as this command
// may. It reports whether all have been looked at.
func (m *Machine) sifts(l *lock) bool {
	at, _ := m.unsettled.Get(l.name)
	if !at.on {
		return true
	}
	at.on = false
	var heavy []*claim
	m.pivot = claim{Terms: Terms{Priority: at.priority}, name: l.name, index: at.index + 1}
	m.waiters.Ascend(&m.pivot, func(c *claim) bool {
		if c.name != l.name {
			return false
		}
		if at.on = m.left <= 0; at.on {
			return false
		}
		at.priority, at.index = c.Priority, c.index
		m.charge(costOfLook)
		if c.Weight > l.limit {
			m.charge(costOfClaim)
			heavy = append(heavy, c)
		}
		return true
	})
	for _, c := range heavy {
		m.sendAway(c, ReasonResized)
	}
	m.unsettled.Set(l.name, at)
	return !at.on
}

// checkResizes tests that a name in use has the limit to which it was resized (I1).
func (m *Machine) checkResizes() (err error) {
	m.resizes.Scan(func(name string, r resize) bool {
		l, ok := m.locks.Get(name)
		switch {
		case !validName(name) || r.limit == 0 || r.limit > LimitMax || r.former == 0 || r.former > LimitMax || r.limit == r.former || r.at > m.resized:
			err = broken(7, "%q was resized from %d to %d at %d", name, r.former, r.limit, r.at)
		case ok && l.inUse() && l.limit != r.limit:
			err = broken(1, "%q is in use with limit %d and was resized to %d", name, l.limit, r.limit)
		}
		return err == nil
	})
	return err
}

// wasResized reports whether claims and rests of a lock may have other limits than its own.
func (m *Machine) wasResized(l *lock) bool {
	_, ok := m.resizes.Get(l.name)
	return ok
}

// sifting reports whether a waiter is still to be looked at.
func (m *Machine) sifting(l *lock, c *claim) bool {
	at, _ := m.unsettled.Get(l.name)
	return at.on && lessByTurn(&claim{Terms: Terms{Priority: at.priority}, name: l.name, index: at.index}, c)
}

// limitsOf are the limit of a semaphore, in use or resized, and the one before it.
func (m *Machine) limitsOf(l *lock) (limit, former uint32) {
	r, resized := m.resizes.Get(l.name)
	if resized && !l.inUse() {
		return r.limit, r.former
	}
	return l.limit, r.former
}
