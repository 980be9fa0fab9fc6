package forming

import (
	"cmp"
	"slices"
)

// Claim is what a group says of itself to another of its name. It orders any two groups alike on
// both sides: which of them is to go on is no matter of whose clock is right, only of what both
// say.
type Claim struct {
	Cluster string
	Alone   bool   // nobody but its founder ever joined it, or was about to
	Birth   uint64 // of one that is Alone: where its token counter began, which is when it was founded by its founder's clock
}

// YieldsTo reports whether a group is to be given up because another is there. One that others have
// joined never is. What follows, for any two groups of different ids:
//
//	Y1 they never yield to each other
//	Y2 at least one of them yields, unless both have been joined: then an operator decides
func (c Claim) YieldsTo(o Claim) bool {
	if !c.Alone || c.Cluster == "" || o.Cluster == "" || o.Cluster == c.Cluster {
		return false
	}
	return c.compare(o) > 0
}

// compare is below 0 if c comes before o: one that was joined before one that was not, then the
// older one.
func (c Claim) compare(o Claim) int {
	switch {
	case c.Alone != o.Alone && o.Alone:
		return -1
	case c.Alone != o.Alone:
		return 1
	}
	if c.Alone {
		return cmp.Or(cmp.Compare(c.Birth, o.Birth), cmp.Compare(c.Cluster, o.Cluster))
	}
	return 0
}

// Group is a group in sight.
type Group struct {
	Claim
	Nodes []string // that belong to it, in order
}

// Groups sorts the peers that belong to one, the group to join first: one that others have joined
// before one that is about to yield, of these the oldest; then the one with most members in sight,
// since a group that was left behind before it could serve has few; then the one with the lowest
// id.
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

// asksMax is how many nodes of other groups are asked at a time.
const asksMax = 8

// Asks are the questions of a node whose group is its own alone to those in sight that it would
// yield to by what gossip tells. It yields only when one answers: gossip takes seconds to notice
// that a node is dead.
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

// Answered is the answer to a question, by a node of a group that claims c.
func Answered(ask Message, c Claim) Message {
	return Message{Kind: Answer, From: ask.To, To: ask.From, Cluster: c.Cluster, Alone: c.Alone, Birth: c.Birth}
}

// Claim is the claim in an Answer.
func (m Message) Claim() Claim { return Claim{Cluster: m.Cluster, Alone: m.Alone, Birth: m.Birth} }
