package fsm

import (
	"slices"
	"time"
)

// tally is the sum over all locks, which I7 compares with the counts.
type tally struct {
	shared, grants, waiters, rests int
	asked, sets                    int
	values                         int64
	tokens                         map[uint64]bool
}

func (t *tally) ofSet(c *claim) {
	if !c.alone() {
		t.sets++
	}
}

func (m *Machine) checkLocks() (err error) {
	t := tally{tokens: make(map[uint64]bool)}
	m.locks.Scan(func(name string, l *lock) bool {
		if l.name != name || !validLock(name) || l.value.size() > ValueBytesMax {
			err = broken(6, "lock %q is filed as %q", l.name, name)
		} else if err = m.checkHolders(l, &t); err == nil {
			err = m.checkWaiters(l, &t)
		}
		t.values += l.value.size()
		return err == nil
	})
	switch {
	case err != nil:
		return err
	case t.grants != m.grants || t.shared != m.shared.Len() || t.waiters != m.waiters.Len():
		return broken(7, "locks have %d grants (%d shared) and %d waiters, counted %d (%d) and %d",
			t.grants, t.shared, t.waiters, m.grants, m.shared.Len(), m.waiters.Len())
	case t.rests != m.rests.Len():
		return broken(7, "locks have %d rests, there are %d", t.rests, m.rests.Len())
	case t.asked != m.asked.Len():
		return broken(7, "%d holders are asked to let go, counted %d", m.asked.Len(), t.asked)
	case t.sets != m.sets:
		return broken(9, "%d claims of sets, counted %d", t.sets, m.sets)
	case t.values != m.values:
		return broken(7, "%d bytes of values, counted %d", t.values, m.values)
	case !m.serving && t.grants > 0:
		return broken(7, "%d grants before the group serves", t.grants)
	}
	return nil
}

func (m *Machine) checkHolders(l *lock, t *tally) error {
	holders, resting, used := 0, 0, uint64(0)
	var young rest // the token and the limit of the last grant that is still there
	for r := range m.restsOf(l) {
		resting++
		used += uint64(r.weight)
		young = *r
		if err := m.checkRest(l, r); err != nil {
			return err
		}
	}
	for c := range m.holdersOf(l) {
		holders++
		t.ofSet(c)
		used += uint64(c.Weight)
		if c.token > young.token {
			young = rest{token: c.token, limit: c.Limit}
		}
		if err := m.checkFiled(l, c); err != nil {
			return err
		}
		switch {
		case c.Mode != l.mode || c.first() != nil:
			return broken(1, "%q is held %v, a holder has it %v", l.name, l.mode, c.Mode)
		case c.token == 0 || c.token > m.counter || c.token > l.last || t.tokens[c.token] && c.leads():
			return broken(2, "token %d of %q: last %d, counter %d", c.token, l.name, l.last, m.counter)
		}
		if c.leads() {
			t.tokens[c.token] = true // one for a whole set
			if reason, ok := m.asked.Get(c.token); ok {
				t.asked++
				t.values += int64(len(reason))
			}
		}
	}
	if l.mode != Exclusive {
		t.shared += holders
	}
	t.grants += holders
	t.rests += resting
	switch {
	case holders != int(l.holders) || resting != int(l.resting) || used != uint64(l.used):
		return broken(7, "%q has %d holders of weight %d, counted %d of %d", l.name, holders, used, l.holders, l.used)
	case l.mode == Permit && used > uint64(young.limit), holders+resting > m.limits.holders, l.mode == Exclusive && holders+resting > 1:
		return broken(1, "%q has %d %v holders of weight %d, limit %d", l.name, holders, l.mode, used, young.limit)
	case holders+resting == 0 && l.mode != Exclusive:
		return broken(1, "%q is free and %v", l.name, l.mode)
	case l.last > m.counter || l.told > l.last:
		return broken(2, "last token %d of %q, counter %d", l.last, l.name, m.counter)
	}
	return nil
}

