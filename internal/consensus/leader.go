package consensus

import (
	"sync"

	"github.com/lni/dragonboat/v4/raftio"
)

// leaders notes who is raft leader, as this replica is told (raftio.IRaftEventListener).
type leaders struct {
	observer Observer

	mu      sync.Mutex
	replica uint64 // 0: none that is known
	term    uint64
	changed chan struct{} // closed and replaced at each change
}

// LeaderUpdated is called by the engine, from one goroutine.
func (l *leaders) LeaderUpdated(info raftio.LeaderInfo) {
	l.mu.Lock()
	l.replica, l.term = info.LeaderID, info.Term
	close(l.changed)
	l.changed = make(chan struct{})
	l.mu.Unlock()
	l.observer.LeaderChanged()
}

func (l *leaders) now() (replica, term uint64, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.replica, l.term, l.changed
}

// RaftLeader is the raft leader as far as this replica knows: a hint for routing, never a proof. It may be
// wrong for a while, on a cut-off non-voter for ever.
func (g *Group) RaftLeader() (node string, term uint64, ok bool) {
	replica, term, _ := g.leaders.now()
	if replica == 0 || g.Failure() != nil {
		return "", term, false
	}
	if replica == g.cfg.Replica {
		return g.cfg.Node, term, true
	}
	node, ok = g.nodes.node(replica)
	return node, term, ok
}

// IsRaftLeader reports whether this replica believes to be the raft leader: a hint, too.
func (g *Group) IsRaftLeader() bool {
	replica, _, _ := g.leaders.now()
	return replica == g.cfg.Replica && g.Failure() == nil
}
