package history

// RunOnce finds keys that were run again after they were finished, runs that begin with a token no
// higher than one before, and runs that finished although a later one had begun.
func RunOnce(h []Event, _ Bounds) (found []Violation) {
	type key struct {
		highest  uint64 // token of a run that began
		finished *Event
	}
	keys := make(map[string]*key)
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
		case e.Kind == Begun && e.Token <= k.highest:
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
