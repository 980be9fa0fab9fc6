package model

import (
	"math/bits"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/sim/internal/history"
)

type role uint8

const (
	follower  role = iota
	canvasser      // asks for pre-votes
	candidate
	leading
)

// entry is one of the log. It never changes.
type entry struct {
	term uint64
	id   uint64        // of the attempt that proposed it, 0 for a raft leader's own first entry
	at   time.Duration // of that attempt
	by   fsm.Process
	cmd  []byte
	conf *change // of the membership; nil: none
}

type image struct {
	index, term uint64
	state       []byte
	conf        *config
}

// raft is one replica's part in the consensus. What it answers to others is on its disk by then.
type raft struct {
	*node

	// On the disk: survives a crash.
	self  uint64 // its life: another replica begins empty
	term  uint64
	vote  int // -1: none in this term
	snap  image
	log   []entry // from snap.index+1
	saved uint64  // commit when it last wrote

	role    role
	leader  int // -1: unknown
	commit  uint64
	conf    *config // as far as committed
	pending uint64  // index of a change of the membership that may not be committed
	votes   uint64  // a bit for each voter
	next    []uint64
	match   []uint64
	heard   []time.Duration // when each replica last answered this raft leader, or it began to lead
	said    []time.Duration // when each last answered in this term, be it with a refusal: see refused; 0: it did not
	took    []time.Duration // when each last took what it was sent
	again   []time.Duration // when a refusal of each is next answered at once
	round   uint64          // of elections and heartbeats: heartbeats of an earlier one do nothing
	met     time.Duration   // when the raft leader was last heard
	shunned time.Duration   // when one that leaves asked first for a vote, since there is no raft leader; 0: it has not
	due     time.Duration   // when no raft leader was heard for too long
	timed   bool            // expect will be called
	flushed bool            // new entries are about to be sent together
}

func (r *raft) voter() bool { return r.conf.votes(r.i) && r.conf.lives[r.i] == r.self }

func (r *raft) replicaID() replicaID { return replicaID{r.i, r.self} }

func (r *raft) peer(i int) replicaID { return replicaID{i, r.conf.lives[i]} }

func (r *raft) last() uint64 { return r.snap.index + uint64(len(r.log)) }

func (r *raft) termAt(index uint64) uint64 {
	if index == r.snap.index {
		return r.snap.term
	}
	return r.log[index-r.snap.index-1].term
}

func (r *raft) boot() {
	nodes := r.w.plan.Nodes
	r.role, r.leader, r.commit, r.conf, r.pending = follower, -1, r.snap.index, r.snap.conf, 0
	r.next, r.match = make([]uint64, nodes), make([]uint64, nodes)
	r.heard, r.said, r.took, r.again = make([]time.Duration, nodes), make([]time.Duration, nodes), make([]time.Duration, nodes), make([]time.Duration, nodes)
	r.flushed, r.timed = false, false
	r.commitTo(max(r.saved, r.commit))
	r.await()
}

// await puts off the election to one to two election timeouts from now.
func (r *raft) await() {
	r.round++
	if !r.voter() {
		return
	}
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
	case r.hangs > 0:
		r.park(r.expect)
	case r.role == leading, r.ousted, !r.voter():
		r.timed = false
	case r.w.now < r.due:
		r.w.after(r.node, r.due-r.w.now, r.expect)
	case r.yields():
		r.timed = false
		r.await()
	default:
		r.timed = false
		r.canvass()
	}
}

// yieldElections is the product's (internal/consensus/yield.go).
const yieldElections = 4

// yields says whether a node that leaves lets the only other voter, which stays, be raft leader. If it
// led as its own removal is committed, and that word were lost, the other could never know.
func (r *raft) yields() bool {
	if !r.leaving || bits.OnesCount64(r.conf.voters) != 2 || r.w.now-r.met >= yieldElections*r.w.plan.Election {
		return false
	}
	for i, other := range r.w.nodes {
		if i != r.i && r.conf.votes(i) {
			return r.machine.Departed(other.id) == fsm.Stays
		}
	}
	return false
}

// canvass asks the others whether they would vote for it: who reaches no majority stays in its
// term, and deposes nobody when it is back.
func (r *raft) canvass() {
	r.follow(r.term, -1)
	r.role, r.votes = canvasser, 1<<r.i
	if r.conf.majority(r.votes) {
		r.campaign()
		return
	}
	me, round, term, last, lastTerm := r.replicaID(), r.round, r.term+1, r.last(), r.termAt(r.last())
	r.tellVoters(func(other *raft) { other.sounded(me, round, term, last, lastTerm) })
}

// sounded answers who asks for pre-votes. Nobody follows another while it hears a raft leader.
func (r *raft) sounded(from replicaID, round, term, last, lastTerm uint64) {
	yes := term > r.term && r.fresh(last, lastTerm) && r.role != leading &&
		(r.leader < 0 || r.w.now-r.met > r.w.plan.Election) && !r.shuns(from)
	me, now := r.replicaID(), r.term
	r.send(from, func(other *raft) {
		switch {
		case now > other.term:
			other.follow(now, -1)
		case yes && other.role == canvasser && other.round == round:
			if other.count(me) {
				other.campaign()
			}
		}
	})
}

