package history

import "time"

// hearer is a caller that is told of changes one after the other, from a beginning to an end.
type hearer struct {
	Event       // the beginning
	begun int   // its index
	told  []int // indexes
	until time.Duration
}

// hearers finds those of a kind of beginning, and what they were told.
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