func (m *Machine) checkWaiters(l *lock, t *tally) error {
	waiters := int32(0)
	for c := range m.waitersOf(l) {
		waiters++
		t.ofSet(c)
		if err := m.checkFiled(l, c); err != nil {
			return err
		}
		switch {
		case waiters == 1 && !l.unsettled && m.fits(l, c.Mode, c.Weight) && !m.gone(c) && (c.alone() || m.fitsSet(c.more.set) && !m.anyUnsettled(c.more.set)):
			return broken(4, "the first waiter of %q waits for what is free", l.name)
		case l.limit > 0 && c.Weight > l.limit && !m.sifting(l, c):
			return broken(1, "waiter %d of %q has weight %d, limit %d", waiters, l.name, c.Weight, l.limit)
		case c.token != 0 || c.first().size() > ValueBytesMax:
			return broken(1, "waiter %d of %q has token %d, %d bytes", waiters, l.name, c.token, c.first().size())
		}
		t.values += c.first().size()
	}
	t.waiters += int(waiters)
	_, filed := m.unsettled.Get(l.name)
	switch {
	case filed != l.unsettled || filed && waiters == 0:
		return broken(4, "%q is unsettled: %v, filed so: %v", l.name, l.unsettled, filed)
	case !l.inUse() && l.limit != 0:
		return broken(7, "%q is not in use and has limit %d", l.name, l.limit)
	case waiters != l.waiters || waiters > 0 && l.told < l.last && !l.unsettled:
		return broken(7, "%q has %d waiters, counted %d; told up to %d of %d", l.name, waiters, l.waiters, l.told, l.last)
	case !l.inUse() && l.value == nil:
		return broken(6, "%q is not in use", l.name)
	}
	return nil
}

// anyUnsettled reports whether a lock of a set is unsettled: the set is served with that lock (I4).
func (m *Machine) anyUnsettled(all *set) bool {
	return slices.ContainsFunc(all.claims, func(c *claim) bool {
		_, later := m.unsettled.Get(c.name)
		return later
	})
}

// valid reports whether the claim could have come from a valid command.
func (c *claim) valid() bool { return c.Weight > 0 && c.Terms.valid(c.name, !c.alone()) }

// checkSet tests the set of a claim (I9).
func (m *Machine) checkSet(c *claim) error {
	all := c.more.set.claims
	if len(all) < 2 || len(all) > SetMax || isOnce(c.name) {
		return broken(9, "request %d of %v has a %v set of %d", c.request, c.owner.id, c.Mode, len(all))
	}
	names, found := make(map[string]bool), false
	for _, other := range all {
		found = found || other == c
		names[other.name] = true
		if other.owner != c.owner || other.request != c.request || other.token != c.token || other.Mode != c.Mode ||
			other.Priority != c.Priority || other.index != c.index || other.more == nil || other.more.set != c.more.set {
			return broken(9, "request %d of %v has claims that differ", c.request, c.owner.id)
		}
	}
	if !found || len(names) != len(all) {
		return broken(9, "request %d of %v names a lock twice or not", c.request, c.owner.id)
	}
	return nil
}

func (m *Machine) checkRest(l *lock, r *rest) error {
	switch {
	case r.mode != l.mode || r.weight == 0 || r.limit != l.limit && !m.wasResized(l) || (r.mode == Permit) != (r.limit > 0) || r.mode != Permit && r.weight != 1:
		return broken(1, "%q is held %v, a rest has %v, weight %d, limit %d", l.name, l.mode, r.mode, r.weight, r.limit)
	case r.token == 0 || r.token > l.last:
		return broken(2, "%q has a rest with token %d, its last is %d", l.name, r.token, l.last)
	case r.millis == 0 || r.millis > uint64(RestMax/time.Millisecond) || r.since == 0 || r.since > m.commands:
		return broken(7, "%q rests for %d ms since %d", l.name, r.millis, r.since)
	}
	return nil
}
