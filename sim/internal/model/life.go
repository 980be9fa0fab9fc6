package model

import (
	"maps"
	"slices"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/hearing"
)

// hears takes the news of a replica of this node, as the root's founder does: what is said of
// another life changes nothing.
func (n *node) hears(news hearing.News) {
	if n.raft.replicaID().replica() != news.Replica || n.retired {
		return
	}
	switch news.Kind {
	case hearing.Welcome:
		n.bound = true
	case hearing.Copied:
		n.w.broken("no node is taken for a copy", "node %d in life %d", n.i, n.raft.self)
	case hearing.Removed, hearing.Let:
		n.replicaRemoved(n.raft.self, news.Kind == hearing.Let)
	}
}

// replicaRemoved takes the news that the group has removed a replica of this node.
func (n *node) replicaRemoved(life uint64, left bool) {
	switch {
	case life != n.raft.self || n.ousted:
	case left || n.leaving:
		n.retire()
	case !n.bound: // it was taken in and removed while it heard nothing
		n.raft.self++
	default:
		n.comeBack()
	}
}

// comeBack begins the node's next life as a replica, with nothing of the former one, and asks the
// group to take it in. Its sessions know nothing of it.
func (n *node) comeBack() {
	w := n.w
	w.tell("node %d, whose replica was removed, begins life %d", n.i, n.raft.self+1)
	n.asks, n.joined = true, false
	r, timed := &n.raft, n.raft.timed
	*r = raft{node: n, self: r.self + 1, round: r.round + 1, vote: -1, snap: image{conf: w.founders}}
	for _, id := range slices.Sorted(maps.Keys(n.pending)) {
		n.giveUp(id)
	}
	r.restore(false)
	r.boot()
	r.timed = timed
	n.keeper.table.UnshareAll()
	n.leaderChanged()
	w.health()
	n.catchUp()
}

// catchUp ends when the replica of a later life has all that was committed when the group took it
// in. Nothing is proposed before that: its state is older than what the former one has shown.
func (n *node) catchUp() {
	life := n.raft.self
	again := func() {
		n.w.after(n, cleanPause, func() {
			if n.asks && n.raft.self == life {
				n.catchUp()
			}
		})
	}
	sent := n.bring(fsm.Encode(fsm.Level{}), func(_ fsm.Outcome, known bool) {
		switch {
		case n.raft.self != life:
		case known:
			n.w.stats.Returned++
			n.asks = false
			n.hello()
		default:
			again()
		}
	})
	if !sent {
		again()
	}
}

// retire ends the node for good: it has left, and the group has let it go; or its machine is gone,
// with its disk.
func (n *node) retire() {
	n.crash()
	n.retired, n.leaving = true, false
	n.w.health()
}

// leave lets the process end all that it has, say that its node leaves, and go on as a replica
// until the group has let it go.
func (n *node) leave() {
	n.crash()
	n.up, n.leaving, n.since = true, true, n.w.now
	n.begin()
	n.insist(nil, fsm.Goodbye{Node: n.id, Incarnation: n.incarnation, Departure: fsm.Leaves}, func(fsm.Outcome, bool, bool) {})
}

// serves says whether the node has its part in the group.
func (n *node) serves() bool {
	return !n.retired && !n.leaving && !n.asks && n.bound && n.w.group.includes(n.raft.replicaID())
}

// living are the nodes that have not gone for good.
func (w *world) living() []*node {
	return slices.DeleteFunc(slices.Clone(w.nodes), func(n *node) bool { return n.retired })
}
