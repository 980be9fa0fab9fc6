package history

// write is one time that a value was written, by indexes; -1: not so far. A write that is not done
// may come at any later time, and one that is no Set several times until then.
type write struct {
	asked, done, seen int // seen: by a read
	set               bool
}

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
			w := &write{i, -1, -1, e.Kind == Set}
			if writes[e.Lock] == nil {
				writes[e.Lock] = make(map[string][]*write)
			}
			writes[e.Lock][e.Value], ops[e.Op] = append(writes[e.Lock][e.Value], w), w
		case Granted, Done:
			if w := ops[e.Op]; w != nil && w.done < 0 && (e.OK || e.Kind == Granted) {
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
			} else if list := all[e.Value]; len(list) == 1 && list[0].seen < 0 {
				if list[0].seen = i; list[0].set && list[0].done < 0 {
					list[0].done = i
				}
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
				if other != value && (o.done >= 0 && o.done < before || o.seen >= 0 && o.seen < before) && o.asked > w.done {
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

// RunOnce finds keys that were run again after they were finished, runs that begin with a token no
// higher than one before, and runs that finished although a later one had begun. A process that was
// stopped between its grant and its run may begin late what an operator took from it meanwhile.
func RunOnce(h []Event, _ Bounds) (found []Violation) {
	type key struct {
		highest  uint64 // token of a run that began
		finished *Event
	}
	keys, all := make(map[string]*key), grants(h)
	taken := func(token uint64, i int) bool { g := all[token]; return g != nil && g.force >= 0 && g.force < i }
	for i, e := range h {
		if e.Kind != Begun && e.Kind != Finished {
			continue
		}
		k := keys[e.Lock]
		if k == nil {
			k = &key{}
			keys[e.Lock] = k
		}
		if k.finished != nil && k.finished.Until > 0 && e.At >= k.finished.Until {
			k.finished = nil // forgotten, as was agreed
		}
		switch {
		case e.Kind == Begun && k.finished != nil:
			found = append(found, broken("a finished key is not run again", e.At, e.Lock,
				"token %d begins on node %d, token %d had finished at %v", e.Token, e.Node, k.finished.Token, k.finished.At))
		case e.Kind == Begun && (e.Token == k.highest || e.Token < k.highest && !taken(e.Token, i)):
			found = append(found, broken("runs of a key have rising tokens", e.At, e.Lock,
				"token %d begins on node %d after token %d", e.Token, e.Node, k.highest))
		case e.Kind == Finished && e.OK && e.Token < k.highest:
			found = append(found, broken("a run that was given up does not finish", e.At, e.Lock,
				"token %d on node %d was told that it finished, token %d had begun", e.Token, e.Node, k.highest))
		}
		if e.Kind == Begun {
			k.highest = max(k.highest, e.Token)
		} else if e.OK {
			k.finished = &h[i]
		}
	}
	return found
}
