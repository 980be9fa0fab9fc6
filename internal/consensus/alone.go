package consensus

import (
	"time"

	"github.com/lni/dragonboat/v4/raftio"
	"github.com/lni/dragonboat/v4/raftpb"
)

// A replica that is the only voter of its group need not wait for an election timeout: nobody else
// could be raft leader. It is told that the timeout has passed, which Raft allows at any time.

// otherVoters notes whether the snapshot and the log of a replica know of another voter. Entries
// that are not committed count, too.
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
	err := guard(func() error { return change.Unmarshal(e.Cmd) })
	c.others = c.others || err != nil || change.Type == raftpb.AddNode && change.ReplicaID != c.replica
}

// campaignEvery is the pause between two attempts: the engine ignores those that come before it has
// applied what is committed.
const campaignEvery = 2 * time.Millisecond

// campaignNow makes the only voter raft leader, of a later term than that. It gives up after an
// election timeout: by then the engine has come to it by itself.
func (g *Group) campaignNow(term uint64) {
	pause := time.NewTicker(campaignEvery)
	defer pause.Stop()
	for end := time.Now().Add(g.cfg.Election); time.Now().Before(end); {
		leader, changed := g.leaders.now()
		if leader.replica != 0 && leader.term > term || !g.tell(raftpb.Message{Type: raftpb.TimeoutNow}) {
			return
		}
		select {
		case <-pause.C:
		case <-changed:
		case <-g.carrier.ended:
			return
		case <-g.failed:
			return
		}
	}
}

// tell gives this replica a message from itself; false: the group has failed.
func (g *Group) tell(m raftpb.Message) bool {
	m.From, m.To, m.ShardID = g.cfg.Replica, g.cfg.Replica, shard
	batch := raftpb.MessageBatch{
		DeploymentId: deployment(g.cfg.Cluster), BinVer: raftio.TransportBinVersion, Requests: []raftpb.Message{m},
	}
	if err := guard(func() error { g.carrier.messages(batch); return nil }); err != nil {
		g.fail(err)
		return false
	}
	return true
}

// renew begins a new term when a raft leader has become the only voter. A read that was waiting
// then for the word of a voter that is removed now waits for ever, and as long as one does the
// engine sends no heartbeats to those who do not vote: a newcomer never catches up, and the group
// never grows again. Reads do not outlive a term. It takes the only voter a moment; what it was
// asked meanwhile is asked again.
func (g *Group) renew() {
	for {
		select {
		case replica := <-g.nodes.removed:
			for !g.left(replica) {
				select {
				case <-time.After(campaignEvery):
				case <-g.carrier.ended:
					return
				case <-g.failed:
					return
				}
			}
			leader, _ := g.leaders.now()
			if voters := g.Members().Voters; leader.replica != g.cfg.Replica || len(voters) != 1 || voters[g.cfg.Replica] == "" {
				continue
			}
			// An answer of a later term ends the present one; as an answer it says nothing else.
			if !g.tell(raftpb.Message{Type: raftpb.HeartbeatResp, Term: leader.term + 1}) {
				return
			}
			g.campaignNow(leader.term)
		case <-g.carrier.ended:
			return
		case <-g.failed:
			return
		}
	}
}

// left reports whether the membership that the engine shows is without a replica whose removal it
// has told the registry, which it does a moment before.
func (g *Group) left(replica uint64) bool {
	m := g.Members()
	return m.Change == 0 || m.Voters[replica] == ""
}
