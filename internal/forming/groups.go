package forming

import (
	"cmp"
	"slices"
)

// Claim is a group's description of itself for other groups of its name. It orders any two groups
// alike on both sides, whichever clock is right.
type Claim struct {
	Cluster string
	Alone   bool   // no node but its founder ever joined it, or was about to
	Birth   uint64 // if Alone: its first token, the founding time by its founder's clock
}

// YieldsTo reports whether a group gives up in favour of another. A group that others have joined
// never does. What follows, for any two groups of different ids:
//
//	Y1 they never yield to each other
//	Y2 at least one of them yields, unless both are joined groups: then an operator decides
func (c Claim) YieldsTo(o Claim) bool {
	return c.Alone && c.Cluster != "" && o.Cluster != "" && o.Cluster != c.Cluster && c.compare(o) > 0
}

// compare is below 0 if c comes before o: a joined group before one that is Alone, then the older
// one.
func (c Claim) compare(o Claim) int {
	switch {
	case !c.Alone && o.Alone:
		return -1
	case c.Alone && !o.Alone:
		return 1
	case c.Alone:
		return cmp.Or(cmp.Compare(c.Birth, o.Birth), cmp.Compare(c.Cluster, o.Cluster))
	}
	return 0
}

// Group is a group in sight.
type Group struct {
	Claim
	Nodes []string // members of the group, in order
}

// Groups sorts the groups of the peers, the one to join first: joined groups before those that are
// Alone, of the latter the oldest; then the group with most members in sight, since a group that
// never served has few; then the lowest id.
func Groups(peers []Peer) []Group {
	byID := make(map[string]*Group)
	for _, p := range peers {
		if p.Cluster == "" {
			continue
		}
		g := byID[p.Cluster]
		if g == nil {
			g = &Group{Claim: Claim{Cluster: p.Cluster, Alone: true, Birth: p.Birth}}
			byID[p.Cluster] = g
		}
		g.Alone = g.Alone && p.Alone
		g.Nodes = append(g.Nodes, p.ID)
	}
	groups := make([]Group, 0, len(byID))
	for _, g := range byID {
		slices.Sort(g.Nodes)
		groups = append(groups, *g)
	}
	slices.SortFunc(groups, func(a, b Group) int {
		return cmp.Or(a.compare(b.Claim), cmp.Compare(len(b.Nodes), len(a.Nodes)), cmp.Compare(a.Cluster, b.Cluster))
	})
	return groups
}

// asksMax bounds the nodes of other groups that are asked at a time.
const asksMax = 8

// Asks are the questions of a node that is Alone to members of groups to which, by gossip, it would
// yield. It yields only after an answer: gossip detects dead nodes only after seconds.
func Asks(self string, own Claim, groups []Group) (list []Message) {
	for _, g := range groups {
		if !own.YieldsTo(g.Claim) {
			continue
		}
		for _, node := range g.Nodes {
			if len(list) < asksMax {
				list = append(list, Message{Kind: Ask, From: self, To: node})
			}
		}
	}
	return list
}

// Answered is the answer of a node whose group claims c.
func Answered(ask Message, c Claim) Message {
	return Message{Kind: Answer, From: ask.To, To: ask.From, Cluster: c.Cluster, Alone: c.Alone, Birth: c.Birth}
}

// Claim is the claim in an Answer.
func (m Message) Claim() Claim { return Claim{Cluster: m.Cluster, Alone: m.Alone, Birth: m.Birth} }

// view is the content of the gossip, in order.
type view struct {
	fresh  []string // ids, lowest first
	groups []Group  // the one to join first
}

// look sorts the peers.
func (f *Forming) look(in Input) view {
	v := view{groups: Groups(in.Peers)}
	for _, p := range in.Peers {
		if p.Cluster == "" && p.Fresh {
			v.fresh = append(v.fresh, p.ID)
		}
	}
	slices.Sort(v.fresh)
	return v
}

// hasAll reports whether all of these nodes are fresh and in sight.
func (v view) hasAll(ids []string) bool {
	for _, id := range ids {
		if _, ok := slices.BinarySearch(v.fresh, id); !ok {
			return false
		}
	}
	return true
}
