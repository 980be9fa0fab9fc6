package fsm

// ends are the teardowns of a process as a whole.
type ends struct{ sessions, waits []teardown }

// checkTeardowns tests that every end that is not finished has its teardown, and every teardown its
// end (I11).
func (m *Machine) checkTeardowns() (err error) {
	sessions, of := 0, make(map[Process]ends)
	m.teardowns.Scan(func(t teardown) bool {
		e := of[t.id.Process()]
		switch {
		case t.id.Number != 0:
			sessions++
		case t.waits:
			e.waits = append(e.waits, t)
		default:
			e.sessions = append(e.sessions, t)
		}
		if t.id.Number == 0 {
			of[t.id.Process()] = e
		}
		err = m.checkTeardown(&t)
		return err == nil
	})
	if err != nil {
		return err
	}
	m.nodes.Scan(func(n node) bool {
		e := of[Process{n.id, n.incarnation}]
		if n.ended != last(e.sessions) || n.withdrawn != last(e.waits) {
			err = broken(11, "process %#x of node %v ends at %d, %d, and nothing takes it away", n.incarnation, n.id, n.ended, n.withdrawn)
		}
		return err == nil
	})
	m.sessions.Scan(func(r sessionRef) bool {
		switch e := of[r.id.Process()]; {
		case err != nil:
		case r.s.ended:
			sessions--
		case m.ended(r.s) && !covers(e.sessions, r.id.Number, r.s.opened):
			err = broken(11, "session %v has ended, and nothing takes it away", r.id)
		case len(e.waits) > 0 && !m.ended(r.s):
			err = m.checkWithdrawn(r.s, e.waits)
		}
		return err == nil
	})
	if err == nil && sessions != 0 {
		return broken(11, "%d more sessions are taken away than have ended", sessions)
	}
	return err
}

func (m *Machine) checkTeardown(t *teardown) error {
	ref, there := m.sessions.Get(sessionRef{id: t.id})
	switch {
	case t.began == 0 || t.began > m.commands || t.how.reason == ReasonNone || t.how.reason >= reasonEnd || !validLabel(t.how.detail),
		t.how.kind != 0 && t.how.kind != EventForced || t.how.rest != 0:
		return broken(11, "the end of %v at %d is out of bounds", t.id, t.began)
	case t.id.Number != 0 && (!there || !ref.s.ended || t.waits || t.from != 0 || t.upto != 0 || t.number != 0 || t.at != 0 || t.after != 0):
		return broken(11, "session %v is taken away and has not ended", t.id)
	case t.id.Number == 0 && (t.from >= t.upto || t.upto > m.commands || !t.waits && t.at != 0 || t.at == 0 && t.after != 0):
		return broken(11, "process %#x of node %v is taken away from %d to %d", t.id.Incarnation, t.id.Node, t.from, t.upto)
	}
	return nil
}

// last is where the last of a process's teardowns ends, 0 without any.
func last(of []teardown) (upto uint64) {
	for _, t := range of {
		upto = max(upto, t.upto)
	}
	return upto
}

// checkWithdrawn tests that a teardown will take every withdrawn waiter of a session away.
func (m *Machine) checkWithdrawn(s *session, by []teardown) (err error) {
	m.requests.Ascend(request{opened: s.opened}, func(r request) bool {
		c := r.claim
		if r.opened != s.opened {
			return false
		}
		if m.gone(c) && !covers(by, s.id.Number, c.index) {
			err = broken(11, "request %d of %v is withdrawn, and nothing takes it away", c.request, s.id)
		}
		return err == nil
	})
	return err
}

// covers reports whether one of the teardowns has yet to visit a session for claims of an index.
func covers(by []teardown, number, index uint64) bool {
	for _, t := range by {
		if number > t.number && index > t.from && index <= t.upto {
			return true
		}
	}
	return false
}
