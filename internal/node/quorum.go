package node

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/consensus"
	"github.com/holdfast-go/holdfast/internal/membership"
)

// unheardMin is the silence after which a raft leader counts as lost, where elections are quick.
const unheardMin = time.Second

// quorum watches on each node whether the group has a raft leader, which it has only with a majority
// of its voters. It reports once when the group has had none for long, and once when it has one
// again. Only the goroutine of the pilot changes it.
type quorum struct {
	n    *Node
	lost time.Time // since when the group has none; zero: it has one
	told bool      // the loss is reported
}

// raftLeader is Group.RaftLeader, if this replica has heard it lately. A standby never learns that
// the group has lost its raft leader, as it takes no part in elections; but it hears every
// heartbeat. A raft leader that hears no majority is none: its engine may stand still and not know.
func (n *Node) raftLeader(group *consensus.Group) (node string, term uint64, ok bool) {
	node, term, ok = group.RaftLeader()
	switch {
	case ok && node == n.ID() && !group.HearsMajority(n.patience()):
		return "", term, false
	case !ok || node == n.ID():
		return node, term, ok
	}
	replica, _ := group.Members().Replica(node)
	heard, ok := group.Heard()[replica]
	if !ok || time.Since(heard.At) > max(unheardMin, 4*n.cfg.Election) {
		return "", term, false
	}
	return node, term, true
}

// poll is called twice a second. Gossip detects failed members only after seconds; the report waits
// so that it can name them.
func (q *quorum) poll(group *consensus.Group) {
	if group == nil || q.n.leaving() { // a removed replica hears no raft leader
		q.lost, q.told = time.Time{}, false
		return
	}
	now := time.Now()
	if _, _, ok := q.n.raftLeader(group); ok {
		if q.told {
			q.n.log.Warn("the group has a raft leader again, and serves", "after", now.Sub(q.lost).Round(time.Millisecond).String())
			q.n.cfg.Listener.Quorum(true, nil)
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
	q.n.log.Error("the group has no raft leader: it grants no lock, and leases end, until a majority of its voters is back",
		"since", q.lost.Round(0), "voters", voters, "missing", strings.Join(missing, ", "))
	q.n.cfg.Listener.Quorum(false, nodes)
}

// missing lists the voters that gossip does not see alive, and since when; nodes are their ids.
func (q *quorum) missing(group *consensus.Group) (list, nodes []string, voters int) {
	members := group.Members()
	for _, node := range members.Voters {
		m, known := q.n.gossip.Member(node)
		if known && m.State == membership.Alive {
			continue
		}
		nodes = append(nodes, node)
		described := q.n.described(node)
		if known {
			described += fmt.Sprintf(" %s since %s", m.State, m.Since.Format(time.RFC3339))
		}
		list = append(list, described)
	}
	return list, nodes, len(members.Voters)
}

// described names a node in the log: its id, and the name and address that gossip knows, or that
// were known before this process started.
func (n *Node) described(node string) string {
	if m, ok := n.gossip.Member(node); ok {
		return fmt.Sprintf("%s (%q at %s)", node, m.Name, m.Addr)
	}
	if p, ok := n.known.find(node); ok {
		return fmt.Sprintf("%s (%q, last at %s)", node, p.Name, p.Addr)
	}
	return node + " (never seen)"
}
