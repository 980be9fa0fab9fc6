package hearing

import (
	"maps"
	"slices"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/lease"
)

// News is what a node is to be told of a replica.
type News struct {
	Node    string
	Replica uint64
	Kind    NewsKind
}

// NewsKind is what there is to tell.
type NewsKind uint8

// News.
const (
	Welcome NewsKind = iota + 1 // the group has taken it in
	Removed                     // it is out
	Let                         // it is out, as its node had said that it leaves
	Copied                      // the node has a replica of as late a life: who asks runs on a copy of its directory
)

// News tells the nodes whose replica the group has taken in to start it, and those whose replica it
// has removed that it is out: while they were away, or as they wished, since the last that Raft
// sends to a replica may be the entry that removes it, without the news that it is committed. They
// are told again until their gossip shows that they have heard. Who is not a member by what is
// applied here is out only if that is all that is committed.
func (l *Leader) News(s State, now lease.Instant) (news []News) {
	maps.DeleteFunc(l.stray, func(replica uint64, _ lease.Instant) bool {
		return !slices.ContainsFunc(s.Seen, func(m Sighting) bool { return m.Replica == replica })
	})
	for _, m := range s.Seen {
		if !m.Here || m.Cluster != s.Cluster {
			continue
		}
		in := s.Members.Includes(m.Replica)
		stray := since(l.stray, m.Replica, m.Phase == Runs && !in, now) >= goneTime ||
			m.Phase == Retires && !in || m.Phase == Joins && l.turnedDown(m.Replica, now)
		one := News{Node: m.Node, Replica: m.Replica}
		switch {
		case in && m.Phase == Joins:
			one.Kind = Welcome
		case !in && m.Phase == Joins && l.copied(s.Members, m):
			one.Kind = Copied
		case stray && !in && !l.unknown && s.Departed(m.Node) != fsm.Stays:
			one.Kind = Let
		case stray && !in && !l.unknown:
			one.Kind = Removed
		default:
			continue
		}
		news = append(news, one)
	}
	return news
}

// copied reports whether a node that asks for a replica does not know of the one that it has: its
// life is no earlier. A node begins a life after the former one has ended, and notes that, so that
// this one runs on a copy of its directory. It would wait for as long as its double lives.
func (l *Leader) copied(members Members, m Sighting) bool {
	replica, ok := members.Replica(m.Node)
	return ok && !l.cfg.LaterLife(m.Node, replica, m.Replica)
}
