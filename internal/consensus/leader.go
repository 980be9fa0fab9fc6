package consensus

import (
	"sync/atomic"

	"github.com/lni/dragonboat/v4/raftio"
)

// leaders notes who is raft leader, as this replica is told (raftio.IRaftEventListener).
type leaders struct {
	observer Observer
	view     atomic.Pointer[leaderView]
}

// leader is a raft leader; replica 0: none that is known.
type leader struct{ replica, term uint64 }

type leaderView struct {
	leader
	changed chan struct{} // closed when there is another view
}

func newLeaders(observer Observer) *leaders {
	l := &leaders{observer: observer}
	l.view.Store(&leaderView{changed: make(chan struct{})})
	return l
}

// LeaderUpdated is called by the engine, from one goroutine.
func (l *leaders) LeaderUpdated(info raftio.LeaderInfo) {
	next := &leaderView{leader{info.LeaderID, info.Term}, make(chan struct{})}
	close(l.view.Swap(next).changed)
	l.observer.LeaderChanged()
}

// now is the raft leader as far as is known, and a channel that is closed when that changes.
func (l *leaders) now() (leader, <-chan struct{}) {
	view := l.view.Load()
	return view.leader, view.changed
}

// RaftLeader is the raft leader as far as this replica knows: a hint for routing, never a proof. It
// may be wrong for a while, on a cut-off standby for ever.
func (g *Group) RaftLeader() (node string, term uint64, ok bool) {
	now, _ := g.leaders.now()
	if now.replica == 0 || g.Failure() != nil {
		return "", now.term, false
	}
	if now.replica == g.cfg.Replica {
		return g.cfg.Node, now.term, true
	}
	node, ok = g.nodes.node(now.replica)
	return node, now.term, ok
}

// IsRaftLeader reports whether this replica believes to be the raft leader: a hint, too.
func (g *Group) IsRaftLeader() bool {
	now, _ := g.leaders.now()
	return now.replica == g.cfg.Replica && g.Failure() == nil
}
