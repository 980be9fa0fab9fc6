package consensus

import (
	"time"

	"github.com/lni/dragonboat/v4/raftio"
	"github.com/lni/dragonboat/v4/raftpb"
)

// A replica that is the only voter of its group need not wait for an election timeout: nobody else could be
// raft leader. It is told that the timeout has passed, which Raft allows at any time.

// company notes whether the snapshot and the log of a replica know of another voter. Entries that are not
// committed count, too.
type company struct {
	replica uint64
	others  bool
}

func (c *company) snapshot(m raftpb.Membership) {
	for replica := range m.Addresses {
		c.others = c.others || replica != c.replica
	}
}

func (c *company) entry(e *raftpb.Entry) {
	if e.Type != raftpb.ConfigChangeEntry {
		return
	}
	var change raftpb.ConfigChange
	err := guard(func() error { return change.Unmarshal(e.Cmd) })
	c.others = c.others || err != nil || change.Type == raftpb.AddNode && change.ReplicaID != c.replica
}

// hastenEvery is the pause between two attempts: the engine ignores those that come before it has applied
// what is committed.
const hastenEvery = 2 * time.Millisecond

// hasten makes the only voter raft leader, in the background. It gives up after an election timeout: by then
// the engine has come to it by itself.
func (g *Group) hasten() {
	batch := raftpb.MessageBatch{
		DeploymentId: deployment(g.cfg.Cluster), BinVer: raftio.TransportBinVersion,
		Requests: []raftpb.Message{{Type: raftpb.TimeoutNow, From: g.cfg.Replica, To: g.cfg.Replica, ShardID: shard}},
	}
	g.carrier.run(func() {
		pause := time.NewTicker(hastenEvery)
		defer pause.Stop()
		for end := time.Now().Add(g.cfg.Election); time.Now().Before(end); {
			leader, changed := g.leaders.now()
			if leader.replica != 0 {
				return
			}
			if err := guard(func() error { g.carrier.messages(batch); return nil }); err != nil {
				g.fail(err)
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
	})
}
