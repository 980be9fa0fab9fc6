package history

import "time"

type tenancy struct {
	*grant
	due     time.Duration // the end of the validity that its holder had last
	dead    bool          // its process ended from one moment to the next: nothing that it says counts any more
	excused bool          // somebody may have ended it who has the right to
	over    bool          // the group has ended it
}

// EndsByRight finds grants that the group ended before the validity was over that their holder had,
// and holders who had some after that, though nobody had the right: not the grant's own process,
// which ends the lease first, nor one that began on the same disk in the same boot, which proves
// that the former is dead, nor an operator. The silence of a node, its removal from the group and a
// copy of its disk are no right. That a grant has ended is known by what watchers are told, and by
// a later grant that it excludes.
func EndsByRight(h []Event, b Bounds) (found []Violation) {
	x := rights{all: grants(h), b: b, known: make(map[uint64]*tenancy), right: make(map[int]int)}
	for i, e := range h {
		switch e.Kind {
		case Granted:
			if g := x.all[e.Token]; g.granted == i {
				found = append(found, x.followed(g)...)
			}
		case Told:
			t := x.known[e.Token]
			switch e.Change {
			case ChangeReleased, ChangeExpired, ChangeLost, ChangeForced:
				if t != nil {
					found = append(found, t.end(e.At, e.At, "op %d on node %d was told that it was "+e.Change, e.Op, e.Node)...)
				}
			}
		case Held:
			found = append(found, x.held(i, e)...)
		default:
			x.turn(i, e)
		}
	}
	return found
}

type rights struct {
	all   map[uint64]*grant
	b     Bounds
	known map[uint64]*tenancy // by token
	right map[int]int         // by node: the last index at which all that it held could end
}

func (x *rights) held(i int, e Event) []Violation {
	g := x.all[e.Token]
	if g.granted < 0 {
		return nil
	}
	t := x.known[e.Token]
	if t == nil {
		at, ok := x.right[g.Node]
		t = &tenancy{grant: g, excused: ok && at > g.asked || g.force >= 0 && g.force < i}
		x.known[e.Token] = t
	}
	if t.dead {
		return nil
	}
	// As in NothingEarly; and what ends a maximum hold time is another clock.
	if t.due = e.At + e.Remaining - x.b.Clock; x.b.Clock == 0 {
		t.due -= e.Remaining/10 + 2*time.Duration(x.b.Drift*float64(g.ttl(x.b)))
	}
	if t.over {
		return t.end(e.At, e.At-1, "and it is valid after its end")
	}
	return nil
}

// followed says that a grant was made: those that it excludes had ended by then.
func (x *rights) followed(g *grant) (found []Violation) {
	came := g.At
	if g.Until > 0 && x.b.Clock == 0 {
		came = min(came, g.Until)
	}
	for _, t := range x.known {
		if t.Token < g.Token && t.excludes(g) {
			found = append(found, t.end(g.At, came, "token %d was granted on node %d", g.Token, g.Node)...)
		}
	}
	return found
}

func (t *tenancy) end(at, by time.Duration, format string, args ...any) (found []Violation) {
	if !t.excused && by < t.due {
		found = append(found, broken("a grant ends by right", at, t.Lock,
			"token %d of node %d was the holder's until %v: "+format, append([]any{t.Token, t.Node, t.due}, args...)...))
		t.excused = true // it is told once
	}
	t.over = true
	return found
}

func (x *rights) turn(i int, e Event) {
	switch e.Kind {
	case Release, Force:
		if t := x.known[e.Token]; t != nil {
			t.excused = true
		}
	case Ended:
		if t := x.known[e.Token]; t != nil && !t.dead {
			t.excused = true
		}
	case Revoke:
		for _, t := range x.known {
			t.excused = t.excused || t.id == e.Value
		}
	case Closes, Opens, Dies:
		proof := e.Kind == Opens && e.OK
		if proof || e.Kind == Closes {
			x.right[e.Node] = i
		}
		for _, t := range x.known {
			if t.Node == e.Node {
				t.excused = t.excused || proof || e.Kind == Closes && !t.dead
				t.dead = t.dead || e.Kind == Dies
			}
		}
	}
}

// Rests finds grants that came before the time was over for which the one before them had asked
// that its place stays taken: a minimum hold time from the grant on when it was released, a delay
// from its end on when it was lost. A grant came when it was asked for at the earliest, and not
// before those that it excludes were seen for the last time; a loss comes after the lease was last
// seen valid, and one for want of renewal after what then remained. Clocks may make the time
// shorter by Bounds.Drift.
func Rests(h []Event, b Bounds) (found []Violation) {
	all := grants(h)
	var order []*grant                      // as they came
	since := make(map[*grant]time.Duration) // the earliest time of each grant
	latest := make(map[uint64]Event)        // the last Held of each token
	for i, e := range h {
		g := all[e.Token]
		switch {
		case e.Kind == Held:
			latest[e.Token] = e
		case e.Kind == Granted && g.granted == i:
			since[g] = h[g.asked].At
			came := e.At
			if e.Until > 0 {
				came = e.Until
			}
			for _, o := range order {
				if o.Token > g.Token || !o.excludes(g) {
					continue
				}
				if o.force < 0 { // who is robbed hears of it later
					since[g] = max(since[g], latest[o.Token].At)
				}
				if due, what := free(h, o, since[o], latest[o.Token], b); came < due {
					found = append(found, broken(what, e.At, e.Lock,
						"token %d came at %v, the place of token %d was taken until %v", e.Token, came, o.Token, due))
				}
			}
			order = append(order, g)
		}
	}
	return found
}

// free is when the place of a grant is free at the earliest, and the rule that says so. It was
// granted at since at the earliest and last seen valid by seen.
func free(h []Event, g *grant, since time.Duration, seen Event, b Bounds) (time.Duration, string) {
	short := func(d time.Duration) time.Duration { return d - time.Duration(b.Drift*float64(d)) }
	switch {
	case g.MinHold > 0 && g.released >= 0 && (g.ended < 0 || h[g.ended].Cause == CauseReleased):
		return since + short(g.MinHold), "a minimum hold time is kept"
	case g.LockDelay > 0 && g.release < 0 && g.force < 0:
		end := max(since, seen.At)
		if g.ended >= 0 && (h[g.ended].Cause == CauseExpired || h[g.ended].Cause == CauseLapsed) {
			end += seen.Remaining - seen.Remaining/10 // as in NothingEarly
		}
		return end + short(g.LockDelay), "a lock delay is kept"
	}
	return 0, ""
}
