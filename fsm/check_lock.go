package fsm

// tally is what the locks add up to.
type tally struct {
	shared, grants, waiters int
	values                  int64
	tokens                  map[uint64]bool
}

func (m *Machine) checkLocks() (err error) {
	t := tally{tokens: make(map[uint64]bool)}
	m.locks.Scan(func(name string, l *lock) bool {
		if l.name != name || !validName(name) || len(l.value) > ValueBytesMax {
			err = broken(6, "lock %q is filed as %q", l.name, name)
		} else if err = m.checkHolders(l, &t); err == nil {
			err = m.checkWaiters(l, &t)
		}
		t.values += int64(len(l.value))
		return err == nil
	})
	switch {
	case err != nil:
		return err
	case t.grants != m.grants || t.shared != m.shared.Len() || t.waiters != m.waiters.Len():
		return broken(7, "locks have %d grants (%d shared) and %d waiters, counted %d (%d) and %d",
			t.grants, t.shared, t.waiters, m.grants, m.shared.Len(), m.waiters.Len())
	case t.values != m.values:
		return broken(7, "%d bytes of values, counted %d", t.values, m.values)
	case !m.serving && t.grants > 0:
		return broken(7, "%d grants before the group serves", t.grants)
	}
	return nil
}

func (m *Machine) checkHolders(l *lock, t *tally) error {
	holders, used := int32(0), uint64(0)
	for c := range m.holdersOf(l) {
		holders++
		used += uint64(c.weight)
		if err := m.checkFiled(l, c); err != nil {
			return err
		}
		switch {
		case c.mode != l.mode || c.hasValue:
			return broken(1, "%q is held %v, a holder has it %v", l.name, l.mode, c.mode)
		case c.token == 0 || c.token > m.counter || c.token > l.last || t.tokens[c.token]:
			return broken(2, "token %d of %q: last %d, counter %d", c.token, l.name, l.last, m.counter)
		}
		t.tokens[c.token] = true
	}
	if l.mode != Exclusive {
		t.shared += int(holders)
	}
	t.grants += int(holders)
	switch {
	case holders != l.holders || used != uint64(l.used):
		return broken(7, "%q has %d holders of weight %d, counted %d of %d", l.name, holders, used, l.holders, l.used)
	case l.mode == Permit && used > uint64(l.limit), int(holders) > m.limits.holders, l.mode == Exclusive && holders > 1:
		return broken(1, "%q has %d %v holders of weight %d, limit %d", l.name, holders, l.mode, used, l.limit)
	case holders == 0 && (l.mode != Exclusive || l.wanted):
		return broken(1, "%q is free and %v", l.name, l.mode)
	case l.last > m.counter:
		return broken(2, "last token %d of %q, counter %d", l.last, l.name, m.counter)
	}
	return nil
}

func (m *Machine) checkWaiters(l *lock, t *tally) error {
	waiters := int32(0)
	for c := range m.waitersOf(l) {
		waiters++
		if err := m.checkFiled(l, c); err != nil {
			return err
		}
		switch {
		case waiters == 1 && m.fits(l, c.mode, c.weight):
			return broken(4, "the first waiter of %q waits for what is free", l.name)
		case c.token != 0 || len(c.value) > ValueBytesMax:
			return broken(1, "waiter %d of %q has token %d, %d bytes", waiters, l.name, c.token, len(c.value))
		}
		t.values += int64(len(c.value))
	}
	t.waiters += int(waiters)
	permits := int32(0)
	for _, claims := range []func(func(*claim) bool){m.holdersOf(l), m.waitersOf(l)} {
		for c := range claims {
			if c.mode != Permit {
				continue
			}
			permits++
			if c.limit != l.limit {
				return broken(1, "%q has limit %d, a permit has %d", l.name, l.limit, c.limit)
			}
		}
	}
	switch {
	case permits != l.permits || (permits == 0) != (l.limit == 0):
		return broken(7, "%q has %d permits, counted %d, limit %d", l.name, permits, l.permits, l.limit)
	case waiters != l.waiters || waiters > 0 && !l.wanted:
		return broken(7, "%q has %d waiters, counted %d, wanted %v", l.name, waiters, l.waiters, l.wanted)
	case l.holders == 0 && waiters == 0 && !l.hasValue:
		return broken(6, "%q is not in use", l.name)
	}
	return nil
}

// valid says whether the claim could have come from a valid command.
func (c *claim) valid() bool {
	if c.mode > Permit || c.weight == 0 || !validLabel(c.label) {
		return false
	}
	if c.mode == Permit {
		return c.limit <= LimitMax && c.weight <= c.limit
	}
	return c.weight == 1 && c.limit == 0
}
