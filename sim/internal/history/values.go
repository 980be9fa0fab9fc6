package history

// write is one time that a value was written.
type write struct{ asked, done int } // indexes; done is -1 as long as it may not have happened

// Values finds reads of a lock's value that were not written, or that had been overwritten before
// the read began. "" is the value of a lock which nobody wrote to. A value that comes with Asked is
// written at the grant.
func Values(h []Event, _ Bounds) (found []Violation) {
	writes := make(map[string]map[string][]*write) // by lock and value
	ops := make(map[uint64]*write)
	begun := make(map[uint64]int)
	for i, e := range h {
		switch e.Kind {
		case Asked, Set:
			if e.Value == "" {
				continue
			}
			w := &write{asked: i, done: -1}
			if writes[e.Lock] == nil {
				writes[e.Lock] = make(map[string][]*write)
			}
			writes[e.Lock][e.Value], ops[e.Op] = append(writes[e.Lock][e.Value], w), w
		case Granted, Done:
			if w := ops[e.Op]; w != nil && (e.OK || e.Kind == Granted) {
				w.done = i
			}
		case Look, Who, Observing:
			begun[e.Op] = i
		case Looked, Leads, Observed:
			at, ok := begun[e.Op]
			if !ok || e.Kind != Looked && e.Token == 0 {
				continue // nobody leads, and the value is not told
			}
			if e.Kind == Observed {
				delete(begun, e.Op) // what it is told later may be old
			}
			all := writes[e.Lock]
			if e.Value != "" && all[e.Value] == nil {
				found = append(found, broken("values are what was written", e.At, e.Lock,
					"nobody wrote %s", e.Value))
			} else if by := overwritten(all, e.Value, at); by != "" {
				found = append(found, broken("values are current", e.At, e.Lock,
					"%q was read although %s had been written", e.Value, by))
			}
		}
	}
	return found
}

// overwritten is a value that was written, before an index, after every time that value was; "" if
// none was.
func overwritten(all map[string][]*write, value string, before int) (by string) {
	times := all[value]
	if len(times) == 0 {
		times = []*write{{asked: -1, done: -1}}
	}
	for _, w := range times {
		if w.done < 0 && w.asked >= 0 {
			return "" // it may have come at any time
		}
		by = ""
		for other, list := range all {
			for _, o := range list {
				if other != value && o.done >= 0 && o.done < before && o.asked > w.done {
					by = other
				}
			}
		}
		if by == "" {
			return ""
		}
	}
	return by
}
