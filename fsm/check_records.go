package fsm

import "time"

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
		case !validLock(name) || isOnce(name) || !validLabel(g.Label) || !validLabel(g.detail) || !g.owner.id.valid() || !ended || g.Mode > Permit || g.reason >= reasonEnd:
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
