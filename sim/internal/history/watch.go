package history

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// watcher is one Watch. It was told what falls under what is watched.
type watcher struct{ *hearer }

// stretch is what a watcher was told without a gap: all that happened from the log index first on,
// and before last.
type stretch struct {
	watcher
	first, last uint64
	from        int // index in the history: what was asked for later is told whole
	told        []int
}

func watchers(h []Event) (all []watcher) {
	for _, x := range hearers(h, Watching, Told) {
		all = append(all, watcher{x})
	}
	return all
}

// stretches cuts what a watcher was told where it was told that something may be missing. The
// changes of the last index may not all be there.
func (w watcher) stretches(h []Event) (all []stretch) {
	s := stretch{watcher: w, from: w.begun}
	for _, i := range w.told {
		e := h[i]
		if e.Change == ChangeResync {
			all = append(all, s)
			s = stretch{watcher: w, first: e.Index + 1, last: e.Index + 1, from: i}
			continue
		}
		if s.first == 0 {
			s.first = e.Index
		}
		s.told, s.last = append(s.told, i), e.Index
	}
	return append(all, s)
}

// change tells one change from all others.
type change struct {
	index      uint64
	lock, what string
	token, of  uint64
	value      string
}

func changeOf(e Event) change {
	return change{e.Index, e.Lock, e.Change, e.Token, e.Of, e.Value}
}

// Watchers finds what one who watches may not be told: changes out of order or twice; and what it
// is not told: a change that another one was told, between two that it was told of itself; a grant,
// an end or a value that its caller knows of, the watcher's node and the majority having been well
// all the time.
func Watchers(h []Event, b Bounds) (found []Violation) {
	seen := make(map[change]bool)
	var changes []change // all that anybody was told of, by index
	all := watchers(h)
	for _, w := range all {
		found = append(found, w.order(h)...)
		for _, i := range w.told {
			if c := changeOf(h[i]); c.what != ChangeResync && !seen[c] {
				seen[c] = true
				changes = append(changes, c)
			}
		}
	}
	slices.SortStableFunc(changes, func(a, b change) int { return cmp.Compare(a.index, b.index) })
	for _, w := range all {
		for _, s := range w.stretches(h) {
			found = append(found, s.misses(h, changes)...)
		}
	}
	return append(found, untold(h, b, all)...)
}

func (w watcher) order(h []Event) (found []Violation) {
	told := make(map[change]bool)
	var last, missing uint64
	for _, i := range w.told {
		e := h[i]
		c := changeOf(e)
		switch {
		case e.Index < last || e.Index <= missing && e.Change != ChangeResync:
			found = append(found, broken("a watch goes by the log", e.At, e.Lock,
				"op %d on node %d was told of index %d after %d", w.Op, w.Node, e.Index, last))
		case !strings.HasPrefix(e.Lock, w.Lock):
			found = append(found, broken("a watch tells what was asked for", e.At, e.Lock,
				"op %d on node %d watches %q", w.Op, w.Node, w.Lock))
		case told[c] && e.Change != ChangeResync && e.Change != ChangeWithdrawn: // one session may wait twice for one call
			found = append(found, broken("a change is told once", e.At, e.Lock,
				"op %d on node %d was told again: %v", w.Op, w.Node, e))
		}
		told[c], last = true, max(last, e.Index)
		if e.Change == ChangeResync {
			missing = e.Index
		}
	}
	return found
}

func (s stretch) misses(h []Event, changes []change) (found []Violation) {
	told := make(map[change]bool)
	for _, i := range s.told {
		told[changeOf(h[i])] = true
	}
	from, _ := slices.BinarySearchFunc(changes, s.first, func(c change, first uint64) int { return cmp.Compare(c.index, first) })
	for _, c := range changes[from:] {
		if c.index >= s.last {
			break
		}
		if strings.HasPrefix(c.lock, s.Lock) && !told[c] {
			found = append(found, broken("a watch misses nothing", s.At, c.lock,
				"op %d on node %d was not told that at index %d token %d of op %d was %s %s, which others were",
				s.Op, s.Node, c.index, c.token, c.of, c.what, c.value))
		}
	}
	return found
}

// untold finds grants, ends and values that well watchers were not told of in time.
func untold(h []Event, b Bounds, all []watcher) (found []Violation) {
	x, tokens := healthOf(h), grants(h)
	writes := make(map[uint64]int)
	for _, w := range all {
		told := make(map[change]time.Duration)
		var resyncs []time.Duration
		for _, i := range w.told {
			e := h[i]
			c := change{lock: e.Lock, what: e.Change, token: e.Token}
			switch e.Change {
			case ChangeResync:
				resyncs = append(resyncs, e.At)
			case ChangeReleased, ChangeExpired, ChangeLost, ChangeForced:
				c.what = "over"
			case ChangeValue:
				c.token, c.value = 0, e.Value
			}
			told[c] = e.At
		}
		demand := func(lock string, c change, since int, known time.Duration) {
			at, ok := told[c]
			due := known + b.Late + w.Pause
			if !strings.HasPrefix(lock, w.Lock) || since < w.begun || due > w.until || ok && at <= due || !x.fine(w.Node, h[since].At, due) {
				return
			}
			if slices.ContainsFunc(resyncs, func(at time.Duration) bool { return at >= h[since].At && at <= due }) {
				return
			}
			found = append(found, broken("a watch tells in time", due, lock,
				"op %d on node %d was not told by then: %s token %d %s", w.Op, w.Node, c.what, c.token, c.value))
		}
		for i, e := range h {
			g := tokens[e.Token]
			switch {
			case e.Kind == Granted && g.granted == i:
				for _, name := range g.Names() {
					demand(name, change{lock: name, what: ChangeGranted, token: e.Token}, g.asked, e.At)
					over := change{lock: name, what: "over", token: e.Token}
					if g.over() >= 0 {
						demand(name, over, g.asked, h[g.over()].At)
					} else if g.ended >= 0 {
						demand(name, over, g.asked, h[g.ended].At+g.ttl(b))
					}
				}
			case e.Kind == Set:
				writes[e.Op] = i
			case e.Kind == Done && e.OK:
				demand(e.Lock, change{lock: e.Lock, what: ChangeValue, value: h[writes[e.Op]].Value}, writes[e.Op], e.At)
			}
		}
	}
	return found
}

// hearer is a caller that is told of changes one after the other, from a beginning to an end.
type hearer struct {
	Event       // the beginning
	begun int   // its index
	told  []int // indexes
	until time.Duration
}

func hearers(h []Event, begins, tells Kind) (all []*hearer) {
	of := make(map[uint64]*hearer)
	for i, e := range h {
		x := of[e.Op]
		switch {
		case e.Kind == begins:
			x = &hearer{Event: e, begun: i, until: h[len(h)-1].At}
			of[e.Op], all = x, append(all, x)
		case x == nil:
		case e.Kind == tells:
			x.told = append(x.told, i)
		case e.Kind == Unheard:
			x.until = e.At
		}
	}
	return all
}
