package fsm

import "slices"

// addRemembered writes what is over and remembered: past grants, and Once keys with their classes.
// Both name their owners by their place in a list, as a few sessions make a million keys.
func (m *Machine) addRemembered(f *frameWriter) {
	places := make(map[SessionID]uint64)
	var owners []*owner
	note := func(o *owner) {
		if _, ok := places[o.id]; !ok {
			places[o.id] = 0
			owners = append(owners, o)
		}
	}
	m.past.scan(func(_ string, g *pastGrant) bool { note(g.owner); return true })
	m.keys.Scan(func(r *onceRecord) bool { note(r.owner); return true })
	slices.SortFunc(owners, func(a, b *owner) int {
		if lessSession(&a.id, &b.id) {
			return -1
		}
		return 1
	})
	f.begin(frameOwners)
	for i, o := range owners {
		places[o.id] = uint64(i)
		f.add(o.record(f.record[:0]))
	}
	f.begin(framePast)
	m.past.scan(func(name string, g *pastGrant) bool { return f.add(g.record(f.record[:0], name, places[g.owner.id])) })
	f.begin(frameClasses)
	m.classes.Scan(func(keep uint64, k class) bool {
		return f.add(appendPacked(appendUint(f.record[:0], 1, keep), 2, k.turns))
	})
	f.begin(frameKeys)
	m.keys.Scan(func(r *onceRecord) bool { return f.add(r.record(f.record[:0], places[r.owner.id])) })
}

func (r *rest) record(b []byte) []byte {
	b = appendText(b, 1, r.name)
	b = appendUint(b, 2, r.token)
	b = appendUint(b, 3, r.since)
	b = appendUint(b, 4, r.millis)
	b = appendUint(b, 5, uint64(r.mode))
	b = appendUint(b, 6, uint64(r.weight))
	return appendUint(b, 7, uint64(r.limit))
}

func (o *owner) record(b []byte) []byte {
	b = appendSession(b, 1, o.id)
	b = appendUint(b, 2, o.opened)
	return appendText(b, 3, o.nodeName)
}

func (t *teardown) record(b []byte) []byte {
	b = appendSession(b, 1, t.id)
	b = appendUint(b, 2, t.began)
	b = appendBool(b, 3, t.waits)
	b = appendUint(b, 4, t.from)
	b = appendUint(b, 5, t.upto)
	b = appendUint(b, 6, t.number)
	b = appendUint(b, 7, t.after)
	b = appendUint(b, 8, uint64(t.how.kind))
	b = appendUint(b, 9, uint64(t.how.reason))
	b = appendText(b, 10, t.how.detail)
	return appendUint(b, 11, t.at)
}

func (g *pastGrant) record(b []byte, name string, owner uint64) []byte {
	b = appendText(b, 1, name)
	b = appendUint(b, 2, owner)
	b = appendText(b, 3, g.label)
	b = appendUint(b, 4, g.token)
	b = appendUint(b, 5, g.granted)
	b = appendUint(b, 6, g.ended)
	b = appendUint(b, 7, uint64(g.mode))
	b = appendUint(b, 8, uint64(g.weight))
	b = appendUint(b, 9, uint64(g.kind))
	b = appendUint(b, 10, uint64(g.reason))
	return appendText(b, 11, g.detail)
}

func (r *onceRecord) record(b []byte, owner uint64) []byte {
	b = appendText(b, 1, r.name[len(onceMark):])
	b = appendUint(b, 2, owner)
	b = appendUint(b, 3, r.token)
	b = appendUint(b, 4, r.index)
	return appendUint(b, 5, r.keep)
}
