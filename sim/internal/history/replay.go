package history

import (
	"cmp"
	"slices"
	"strings"
)

// Replays follows from what each watcher was told who holds a lock and who waits for it, and finds
// what cannot be: two exclusive holders, an end of what had ended, a leader who does not hold or of
// whom nothing was said, a grant to somebody who did not stand first, a set that is granted in
// part; and reads that contradict it.
func Replays(h []Event, _ Bounds) (found []Violation) {
	asked := make(map[uint64]*question)
	for i, e := range h {
		if e.Kind == Asked && asked[e.Op] == nil {
			asked[e.Op] = &question{e, i}
		}
	}
	all := grants(h)
	var whole []stretch
	for _, w := range watchers(h) {
		for _, s := range w.stretches(h) {
			whole = append(whole, s)
			found = append(found, s.replay(h, asked)...)
			found = append(found, s.parts(h, all)...)
			found = append(found, s.leaders(h, asked)...)
		}
	}
	return append(found, contradicted(h, all, whole)...)
}

type question struct {
	Event
	at int
}

func (s stretch) replay(h []Event, asked map[uint64]*question) (found []Violation) {
	holds := make(map[string]uint64)    // the exclusive holder whose grant was told
	over := make(map[string]uint64)     // the highest token whose end was told
	queues := make(map[string][]uint64) // ops, in the order of their arrival
	twice := make(map[uint64]bool)      // ops that waited under two sessions at a time: which of them ends is not told
	wrong := func(e Event, rule, format string, args ...any) {
		found = append(found, broken(rule, e.At, e.Lock, format, args...))
	}
	for _, i := range s.told {
		e := h[i]
		a := asked[e.Of]
		queue := queues[e.Lock]
		switch e.Change {
		case ChangeGranted:
			if holds[e.Lock] != 0 && a != nil && a.Weight == a.Limit {
				wrong(e, "what is told adds up", "op %d was told of the grant of token %d while %d held", s.Op, e.Token, holds[e.Lock])
			}
			if a != nil && a.Weight == a.Limit {
				holds[e.Lock] = e.Token
			}
			for _, other := range queue {
				if other == e.Of || twice[e.Of] || a == nil || a.at < s.from { // its place may be from before the stretch
					break
				}
				if !twice[other] && asked[other].Priority >= a.Priority {
					wrong(e, "waiters are served in order", "op %d was granted before op %d, which had come before it, as op %d was told",
						e.Of, other, s.Op)
				}
			}
			queues[e.Lock] = slices.DeleteFunc(queue, func(op uint64) bool { return op == e.Of })
		case ChangeReleased, ChangeExpired, ChangeLost, ChangeForced:
			if over[e.Lock] == e.Token || holds[e.Lock] != 0 && holds[e.Lock] < e.Token {
				wrong(e, "what is told adds up", "op %d was told of the end of token %d, which did not hold", s.Op, e.Token)
			}
			over[e.Lock] = e.Token
			if holds[e.Lock] == e.Token {
				delete(holds, e.Lock)
			}
		case ChangeQueued:
			if a != nil {
				twice[e.Of] = twice[e.Of] || slices.Contains(queue, e.Of)
				queues[e.Lock] = append(queue, e.Of)
			}
		case ChangeWithdrawn:
			queues[e.Lock] = slices.DeleteFunc(queue, func(op uint64) bool { return op == e.Of })
		}
	}
	return found
}

// leaders demands that the leader who is told is the candidate who holds then, and that every one
// is told.
func (s stretch) leaders(h []Event, asked map[uint64]*question) (found []Violation) {
	leads := make(map[string]uint64) // 0: nobody, once somebody did
	elected := make(map[string]bool) // by a grant or an end that was not followed yet
	wrong := func(e Event, told string) {
		found = append(found, broken("a watch tells who leads", e.At, e.Lock,
			"op %d on node %d was told at index %d %s, and token %d leads (0: nobody)", s.Op, s.Node, e.Index, told, leads[e.Lock]))
	}
	for n, i := range s.told {
		e := h[i]
		led, known := leads[e.Lock]
		switch e.Change {
		case ChangeLeader:
			if known && (e.Token != led || !elected[e.Lock]) || !known && e.Token != 0 {
				wrong(e, "that another one does")
			}
			leads[e.Lock], elected[e.Lock] = led, false
		case ChangeGranted:
			if a := asked[e.Of]; a != nil && a.Election {
				leads[e.Lock], elected[e.Lock] = e.Token, true
			}
		case ChangeReleased, ChangeExpired, ChangeLost, ChangeForced:
			if led != 0 && led == e.Token {
				leads[e.Lock], elected[e.Lock] = 0, true
			}
		}
		if n+1 == len(s.told) || h[s.told[n+1]].Index == e.Index || e.Index >= s.last {
			continue
		}
		for lock, not := range elected {
			if not {
				wrong(named(e, lock), "nothing of it")
			}
			delete(elected, lock)
		}
	}
	return found
}

