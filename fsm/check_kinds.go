package fsm

import "time"

// checkSet tests the set of a claim.
func (m *Machine) checkSet(c *claim) error {
	all := c.more.set.claims
	if len(all) < 2 || len(all) > SetMax || c.mode == Permit || isOnce(c.name) {
		return broken(9, "request %d of %v has a %v set of %d", c.request, c.owner.id, c.mode, len(all))
	}
	names, found := make(map[string]bool), false
	for _, other := range all {
		found = found || other == c
		names[other.name] = true
		if other.owner != c.owner || other.request != c.request || other.token != c.token || other.mode != c.mode ||
			other.priority != c.priority || other.index != c.index || other.more == nil || other.more.set != c.more.set {
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
	case r.mode != l.mode || r.weight == 0 || r.limit != l.limit || (r.mode == Permit) != (r.limit > 0) || r.mode != Permit && r.weight != 1:
		return broken(1, "%q is held %v, a rest has %v, weight %d, limit %d", l.name, l.mode, r.mode, r.weight, r.limit)
	case r.token == 0 || r.token > l.last:
		return broken(2, "%q has a rest with token %d, its last is %d", l.name, r.token, l.last)
	case r.millis == 0 || r.millis > uint64(RestMax/time.Millisecond) || r.since == 0 || r.since > m.commands:
		return broken(7, "%q rests for %d ms since %d", l.name, r.millis, r.since)
	}
	return nil
}

func (m *Machine) checkKeys() (err error) {
	counts := make(map[uint64]int)
	m.keys.Scan(func(r *onceRecord) bool {
		counts[r.keep]++
		other, filed := m.aged.Get(r)
		l, runs := m.locks.Get(r.name)
		runs = runs && (l.holders > 0 || !l.unsettled)
		k, _ := m.classes.Get(r.keep)
		switch {
		case !isOnce(r.name) || !validLock(r.name) || runs:
			err = broken(8, "%q is remembered, runs: %v", r.name, runs)
		case !filed || other != r || r.keep == 0 || r.keep > classOf(KeepMax) || classOf(time.Duration(r.keep)*time.Millisecond) != r.keep:
			err = broken(8, "%q is kept for %d ms and not filed so", r.name, r.keep)
		case r.token == 0 || r.token > m.counter || r.index > m.commands || !r.owner.id.valid() || len(k.turns) == 0:
			err = broken(2, "%q has token %d of %d, index %d", r.name, r.token, m.counter, r.index)
		}
		return err == nil
	})
	if err != nil {
		return err
	}
	if m.aged.Len() != m.keys.Len() || m.classes.Len() != len(counts) {
		return broken(8, "%d keys, %d by age, %d classes of %d", m.keys.Len(), m.aged.Len(), m.classes.Len(), len(counts))
	}
	m.classes.Scan(func(keep uint64, k class) bool {
		if counts[keep] != k.count || len(k.turns) > turnsFor(keep) {
			err = broken(7, "%d keys are kept for %d ms, counted %d, %d turns", counts[keep], keep, k.count, len(k.turns))
		}
		last := uint64(0)
		for _, turn := range k.turns {
			if turn <= last || turn > m.commands {
				err = broken(8, "turn at %d after %d", turn, last)
			}
			last = turn
		}
		return err == nil
	})
	return err
}

func (m *Machine) checkPast() (err error) {
	name, last := "", uint64(0)
	m.past.scan(func(of string, g *pastGrant) bool {
		if of != name {
			name, last = of, 0
		}
		ended := g.kind == EventReleased || g.kind == EventLost || g.kind == EventForced
		switch {
		case !validLock(name) || isOnce(name) || !validLabel(g.label) || !validLabel(g.detail) || !g.owner.id.valid() || !ended || g.mode > Permit || g.reason >= reasonEnd:
			err = broken(7, "a past grant of %q is out of bounds", name)
		case g.token == 0 || g.token > m.counter || g.granted > g.ended || g.ended > m.commands || g.ended < last:
			err = broken(2, "a past grant of %q had token %d from %d to %d", name, g.token, g.granted, g.ended)
		}
		last = g.ended
		return err == nil
	})
	if m.past.locks.Len() != m.past.aged.Len() {
		return broken(7, "%d locks with past grants, counted %d", m.past.aged.Len(), m.past.locks.Len())
	}
	return err
}
