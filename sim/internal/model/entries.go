package model

const entriesMax = 64 // in one message

func (r *raft) replicate(to int) {
	me, term, commit := r.replicaID(), r.term, r.commit
	if r.next[to] <= r.snap.index {
		snap := r.snap
		r.next[to] = snap.index + 1
		r.sendLarge(r.peer(to), func(other *raft) { other.install(me, term, snap) })
		return
	}
	prev := r.next[to] - 1
	prevTerm := r.termAt(prev)
	from := prev - r.snap.index
	upTo := min(from+entriesMax, uint64(len(r.log)))
	list := r.log[from:upTo:upTo]
	r.next[to] += uint64(len(list))
	send := r.send
	if len(list) > 0 {
		send = r.sendLarge
	}
	send(r.peer(to), func(other *raft) { other.append(me, term, prev, prevTerm, list, commit) })
}

// append takes entries from a raft leader and returns how far the log is like its own; ok is false
// if it is not even so at prev.
func (r *raft) append(from replicaID, term, prev, prevTerm uint64, list []entry, commit uint64) {
	if term < r.term {
		r.reply(from, 0, false)
		return
	}
	r.hear(from, term)
	if prev > r.last() || prev >= r.snap.index && r.termAt(prev) != prevTerm {
		r.reply(from, r.likeness(prev), false)
		return
	}
	for i, e := range list {
		index := prev + 1 + uint64(i)
		if index <= r.snap.index {
			continue // part of the snapshot
		}
		at := index - r.snap.index - 1
		if at < uint64(len(r.log)) {
			if r.log[at].term == e.term {
				continue
			}
			if index <= r.commit {
				r.w.broken("the model of Raft is sound", "node %d would cut off the committed entry %d", r.i, index)
				return
			}
			r.log = r.log[:at:at] // others may hold what is cut off: it is not written over
		}
		r.log = append(r.log, e)
	}
	known := max(prev+uint64(len(list)), r.snap.index)
	if commit = min(commit, known); commit > r.commit {
		r.commitTo(commit)
	}
	if len(list) > 0 {
		r.saved = r.commit
	}
	r.reply(from, known, true)
}

// likeness is how far the log may be like one that differs at prev. It passes over all entries of the term that
// is in the way: a raft leader that was cut off has a long tail of them, and one step a refusal takes minutes.
func (r *raft) likeness(prev uint64) uint64 {
	index := min(r.last(), prev-1)
	for prev <= r.last() && index > max(r.commit, r.snap.index) && r.termAt(index) == r.termAt(prev) {
		index--
	}
	return index
}

func (r *raft) hear(from replicaID, term uint64) {
	if r.role == leading && term == r.term {
		r.w.broken("the model of Raft is sound", "nodes %d and %d lead term %d", r.i, from.node, term)
		return
	}
	r.met = r.w.now
	if term > r.term || r.role != follower || r.leader != from.node {
		r.follow(term, from.node)
	} else {
		r.await()
	}
}

func (r *raft) reply(to replicaID, index uint64, ok bool) {
	me, term := r.replicaID(), r.term
	r.send(to, func(other *raft) { other.heardOf(me, term, index, ok) })
}

// heardOf takes a replica's answer: its log is like ours up to index, or (not ok) perhaps that far.
func (r *raft) heardOf(who replicaID, term, index uint64, ok bool) {
	if term > r.term {
		r.follow(term, -1)
		return
	}
	if r.role != leading || term < r.term || !r.conf.includes(who) {
		return
	}
	from := who.node
	r.heard[from] = r.w.now
	if !ok {
		r.refused(from)
		r.next[from] = max(min(r.next[from], index+1), r.match[from]+1)
		if r.w.now >= r.again[from] { // one refusal at a time: they come in crowds
			r.again[from] = r.w.now + r.w.plan.Election/10
			r.replicate(from)
		}
		return
	}
	r.said[from] = r.w.now
	if !r.w.refuses || index > r.match[from] || index >= r.commit { // else it is late, and no progress
		r.took[from], r.w.answered[from] = r.w.now, r.w.now
	}
	if index > r.match[from] {
		r.match[from] = index
		r.advance()
	}
	r.next[from] = max(r.next[from], index+1)
	if r.next[from] <= r.last() {
		r.replicate(from)
	}
}

// refused notes that a replica is heard that refuses what it is sent. The model's heartbeats are appends of
// nothing, which a replica refuses as long as it lacks what is before; the product's have an answer in any
// case. Where no way loses what is large that is for a moment, and counts for nothing.
func (r *raft) refused(from int) {
	if r.w.refuses {
		r.said[from] = r.w.now
	}
}

func (r *raft) advance() {
	r.match[r.i] = r.last()
	best := r.commit
	for i := range r.match {
		if index := r.match[i]; index > best && index <= r.last() && r.termAt(index) == r.term {
			votes := uint64(0)
			for j := range r.match {
				if r.match[j] >= index {
					votes |= 1 << j
				}
			}
			if r.conf.majority(votes) {
				best = index
			}
		}
	}
	if best > r.commit {
		r.commitTo(best)
	}
}

// commitTo notes what is committed, with the changes of the membership among it, and carries it
// out. What a raft leader adds or removes concerns what is committed next.
func (r *raft) commitTo(index uint64) {
	changed := false
	for i := r.commit; i < index; i++ {
		e := &r.log[i-r.snap.index]
		if e.conf == nil {
			continue
		}
		if next := r.conf.after(e.conf, i+1); next != nil {
			r.conf, changed = next, true
			if i := e.conf.who.node; i != r.i {
				r.next[i], r.match[i], r.heard[i], r.said[i], r.took[i] = r.last()+1, 0, r.w.now, 0, 0
			}
		}
	}
	r.commit = index
	if changed {
		r.saved = index // written at once, or a replica that was the last but one to vote would not know
		if r.role == leading {
			r.broadcast() // before it is carried out, as the engine does: who was removed tells nobody later
		}
	}
	r.apply()
	if changed {
		r.reconfigured()
	}
}

func (r *raft) reconfigured() {
	switch {
	case r.role == leading && !r.voter():
		r.follow(r.term, -1)
	case r.role == leading:
		r.advance()
	default:
		r.await()
	}
}

func (r *raft) install(from replicaID, term uint64, snap image) {
	if term < r.term {
		r.reply(from, 0, false)
		return
	}
	r.hear(from, term)
	if snap.index <= r.commit {
		r.reply(from, r.commit, true)
		return
	}
	r.w.stats.Snapshots++
	if snap.index < r.last() && r.termAt(snap.index) == snap.term {
		r.log = append([]entry(nil), r.log[snap.index-r.snap.index:]...) // acknowledged perhaps
	} else {
		r.log = nil
	}
	r.snap, r.commit, r.conf, r.saved = snap, snap.index, snap.conf, snap.index
	if r.w.trace != nil {
		r.w.tell("node %d is restored from the snapshot at %d", r.i, snap.index)
	}
	r.restore(true)
	r.reply(from, snap.index, true)
}

func (r *raft) compact() {
	index := r.applied
	if index-r.snap.index < uint64(r.w.plan.Snapshot) {
		return
	}
	term := r.termAt(index)
	r.log = append([]entry(nil), r.log[index-r.snap.index:]...)
	r.snap = image{index, term, r.w.imageOf(r.node, index), r.members}
}