func named(e Event, lock string) Event { e.Lock = lock; return e }

// parts demands that all names of a set that are watched change hands at one index.
func (s stretch) parts(h []Event, all map[uint64]*grant) (found []Violation) {
	type hand struct {
		token uint64
		ends  bool
	}
	names := make(map[hand]map[string]uint64) // indexes by name
	for _, i := range s.told {
		e := h[i]
		g := all[e.Token]
		if g == nil || g.granted < 0 || len(g.Others) == 0 || e.Change == ChangeValue || e.Change == ChangeLeader || e.Index >= s.last {
			continue
		}
		k := hand{e.Token, e.Change != ChangeGranted}
		if names[k] == nil {
			names[k] = make(map[string]uint64)
		}
		names[k][e.Lock] = e.Index
	}
	for k, indexes := range names {
		g := all[k.token]
		first := indexes[g.Lock]
		for _, name := range g.Names() {
			if strings.HasPrefix(name, s.Lock) && strings.HasPrefix(g.Lock, s.Lock) && indexes[name] != first {
				found = append(found, broken("a set is never held in part", s.At, name,
					"op %d on node %d was told of token %d at index %d for %q, at %d for this name (0: not at all)",
					s.Op, s.Node, k.token, first, g.Lock, indexes[name]))
			}
		}
	}
	return found
}

// handover is a moment at which an exclusive lock changed hands, as somebody was told.
type handover struct {
	index, holder uint64
	told          int // first, in the history
}

// handovers are those of each lock, in the order of the log. Within one index an end comes before a
// grant.
func handovers(h []Event, all map[uint64]*grant) map[string][]handover {
	of := make(map[string][]handover)
	seen := make(map[change]bool)
	for i, e := range h {
		if e.Kind != Told || e.Token == 0 || seen[changeOf(e)] {
			continue
		}
		seen[changeOf(e)] = true
		switch e.Change {
		case ChangeGranted:
			of[e.Lock] = append(of[e.Lock], handover{e.Index, e.Token, i})
		case ChangeReleased, ChangeExpired, ChangeLost, ChangeForced:
			of[e.Lock] = append(of[e.Lock], handover{e.Index, 0, i})
		}
	}
	for _, list := range of {
		slices.SortStableFunc(list, func(a, b handover) int {
			return cmp.Or(cmp.Compare(a.index, b.index), cmp.Compare(a.holder, b.holder))
		})
	}
	return of
}

// contradicted finds reads of exclusive locks that agree with no state between what had been told
// before the question and what was asked for after the answer. It judges where one watcher was told
// all between the two.
func contradicted(h []Event, all map[uint64]*grant, whole []stretch) (found []Violation) {
	of := handovers(h, all)
	exclusive := make(map[string]bool)
	first := make(map[uint64]uint64) // the first index at which each op is told of
	for _, e := range h {
		switch {
		case e.Kind == Asked:
			for _, name := range e.Names() {
				if was, ok := exclusive[name]; was || !ok {
					exclusive[name] = e.Weight == e.Limit
				}
			}
		case e.Kind == Told && e.Of != 0 && (first[e.Of] == 0 || e.Index < first[e.Of]):
			first[e.Of] = e.Index
		}
	}
	after := make([]uint64, len(h)+1) // the lowest index of what was asked for from here on
	after[len(h)] = ^uint64(0)
	for i := len(h) - 1; i >= 0; i-- {
		after[i] = after[i+1]
		if at := first[h[i].Op]; h[i].Kind == Asked && at != 0 {
			after[i] = min(after[i], at)
		}
	}
	for _, r := range readings(h) {
		list, end := of[r.lock], after[r.at]
		if !exclusive[r.lock] || end == ^uint64(0) {
			continue
		}
		from := -1
		for n, t := range list {
			if t.told < r.begun {
				from = n
			}
		}
		if from < 0 || !slices.ContainsFunc(whole, func(s stretch) bool {
			return strings.HasPrefix(r.lock, s.Lock) && s.first <= list[from].index && end < s.last
		}) {
			continue
		}
		agrees := false
		var states []uint64
		for n := from; n < len(list) && list[n].index < end; n++ {
			if n+1 < len(list) && list[n+1].index == list[n].index {
				continue // within one command
			}
			states = append(states, list[n].holder)
			agrees = agrees || list[n].holder == 0 && len(r.tokens) == 0 || len(r.tokens) == 1 && r.tokens[0] == list[n].holder
		}
		if !agrees && len(states) > 0 {
			found = append(found, broken("reads agree with what is told", h[r.at].At, r.lock,
				"tokens %v hold, was told on node %d; the watchers know of %v (0: nobody)", r.tokens, h[r.at].Node, states))
		}
	}
	return found
}
