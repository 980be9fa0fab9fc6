package autopilot

import (
	"maps"
	"slices"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/forming"
	"github.com/holdfast-go/holdfast/internal/lease"
)

// News returns the messages to nodes whose replica the group has added, which may start it, and to
// nodes whose replica it has removed: while they were away, or at their wish, since the last message
// of Raft to a replica may be the entry that removes it, without its commit. The messages repeat
// until gossip shows that they have arrived. A replica that is no member as applied here is removed
// only if this replica has applied all that is committed.
func (l *Leader) News(s State, now lease.Instant) (news []forming.Message) {
	maps.DeleteFunc(l.unknownRunning, func(replica uint64, _ lease.Instant) bool {
		return !slices.ContainsFunc(s.Seen, func(m Sighting) bool { return m.Replica == replica })
	})
	for _, m := range s.Seen {
		if !m.Here || m.Cluster != s.Cluster {
			continue
		}
		in, joins := s.Members.Includes(m.Replica), m.Phase == PhaseJoining
		out := since(l.unknownRunning, m.Replica, m.Phase.Runs() && !in, now) >= goneTime ||
			m.Phase == PhaseLeaving && !in || joins && l.turnedDown(m.Replica, now)
		one := forming.Message{From: s.Self, To: m.Node, Cluster: s.Cluster, Replica: m.Replica, Kind: forming.Removed}
		switch {
		case in && joins:
			one.Kind = forming.Welcome
		case !in && joins && l.duplicate(s.Members, m):
			one.DuplicateDirectory = true
		case out && !in && !l.unknown:
			one.AfterLeave = s.Departed(m.Node) != fsm.Stays
		default:
			continue
		}
		news = append(news, one)
	}
	return news
}

// Clients returns the messages to nodes that ask for a replica, and can do without, where as many
// follow as shall. They repeat until gossip shows that the nodes are clients.
func (l *Leader) Clients(s State, plan Plan) (news []forming.Message) {
	if !plan.Full {
		return nil
	}
	for _, m := range s.Seen {
		if m.asks(s.Cluster) && m.Able && !m.Client && !s.Members.Has(m.Node) {
			news = append(news, forming.Message{From: s.Self, To: m.Node, Cluster: s.Cluster, Replica: m.Replica, Kind: forming.Client})
		}
	}
	return news
}

// duplicate reports whether a node that asks for a replica does not know of its present one: its
// life is no earlier. A node begins a life after the former one has ended, and records that, so
// this one runs on a copy of its directory. It would wait for as long as its double lives.
func (l *Leader) duplicate(members Members, m Sighting) bool {
	replica, ok := members.Replica(m.Node)
	return ok && !l.cfg.LaterLife(m.Node, replica, m.Replica)
}
