package fsm

import "slices"

// rise raises the level unless somebody who may ask for something does not know it.
func (o *naive) rise(level uint64) Outcome {
	if level <= o.level || level < 2 {
		return Outcome{}
	}
	for _, r := range o.runs {
		sessions := slices.ContainsFunc(o.sessions, func(s *naiveSession) bool { return s.ID.Process() == r.Process })
		if !r.over && r.level < level && (!r.gone || sessions) {
			return Outcome{Code: CodeTooOld}
		}
	}
	o.level = level
	return Outcome{}
}

func (o *naive) hello(c Hello) Outcome {
	if last := o.latest(c.Node); last != nil {
		switch {
		case c.Incarnation < last.Incarnation, last.departure == Gone && c.Incarnation != last.Incarnation, c.Incarnation == last.Incarnation && last.over:
			return Outcome{Code: CodeStaleIncarnation}
		case c.Incarnation == last.Incarnation:
			last.client = last.client && o.via
			return Outcome{}
		}
	}
	if c.Level < o.level && o.level > 1 {
		return Outcome{Code: CodeTooOld}
	}
	if last := o.latest(c.Node); (last == nil || last.gone) && o.here() >= o.roomFor(o.via) {
		return Outcome{Code: CodeTooManyNodes}
	}
	nobody := !slices.ContainsFunc(o.runs, func(r *naiveRun) bool { return !r.gone && !r.client })
	if last := o.latest(c.Node); nobody && last != nil && last.departure == Leaves {
		for _, r := range o.runs {
			r.back = r.back || r.departure == Leaves
		}
	}
	o.succeed(c)
	o.runs = append(o.runs, &naiveRun{
		Process: ProcessOf(c), since: o.number, name: c.Name, place: c.Place, level: c.Level, client: o.via, used: make(map[uint64]bool),
		ended: o.lastEnd(ProcessOf(c), false), withdrawn: o.lastEnd(ProcessOf(c), true),
	})
	return Outcome{}
}

// succeed ends what is proved to be dead, and lets the other processes of the node keep what they
// hold.
func (o *naive) succeed(c Hello) {
	for _, r := range o.runs {
		switch {
		case r.Node != c.Node:
		case c.Place.Boot != "" && r.place == c.Place:
			o.endSessions(r, false, o.number, ending{reason: ReasonIncarnation})
		default:
			o.endSessions(r, true, o.number, ending{reason: ReasonSuperseded})
		}
	}
	o.carryOut(o.number)
	for _, r := range o.runs {
		if r.Node == c.Node {
			r.leave(o.number)
			r.over = true
		}
	}
	o.runs = slices.DeleteFunc(o.runs, func(r *naiveRun) bool { return r.Node == c.Node && o.memory(r) })
}
