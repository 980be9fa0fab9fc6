package history

import "slices"

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
