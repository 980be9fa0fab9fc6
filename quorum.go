package holdfast

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/consensus"
	"github.com/holdfast-go/holdfast/internal/membership"
)

// unheardMin is how long a raft leader must not have been heard to be taken for lost, where
// elections are quick.
const unheardMin = time.Second

// quorum watches on each node whether the group has a raft leader, which it has only with a
// majority of its voters, and tells people once when it has none for long, and once when it is
// back. Only the goroutine of the pilot changes it.
type quorum struct {
	c    *Cluster
	lost time.Time // since when there is none; zero: there is one
	told bool
}

// raftLeader is Group.RaftLeader of now: a replica that does not vote is never told that there is
// none any more, as it takes no part in elections. So a raft leader counts that was heard a moment
// ago; each heartbeat is heard.
func (c *Cluster) raftLeader(group *consensus.Group) (node string, term uint64, ok bool) {
	node, term, ok = group.RaftLeader()
	if !ok || node == c.ID() {
		return node, term, ok
	}
	replica, _ := group.Members().Replica(node)
	heard, ok := group.Heard()[replica]
	if !ok || time.Since(heard.At) > max(unheardMin, 4*c.cfg.Timing.Election) {
		return "", term, false
	}
	return node, term, true
}

// look is called twice a second. Who is missing gossip notices only seconds later, so the news
// waits for that.
func (q *quorum) look(group *consensus.Group) {
	if group == nil || q.c.leaving() { // who has left hears no raft leader any more
		q.lost, q.told = time.Time{}, false
		return
	}
	now := time.Now()
	if _, _, ok := q.c.raftLeader(group); ok {
		if q.told {
			q.c.log.Warn("the group has a raft leader again: it serves", "after", now.Sub(q.lost).Round(time.Millisecond))
			q.c.hooks.quorum(true, nil)
		}
		q.lost, q.told = time.Time{}, false
		return
	}
	if q.lost.IsZero() {
		q.lost = now
	}
	missing, nodes, voters := q.missing(group)
	long := now.Sub(q.lost)
	explained := voters > 0 && 2*(voters-len(missing)) <= voters
	if q.told || long < unheardMin || !explained && long < lossSeen {
		return
	}
	q.told = true
	q.c.log.Error("the group has no raft leader: nobody gets a lock, and leases end, until a majority of its voters is back",
		"since", q.lost.Round(0), "voters", voters, "missing", strings.Join(missing, ", "))
	q.c.hooks.quorum(false, nodes)
}

// missing says which voters gossip does not see alive, and since when; nodes are their ids.
func (q *quorum) missing(group *consensus.Group) (list, nodes []string, voters int) {
	members := group.Members()
	for _, node := range members.Voters {
		m, known := q.c.gossip.Member(node)
		if known && m.State == membership.Alive {
			continue
		}
		nodes = append(nodes, node)
		switch {
		case !known:
			list = append(list, node+" (never seen)")
		default:
			list = append(list, fmt.Sprintf("%s (%q, %s, %s since %s)", node, m.Name, m.Addr, m.State, m.Since.Format(time.RFC3339)))
		}
	}
	return list, nodes, len(members.Voters)
}
