package history

import "time"

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
