package history

import "slices"

type reading struct {
	begun, at int // indexes
	lock      string
	tokens    []uint64
}

// readings are all answers that tell who holds a lock, in the order of the answers.
func readings(h []Event) (all []reading) {
	begun := make(map[uint64]int)
	for i, e := range h {
		switch e.Kind {
		case Look, Who, Observing:
			begun[e.Op] = i
		case Looked:
			if b, ok := begun[e.Op]; ok && e.Tokens != nil {
				all = append(all, reading{b, i, e.Lock, e.Tokens})
			}
		case Leads, Observed:
			b, ok := begun[e.Op]
			if !ok {
				continue
			}
			r := reading{begun: b, at: i, lock: e.Lock}
			if e.Token != 0 {
				r.tokens = []uint64{e.Token}
			}
			all = append(all, r)
			if e.Kind == Observed {
				delete(begun, e.Op) // what it is told later may be old
			}
		}
	}
	return all
}

// ReadsAreCurrent finds answers to who holds a lock that lack one who held it all the while, or
// have one whose grant had ended when the question came, or that know less than an answer before
// them. What a node holds that an operator revokes goes a step at a time: a grant of it may be read until
// an answer lacks it.
func ReadsAreCurrent(h []Event, _ Bounds) (found []Violation) {
	all := grants(h)
	missed := make(map[uint64]int) // by token: the first answer that lacked a revoked grant
	of := make(map[string][]*grant)
	for _, g := range all {
		if g.granted >= 0 {
			for _, name := range g.Names() {
				of[name] = append(of[name], g)
			}
		}
	}
	known := make(map[string][]reading) // those with a higher exclusive token than all before, by name
	for _, r := range readings(h) {
		at, answer := h[r.at].At, h[r.at]
		for _, g := range of[r.lock] {
			if g.granted < r.begun && g.heldAfter(r.at) && !slices.Contains(r.tokens, g.Token) {
				found = append(found, broken("no grant is forgotten", at, r.lock,
					"tokens %v hold, was told on node %d, and that of token %d was valid still at %v", r.tokens, answer.Node, g.Token, h[g.last].At))
			}
			if _, known := missed[g.Token]; !known && g.revoked && g.forced < r.begun && !slices.Contains(r.tokens, g.Token) {
				missed[g.Token] = r.at
			}
		}
		for _, token := range r.tokens {
			if gone, was := missed[token]; was && gone < r.begun {
				found = append(found, broken("reads are current", at, r.lock,
					"token %d holds, was told on node %d, although its node had been revoked and it was gone before", token, answer.Node))
			} else if why := outdated(all, of[r.lock], known[r.lock], token, r.begun); why != "" {
				found = append(found, broken("reads are current", at, r.lock,
					"token %d holds, was told on node %d, although %s before", token, answer.Node, why))
			}
			if g := all[token]; g != nil && g.exclusive() {
				known[r.lock] = append(known[r.lock], r)
			}
		}
	}
	return found
}

// outdated says why a token cannot hold any more at an index, "" if it may.
func outdated(all map[uint64]*grant, of []*grant, known []reading, token uint64, at int) string {
	if g := all[token]; g != nil {
		over := g.over()
		if g.revoked {
			over = g.released
		}
		if over >= 0 && over < at {
			return "it had been released or freed by force"
		}
	}
	for _, g := range of {
		if g.exclusive() && g.granted < at && g.Token > token {
			return "a later one had been granted"
		}
	}
	for _, r := range known {
		if r.at < at && r.tokens[0] > token {
			return "a later one had been read"
		}
	}
	return ""
}

// NeverInPart finds moments at which one name of a set was held and another was not, and sets that
// waited for one of their names alone. Several Looked of one Op are such a moment.
func NeverInPart(h []Event, _ Bounds) (found []Violation) {
	all := grants(h)
	asked := make(map[uint64]Event)
	looks := make(map[uint64][]Event)
	for _, e := range h {
		switch e.Kind {
		case Asked:
			asked[e.Op] = e
		case Looked:
			looks[e.Op] = append(looks[e.Op], e)
		}
	}
	for i, e := range h {
		if e.Kind != Looked || len(looks[e.Op]) < 2 {
			continue
		}
		for _, token := range e.Tokens {
			g := all[token]
			if g == nil || g.granted < 0 || len(g.Others) == 0 {
				continue
			}
			for _, other := range looks[e.Op] {
				if slices.Contains(g.Names(), other.Lock) && other.Tokens != nil && !slices.Contains(other.Tokens, token) {
					found = append(found, broken("a set is never held in part", h[i].At, e.Lock,
						"token %d holds this name, and not %q", token, other.Lock))
				}
			}
		}
		for _, op := range e.Queue {
			if len(asked[op].Others) == 0 {
				continue
			}
			for _, other := range looks[e.Op] {
				if slices.Contains(asked[op].Names(), other.Lock) && !slices.Contains(other.Queue, op) {
					found = append(found, broken("a set never waits in part", h[i].At, e.Lock,
						"op %d waits for this name, and not for %q", op, other.Lock))
				}
			}
		}
	}
	return found
}
