package history

// Lines are what the group knew of a history: one line in which nothing was forgotten. Each restore
// ends one, and the next one is what had happened by the time of the backup and what happens after
// the restore. What came between is in the former line alone, but for the fate of the machines.
func Lines(h []Event) (lines [][]Event) {
	var line []Event
	var ops uint64                  // the highest of those that began before the last restore
	var highest uint64              // of all so far
	before := make(map[uint64]bool) // tokens that were granted before the last restore
	for _, e := range h {
		if e.Kind == Restored {
			lines = append(lines, line)
			for _, o := range line {
				before[o.Token] = before[o.Token] || o.Kind == Granted
			}
			line, ops = back(line, e), highest
			continue
		}
		if e.Kind != Copied {
			highest = max(highest, e.Op)
			if e.Op > 0 && e.Op <= ops || before[e.Token] && e.ofHolder() {
				continue // said late by what ran before the restore
			}
		}
		line = append(line, e)
	}
	return append(lines, line)
}

func (e Event) ofHolder() bool {
	switch e.Kind {
	case Held, Ended, Release, Released, Begun, Finished:
		return true
	}
	return false
}

// back is a line that is taken back to a copy. Calls that had no answer by then may have been
// carried out, and what was held ended with its process.
func back(line []Event, restored Event) (next []Event) {
	at := 0
	for i, e := range line {
		if e.Kind == Copied && e.Op == restored.Op {
			at = i + 1
		}
	}
	next = append(next, line[:at]...)
	if at > 0 {
		next = append(next, unanswered(next, line[at-1])...)
	}
	held := stillHeld(next)
	for _, e := range line[at:] {
		switch e.Kind {
		case Well, Ill, Quorum, Opens, Opened, Closes, Dies:
			next = append(next, e)
		}
	}
	for _, e := range held {
		e.Kind, e.At, e.Remaining, e.Cause = Ended, restored.At, 0, "the fleet went back to a backup"
		next = append(next, e)
	}
	return next
}

func unanswered(line []Event, copied Event) (ends []Event) {
	open := make(map[uint64]Event)
	var order []uint64
	for _, e := range line {
		switch e.Kind {
		case Asked, Observing, Watching:
			open[e.Op] = e
			order = append(order, e.Op)
		case Granted, Refused, Unheard:
			delete(open, e.Op)
		}
	}
	for _, op := range order {
		e, ok := open[op]
		switch {
		case !ok:
			continue
		case e.Kind == Asked:
			ends = append(ends, Event{At: copied.At, Kind: Refused, Op: op, Node: e.Node, Lock: e.Lock, Until: copied.At})
		default:
			ends = append(ends, Event{At: copied.At, Kind: Unheard, Op: op, Node: e.Node, Lock: e.Lock})
		}
		delete(open, op)
	}
	return ends
}

// stillHeld are the last looks at leases that were valid then, and of which no end is known.
func stillHeld(line []Event) (held []Event) {
	last := make(map[uint64]int)
	for i, e := range line {
		switch e.Kind {
		case Held:
			last[e.Token] = i
		case Ended, Released:
			delete(last, e.Token)
		}
	}
	for i, e := range line {
		if at, ok := last[e.Token]; ok && at == i && e.Kind == Held {
			held = append(held, e)
		}
	}
	return held
}
