package model

import (
	"math/bits"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/history"
)

type role uint8

const (
	follower role = iota
	candidate
	leading
)

// entry is one of the log. It never changes.
type entry struct {
	term uint64
	id   uint64 // of the attempt that proposed it, 0 for a raft leader's own first entry
	by   fsm.Process
	cmd  []byte
}

// image is a snapshot of the state machine.
type image struct {
	index, term uint64
	state       []byte
}

// raft is one replica's part in the consensus. What it answers to others is on its disk by then.
type raft struct {
	*node

	// On the disk: survives a crash.
	term uint64
	vote int // -1: none in this term
	snap image
	log  []entry // from snap.index+1

	role    role
	leader  int // -1: unknown
	commit  uint64
	votes   uint64 // a bit for each voter
	next    []uint64
	match   []uint64
	heard   []time.Duration // when each replica last answered this raft leader
	again   []time.Duration // when a refusal of each is next answered at once
	round   uint64          // of elections and heartbeats: heartbeats of an earlier one do nothing
	due     time.Duration   // when no raft leader was heard for too long
	timed   bool            // expect will be called
	flushed bool            // new entries are about to be sent together
}

func (r *raft) voter(i int) bool { return i < r.w.plan.Voters }

func (r *raft) last() uint64 { return r.snap.index + uint64(len(r.log)) }

// termAt is the term of the entry at an index from snap.index to last.
func (r *raft) termAt(index uint64) uint64 {
	if index == r.snap.index {
		return r.snap.term
	}
	return r.log[index-r.snap.index-1].term
}

func (r *raft) majority(votes uint64) bool { return bits.OnesCount64(votes) > r.w.plan.Voters/2 }

// boot is what a process does first with what is on its disk.
func (r *raft) boot() {
	r.role, r.leader, r.commit = follower, -1, r.snap.index
	r.next, r.match = make([]uint64, r.w.plan.Nodes), make([]uint64, r.w.plan.Nodes)
	r.heard, r.again = make([]time.Duration, r.w.plan.Nodes), make([]time.Duration, r.w.plan.Nodes)
	r.flushed, r.timed = false, false
	r.await()
}

// await puts off the election to one to two election timeouts from now.
func (r *raft) await() {
	if !r.voter(r.i) {
		return
	}
	r.round++
	e := r.w.plan.Election
	r.due = r.w.now + e + within(r.w.chance(2, uint64(r.i), r.term, uint64(r.w.now)), e)
	if !r.timed {
		r.timed = true
		r.w.after(r.node, r.due-r.w.now, r.expect)
	}
}

// expect looks whether the election is due. There is one such timer, whatever puts it off.
func (r *raft) expect() {
	switch {
	case r.role == leading:
		r.timed = false
	case r.w.now < r.due:
		r.w.after(r.node, r.due-r.w.now, r.expect)
	case r.w.alone(r.i):
		r.timed = false
		r.follow(r.term, -1) // by pre-votes: who reaches nobody stays in its term, and deposes nobody when it is back
	default:
		r.timed = false
		r.campaign()
	}
}

func (r *raft) campaign() {
	r.follow(r.term+1, -1)
	r.role, r.vote, r.votes = candidate, r.i, 1<<r.i
	if r.w.trace != nil {
		r.w.tell("node %d campaigns for term %d", r.i, r.term)
	}
	if r.majority(r.votes) {
		r.lead()
		return
	}
	term, last, lastTerm := r.term, r.last(), r.termAt(r.last())
	for to := range r.w.plan.Voters {
		if to != r.i {
			from := r.i
			r.w.send(from, to, func() { r.w.nodes[to].raft.asked(from, term, last, lastTerm) })
		}
	}
}

// follow goes over to a term, if it is newer, and follows its raft leader as far as it is known.
func (r *raft) follow(term uint64, leader int) {
	if term > r.term {
		r.term, r.vote = term, -1
	}
	was := r.leader
	r.role, r.leader = follower, leader
	r.await()
	if was != leader {
		r.leaderChanged()
	}
}

// asked answers a candidate.
func (r *raft) asked(from int, term, last, lastTerm uint64) {
	if term > r.term {
		r.follow(term, -1)
	}
	mine := r.termAt(r.last())
	yes := term == r.term && (r.vote < 0 || r.vote == from) &&
		(lastTerm > mine || lastTerm == mine && last >= r.last())
	if yes {
		r.vote = from
		r.await()
	}
	me, now := r.i, r.term
	r.w.send(me, from, func() { r.w.nodes[from].raft.answered(me, now, yes) })
}

func (r *raft) answered(from int, term uint64, yes bool) {
	switch {
	case term > r.term:
		r.follow(term, -1)
	case term == r.term && r.role == candidate && yes:
		r.votes |= 1 << from
		if r.majority(r.votes) {
			r.lead()
		}
	}
}

func (r *raft) lead() {
	r.role, r.leader = leading, r.i
	r.round++
	r.w.stats.Leaders++
	r.w.record(history.Event{Kind: history.Led, Node: r.i})
	if r.w.trace != nil {
		r.w.tell("node %d is raft leader of term %d", r.i, r.term)
	}
	for i := range r.next {
		r.next[i], r.match[i], r.heard[i] = r.last()+1, 0, r.w.now
	}
	r.log = append(r.log, entry{term: r.term})
	r.beat(r.round)
	r.advance()
	r.leaderChanged()
}

// beat keeps the others following, and gives up when a majority has not answered for an election timeout.
func (r *raft) beat(round uint64) {
	if round != r.round || r.role != leading {
		return
	}
	votes := uint64(1) << r.i
	for i := range r.w.plan.Voters {
		if r.w.now-r.heard[i] <= r.w.plan.Election {
			votes |= 1 << i
		}
	}
	if !r.majority(votes) {
		if r.w.trace != nil {
			r.w.tell("node %d hears no majority and leads no more", r.i)
		}
		r.follow(r.term, -1)
		return
	}
	r.broadcast()
	r.w.after(r.node, r.w.plan.Election/5, func() { r.beat(round) })
}

// propose appends a command, if this is the raft leader by its own belief.
func (r *raft) propose(id uint64, by fsm.Process, cmd []byte) {
	if r.role != leading {
		return // lost: who proposed it waits in vain
	}
	r.log = append(r.log, entry{r.term, id, by, cmd})
	if r.majority(1 << r.i) {
		r.advance()
	}
	if !r.flushed {
		r.flushed = true
		r.w.after(r.node, r.w.plan.Sync, func() {
			r.flushed = false
			if r.role == leading {
				r.broadcast()
			}
		})
	}
}

func (r *raft) broadcast() {
	for to := range r.w.plan.Nodes {
		if to != r.i {
			r.replicate(to)
		}
	}
}
