package consensus

import (
	"time"

	"github.com/lni/dragonboat/v4/raftpb"

	"github.com/holdfast-go/holdfast/internal/consensus/engine"
	"github.com/holdfast-go/holdfast/internal/loop"
)

// A replica that is the only voter of its group need not wait for an election timeout, as no other
// replica could be raft leader. It receives a TimeoutNow, which Raft allows at any time.

// otherVoters notes whether the snapshot and the log of a replica name another voter. Uncommitted
// entries count, too.
type otherVoters struct {
	replica uint64
	others  bool
}

func (c *otherVoters) snapshot(m raftpb.Membership) {
	for replica := range m.Addresses {
		c.others = c.others || replica != c.replica
	}
}

func (c *otherVoters) entry(e *raftpb.Entry) {
	if e.Type != raftpb.ConfigChangeEntry {
		return
	}
	var change raftpb.ConfigChange
	err := engine.Guard(func() error { return change.Unmarshal(e.Cmd) })
	c.others = c.others || err != nil || change.Type == raftpb.AddNode && change.ReplicaID != c.replica
}

// campaignEvery is the pause between two attempts: the engine ignores one that comes before it has
// applied all committed entries.
const campaignEvery = 2 * time.Millisecond

// campaignNow makes the only voter raft leader, in a later term than term. It gives up after an
// election timeout, when the engine campaigns by itself.
func (g *Group) campaignNow(term uint64) {
	g.insist(g.cfg.Election, func(of leader) bool {
		return (of.replica == 0 || of.term <= term) && g.tell(raftpb.Message{Type: raftpb.TimeoutNow})
	})
}

// insist calls f with the present raft leader again and again, for so long, until it returns false.
func (g *Group) insist(limit time.Duration, f func(leader) bool) {
	pause := time.NewTicker(campaignEvery)
	defer pause.Stop()
	for end := time.Now().Add(limit); time.Now().Before(end); {
		leader, changed := g.leaders.now()
		if !f(leader) {
			return
		}
		select {
		case <-pause.C:
		case <-changed:
		case <-g.carrier.Context().Done():
			return
		}
	}
}

// tell sends this replica a message from itself. It returns false if the group has failed.
func (g *Group) tell(m raftpb.Message) bool {
	m.From, m.To, m.ShardID = g.cfg.Replica, g.cfg.Replica, engine.Shard
	if err := g.carrier.Inject(m); err != nil {
		g.fail(err)
		return false
	}
	return true
}

// renew begins a new term when a raft leader has become the only voter. A read that was waiting for
// the answer of a removed voter waits forever, and meanwhile the engine sends no heartbeats to
// standbys: a newcomer never catches up, and the group never grows again. Reads do not outlive a
// term. The new term takes a moment, and callers propose again after it.
func (g *Group) renew() {
	for removed := g.nodes.Removed(); !g.left(removed); removed = g.nodes.Removed() {
		if loop.Sleep(g.carrier.Context(), campaignEvery) != nil {
			return
		}
	}
	leader, _ := g.leaders.now()
	if voters := g.Members().Voters; leader.replica != g.cfg.Replica || len(voters) != 1 || voters[g.cfg.Replica] == "" {
		return
	}
	// An answer of a later term ends the present one, and does nothing else.
	if g.tell(raftpb.Message{Type: raftpb.HeartbeatResp, Term: leader.term + 1}) {
		g.campaignNow(leader.term)
	}
}

// left reports whether the engine's membership is without a replica. The engine removes it from the
// registry a moment before.
func (g *Group) left(replica uint64) bool {
	m := g.Members()
	return m.Change == 0 || m.Voters[replica] == ""
}
