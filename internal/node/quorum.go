package node

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/client"
	"github.com/holdfast-go/holdfast/internal/consensus"
	"github.com/holdfast-go/holdfast/internal/loop"
	"github.com/holdfast-go/holdfast/internal/membership"
)

// unheardMin is the silence after which a raft leader counts as lost, where elections are quick.
const unheardMin = time.Second

// goneForGood is where the operator of a group reads on that has lost its majority.
const goneForGood = "docs/operations.md#when-the-majority-is-lost-for-good"

// quorum watches on each node whether it hears a raft leader. It reports once when the node has heard
// none for long, with what it sees of each voter, and once when it hears one again. It runs
// from Open on: a founder that restarts without a majority waits for that before it serves. Of a
// client it reports that no replica serves it.
type quorum struct {
	loop.Loop
	n    *Node
	lost time.Time // since when it hears none; zero: it hears one
	told bool      // the loss is reported

	looked time.Time                         // when the voters were last looked at
	sights atomic.Pointer[map[string]string] // what was seen of each then; nil while there is a raft leader
}

// raftLeader is Group.RaftLeader, if this replica has heard it lately. A standby never learns that
// the group has lost its raft leader, as it takes no part in elections; but it hears every
// heartbeat. A raft leader that hears no majority is none. Its engine may stand still and not know: then it is
// the next one, which this replica hears.
func (n *Node) raftLeader(group *consensus.Group) (node string, term uint64, ok bool) {
	if node, term, ok = group.RaftLeader(); !ok {
		return node, term, false
	}
	lately := func(at time.Time) bool { return time.Since(at) <= max(unheardMin, 4*n.cfg.Election) }
	if node == n.ID() {
		ok = group.HearsMajority(n.patience())
	} else {
		replica, _ := group.Members().Replica(node)
		ok = lately(group.Heard()[replica].At)
	}
	if ok {
		return node, term, true
	}
	if next, in, at := group.Later(); next != "" && lately(at) {
		return next, in, true
	}
	return "", term, false
}

// leads reports whether raftLeader is this node.
func (n *Node) leads(group *consensus.Group) bool {
	node, _, ok := n.raftLeader(group)
	return ok && node == n.ID()
}

func newQuorum(n *Node) *quorum {
	q := &quorum{n: n}
	q.Loop = loop.New(func(ctx context.Context) time.Duration {
		if replica := n.replica.Load(); replica != nil {
			replica.Introduce()
		}
		group, _ := n.Proposer.Current()
		q.poll(ctx, group)
		return pilotPause
	})
	return q
}

// found ends the loss.
func (q *quorum) found() {
	q.lost, q.told, q.looked = time.Time{}, false, time.Time{}
	q.sights.Store(nil)
}

// back ends the loss. Where that was reported, log writes that it is over, after so long.
func (q *quorum) back(now time.Time, log func(after time.Duration)) {
	if q.told {
		log(now.Sub(q.lost))
		q.n.cfg.Listener.Quorum(true, nil)
	}
	q.found()
}

// pollClient is poll on a node that is a client.
func (q *quorum) pollClient(now time.Time) {
	roamer := q.n.asClient.roamer
	if roamer.Served(now) {
		q.back(now, func(after time.Duration) { client.LogServedAgain(q.n.log, after) })
		return
	}
	if q.lost.IsZero() {
		q.lost = now
	}
	if q.told || now.Sub(q.lost) < lossSeen {
		return
	}
	q.told = true
	var missing []string
	for _, voter := range roamer.Fleet().Voters {
		if !q.n.sees(voter.Node) {
			missing = append(missing, voter.Node)
		}
	}
	client.LogNotServed(q.n.log, q.lost, roamer.Reason())
	q.n.cfg.Listener.Quorum(false, missing)
}

// sees reports whether gossip sees a node alive.
func (n *Node) sees(node string) bool {
	m, known := n.gossip.Member(node)
	return known && m.State == membership.Alive
}

// poll is called twice a second. Gossip detects failed members only after seconds; the report waits
// so that it can name them.
func (q *quorum) poll(ctx context.Context, group *consensus.Group) {
	now := time.Now()
	switch {
	case q.n.leaving():
		q.found()
		return
	case group == nil && q.n.asClient.hangs.Load():
		q.pollClient(now)
		return
	case group == nil: // a removed replica hears no raft leader
		if !q.told {
			q.found()
		}
		return
	}
	if _, _, ok := q.n.raftLeader(group); ok {
		q.back(now, func(after time.Duration) {
			q.n.log.Warn("this node hears a raft leader again", "after", after.Round(time.Millisecond).String())
		})
		return
	}
	if q.lost.IsZero() {
		q.lost = now
	}
	missing, voters := q.missing(group)
	long := now.Sub(q.lost)
	explained := voters > 0 && 2*(voters-len(missing)) <= voters
	if long < unheardMin || now.Sub(q.looked) < illPeriod || !explained && long < lossSeen {
		return
	}
	q.looked = now
	sights := q.look(ctx, group)
	q.sights.Store(&sights)
	if q.told {
		return
	}
	q.told = true
	var words []string
	for _, node := range slices.Sorted(maps.Values(group.Members().Voters)) {
		if why, ok := sights[node]; ok {
			words = append(words, q.n.described(node)+": "+why)
		}
	}
	more := []any{"since", q.lost.Round(0), "voters", voters, "others", strings.Join(words, "; ")}
	if explained {
		more = append(more, "if gone for good", goneForGood)
	}
	q.n.log.Error("this node hears no raft leader: it grants no lock, and its leases end, until it hears one", more...)
	q.n.cfg.Listener.Quorum(false, missing)
}

// missing lists the voters that gossip does not see alive.
func (q *quorum) missing(group *consensus.Group) (nodes []string, voters int) {
	members := group.Members()
	for _, node := range members.Voters {
		if !q.n.sees(node) {
			nodes = append(nodes, node)
		}
	}
	return nodes, len(members.Voters)
}

// look returns in words what this node sees of each other voter, for dialTime at most: a voter that
// Raft neither hears nor fails to reach is probed where it was last.
func (q *quorum) look(ctx context.Context, group *consensus.Group) map[string]string {
	voters := maps.Clone(group.Members().Voters)
	maps.DeleteFunc(voters, func(_ uint64, node string) bool { return node == q.n.ID() })
	replicas := slices.Collect(maps.Keys(voters))
	words := together(replicas, func(replica uint64) string { return q.n.sight(ctx, group, replica, voters[replica]) })
	sights := make(map[string]string)
	for i, replica := range replicas {
		sights[voters[replica]] = words[i]
	}
	return sights
}

// sight is what this node sees of another voter, in words.
func (n *Node) sight(ctx context.Context, group *consensus.Group, replica uint64, node string) string {
	words := "not heard since this process began"
	if at := group.LastHeard(replica); !at.IsZero() {
		words = fmt.Sprintf("heard %v ago", time.Since(at).Round(100*time.Millisecond))
	}
	m, seen := n.gossip.Member(node)
	if seen && m.State != membership.Alive {
		words += fmt.Sprintf(", %s in gossip since %s", m.State, m.Since.Format(time.RFC3339))
	}
	if err := group.Unreached(replica); seen && err != nil {
		return words + ": " + because(err)
	}
	addr, incarnation := m.Addr, m.Incarnation
	if !seen {
		p, _ := n.known.find(node)
		addr = p.Addr
	}
	if addr == "" {
		return words + ", and nothing says where it is"
	}
	if err := n.probe(ctx, addr, node, incarnation); err != nil {
		return words + ": " + because(err)
	}
	return words + ", and it answers a probe"
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
