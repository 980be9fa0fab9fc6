package model

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/forming"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/sim/internal/history"
)

// hears takes the news of a replica of this node, as internal/node does: what is said of
// another life changes nothing.
func (n *node) hears(news forming.Message) {
	if n.raft.replicaID().replica() != news.Replica || n.retired {
		return
	}
	switch {
	case news.Kind == forming.Welcome:
		n.bound = true
	case news.DuplicateDirectory:
		n.w.broken("no node is taken for a copy", "node %d in life %d", n.i, n.raft.self)
	default:
		n.replicaRemoved(n.raft.self, news.AfterLeave)
	}
}

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

func (n *node) serves() bool {
	return !n.retired && !n.leaving && !n.asks && n.bound && n.w.group.includes(n.raft.replicaID())
}

func (w *world) living() []*node {
	return slices.DeleteFunc(slices.Clone(w.nodes), func(n *node) bool { return n.retired })
}

// oustedMax is how many processes live on whose disk was opened elsewhere: the first one ends when
// there is one more.
const oustedMax = 4

func (n *node) place() fsm.Place {
	if n.w.plan.Nowhere {
		return fsm.Place{}
	}
	return fsm.Place{Boot: fmt.Sprintf("%d of host %d", n.boot, n.host), Device: 1, File: uint64(n.i) + n.copies<<8}
}

// dead says whether a Hello proves that a process is: both ran in one boot of a machine, with one
// lock file.
func (w *world) dead(p fsm.Process, by fsm.Hello) bool {
	if by.Place == (fsm.Place{}) || w.places[p] != by.Place {
		return false
	}
	if w.running(p) != nil {
		w.broken("the model of places is sound", "process %d of node %d lives", p.Incarnation, int(p.Node[0])-1)
	}
	return true
}

func (w *world) running(p fsm.Process) *node {
	for _, list := range [][]*node{w.nodes, w.ousted} {
		for _, n := range list {
			if n.up && n.process() == p {
				return n
			}
		}
	}
	return nil
}

// move opens the disk of a node on another machine, or a copy of it beside the former one. A
// process that lives on is cut off or stopped, and keeps what it holds, its callers and its clock.
// When the fault ends, what it proposes reaches the group again. Of Raft it hears and says nothing
// any more: a replica that is in two places has two votes, which no group survives.
func (w *world) move(n *node, f Fault, by int) {
	if by < 0 {
		for _, former := range w.ousted {
			if former.i == n.i {
				former.silent = false
				former.goOn()
			}
		}
		return
	}
	if !f.Copied {
		n.host++
	}
	if !n.up || n.leaving {
		return
	}
	w.stats.Moved++
	for _, t := range n.tenures {
		if t.lasts() {
			w.stats.Outlived++
			break
		}
	}
	disk := n.raft
	next := newNode(w, n.i)
	next.clock = clock{since: w.now, shows: lease.Instant(time.Second) * lease.Instant(10+n.incarnation), rate: f.Rate}
	next.raft.self, next.raft.term, next.raft.vote, next.raft.snap, next.raft.saved = disk.self, disk.term, disk.vote, disk.snap, disk.saved
	next.raft.log = disk.log[:len(disk.log):len(disk.log)] // the former may go on with its own
	next.bound, next.asks = n.bound, n.asks
	next.incarnation, next.boot, next.host, next.copies = n.incarnation, n.boot, n.host, n.copies
	if f.Copied {
		next.copies++
	}
	if next.stood.freezes = n.stood.freezes; next.stood.freezes > 0 { // its machine is held as the former one
		next.stood.since = w.now
		next.clock.stop(w.now)
	}
	next.hangs, n.hangs, n.parked = n.hangs, 0, nil
	next.downs, next.pauses, next.lag, next.ills, next.well, next.wellSince = n.downs, n.pauses, n.lag, n.ills, n.well, n.wellSince
	w.tell("the disk of node %d is opened elsewhere", n.i)
	n.ousted, n.silent, n.well = true, true, false
	if f.Stopped {
		n.pause()
	}
	w.nodes[n.i] = next
	if w.ousted = append(w.ousted, n); len(w.ousted) > oustedMax {
		w.ousted[0].crash()
		w.ousted = w.ousted[1:]
	}
	next.start()
}

// oust cuts off for good the processes whose disks were opened elsewhere, and lets those go on that
// are stopped: the faults are over, and what they hold ends by its TTL.
func (w *world) oust() {
	for _, n := range w.ousted {
		n.silent = true
		if w.plan.Wild {
			w.clock(n, 1, 0)
		}
		n.goOn()
	}
}

// force lets an operator take a lock from whoever has it, as far as the node knows.
func (w *world) force(n *node, by int) {
	if by < 0 || !n.up || n.paused {
		return
	}
	for l := range n.machine.Locks("") {
		if len(l.Holders) > 0 {
			cmd := fsm.ForceRelease{Name: l.Name, Token: l.Holders[0].Token, Reason: "operator"}
			w.ops++
			e := history.Event{Kind: history.Force, Op: w.ops, Node: n.i, Lock: l.Name, Token: cmd.Token}
			w.record(e)
			n.insist(nil, cmd, func(out fsm.Outcome, _, _ bool) {
				e.Kind, e.OK = history.Forced, out.Code == fsm.CodeOK
				w.record(e)
			})
			return
		}
	}
}

// revoke lets an operator on another node end all that a node holds and waits for, as
// Cluster.RevokeNode does: whatever has become of it, and of the former processes on its disk.
func (w *world) revoke(n, other *node, by int) {
	if by < 0 || !other.up || other.paused {
		return
	}
	w.ops++
	e := history.Event{Kind: history.Revoke, Op: w.ops, Node: other.i, Value: n.name()}
	w.record(e)
	cmd := fsm.Revoke{Node: n.id, Reason: "operator"}
	other.read(nil, func(m *fsm.Machine) { cmd.Upto = m.Commands() }, func() {
		other.insist(nil, cmd, func(out fsm.Outcome, _, _ bool) {
			e.Kind, e.OK = history.Revoked, out.Code == fsm.CodeOK
			w.record(e)
		})
	})
}

func (n *node) name() string { return strconv.Itoa(n.i) }

// robbed says whether an operator has taken a grant, by its token or with all that its node held.
// Its holder hears of it later.
func (w *world) robbed(token uint64) bool {
	g := w.account.grants[token]
	return g != nil && (g.forced || w.revoked(g.session))
}

// revoked says whether an operator has ended a session with all that its node held. Its node hears
// of it with a later step.
func (w *world) revoked(id fsm.SessionID) bool {
	s := w.account.sessions[id]
	return s != nil && s.revoked
}