// shuns says whether a voter that stays has no vote yet for one of which the group knows that it leaves:
// that one may commit its own removal, and nobody would hear of it.
func (r *raft) shuns(from replicaID) bool {
	if !r.machine.MayGo(r.w.nodes[from.node].id) || r.machine.Departed(r.id) != fsm.Stays || r.machine.MayGo(r.id) {
		return false
	}
	if r.shunned == 0 {
		r.shunned = r.w.now
	}
	return r.w.now-r.shunned < yieldElections*r.w.plan.Election
}

func (r *raft) fresh(last, lastTerm uint64) bool {
	mine := r.termAt(r.last())
	return lastTerm > mine || lastTerm == mine && last >= r.last()
}

func (r *raft) count(from replicaID) bool {
	if r.conf.includes(from) {
		r.votes |= 1 << from.node
	}
	return r.conf.majority(r.votes)
}

func (r *raft) tellVoters(f func(*raft)) {
	for to := range r.w.plan.Nodes {
		if to != r.i && r.conf.votes(to) {
			r.send(r.peer(to), f)
		}
	}
}

func (r *raft) campaign() {
	r.follow(r.term+1, -1)
	r.role, r.vote, r.votes = candidate, r.i, 1<<r.i
	if r.w.trace != nil {
		r.w.tell("node %d campaigns for term %d", r.i, r.term)
	}
	if r.conf.majority(r.votes) {
		r.lead()
		return
	}
	me, term, last, lastTerm := r.replicaID(), r.term, r.last(), r.termAt(r.last())
	r.tellVoters(func(other *raft) { other.asked(me, term, last, lastTerm) })
}

// follow goes over to a term, if it is newer, and follows its raft leader as far as it is known.
func (r *raft) follow(term uint64, leader int) {
	if term > r.term {
		r.term, r.vote = term, -1
		r.saved = r.commit
	}
	was := r.leader
	r.role, r.leader = follower, leader
	if leader >= 0 {
		r.shunned = 0
	}
	r.await()
	if was != leader {
		r.leaderChanged()
	}
}

func (r *raft) asked(from replicaID, term, last, lastTerm uint64) {
	if term > r.term {
		r.follow(term, -1)
	}
	yes := term == r.term && (r.vote < 0 || r.vote == from.node) && r.fresh(last, lastTerm)
	if yes {
		r.vote = from.node
		r.await()
	}
	me, now := r.replicaID(), r.term
	r.send(from, func(other *raft) { other.answered(me, now, yes) })
}

func (r *raft) answered(from replicaID, term uint64, yes bool) {
	switch {
	case term > r.term:
		r.follow(term, -1)
	case term == r.term && r.role == candidate && yes:
		if r.count(from) {
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
		r.next[i], r.match[i], r.heard[i], r.said[i], r.took[i] = r.last()+1, 0, r.w.now, 0, 0
	}
	r.pending = 0 // one of an earlier term may have been replaced since, with the log behind it
	for i, e := range r.log {
		if index := r.snap.index + 1 + uint64(i); e.conf != nil && index > r.commit {
			r.pending = index
		}
	}
	r.log = append(r.log, entry{term: r.term})
	r.beat(r.round)
	r.advance()
	r.leaderChanged()
}

// beat keeps the others following, and gives up when a majority has not answered for an election
// timeout.
func (r *raft) beat(round uint64) {
	if round != r.round || r.role != leading {
		return
	}
	if r.hangs > 0 {
		r.park(func() { r.beat(round) })
		return
	}
	r.w.answered[r.i] = r.w.now
	votes := uint64(1) << r.i
	for i := range r.w.plan.Nodes {
		if r.w.now-r.heard[i] <= r.w.plan.Election {
			votes |= 1 << i
		}
	}
	if !r.conf.majority(votes) {
		if r.w.trace != nil {
			r.w.tell("node %d hears no majority and leads no more", r.i)
		}
		r.follow(r.term, -1)
		return
	}
	r.broadcast()
	r.w.after(r.node, r.w.plan.Election/5, func() { r.beat(round) })
}

// propose appends an entry, if this is the raft leader by its own belief. There is one change of
// the membership at a time.
func (r *raft) propose(e entry) {
	if r.role != leading || r.ousted || e.conf != nil && r.pending > r.commit {
		return // lost: who proposed it waits in vain
	}
	e.term = r.term
	r.log = append(r.log, e)
	r.saved = r.commit
	if e.conf != nil {
		r.pending = r.last()
	}
	if r.conf.majority(1 << r.i) {
		r.advance()
	}
	if !r.flushed {
		r.flushed = true
		r.w.after(r.node, r.w.plan.Sync, r.flush)
	}
}

func (r *raft) flush() {
	if r.hangs > 0 {
		r.park(r.flush)
		return
	}
	r.flushed = false
	if r.role == leading {
		r.broadcast()
	}
}

func (r *raft) broadcast() {
	for to := range r.w.plan.Nodes {
		if to != r.i && r.conf.has(to) {
			r.replicate(to)
		}
	}
}
