package model

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/lease"
)

// oustedMax is how many processes live on whose disk was opened elsewhere: the first one ends when
// there is one more.
const oustedMax = 4

// place is where the node's process runs.
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

// running is the node whose process this is, nil if the process has ended.
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
				former.resume()
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
		n.resume()
	}
}
