package model

import (
	"bytes"
	"slices"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/autopilot"
)

// entryMark is what an entry did where it was applied first: every other replica must find the
// same.
type entryMark struct {
	term, id uint64
	answer   uint64 // digest of outcome and events
	state    []byte // snapshot, where one was made
}

func (r *raft) apply() {
	if r.lag > 0 {
		if !r.lagging {
			r.lagging = true
			r.w.after(r.node, r.lag, func() { r.lagging = false; r.applyNow() })
		}
		return
	}
	r.applyNow()
}

func (r *raft) applyNow() {
	for r.applied < r.commit && r.w.fail == nil {
		e := r.log[r.applied-r.snap.index]
		r.applied++
		r.applyEntry(r.applied, e)
	}
	r.compact()
}

func (r *raft) applyEntry(index uint64, e entry) {
	w, n := r.w, r.node
	w.stats.Applied++
	n.wrote = w.now
	var out fsm.Outcome
	var events []fsm.Event
	before := n.machine
	if e.cmd != nil {
		if index == uint64(len(w.entries)) && bytes.HasPrefix(e.cmd, w.batch) {
			before = n.machine.Fork()
		}
		out, events = n.machine.Apply(index, e.by, e.cmd)
		out.Each = slices.Clone(out.Each) // it is answered later
	}
	if e.conf != nil {
		out = n.carriedOut(index, e.conf)
	}
	answer := digestOf(out, events)
	if index == uint64(len(w.entries)) {
		w.stats.Commands++
		w.entries = append(w.entries, entryMark{e.term, e.id, answer, nil})
		w.note(index, e.id, answer)
		if e.conf != nil {
			w.reshaped(n, e.conf, out.Code == fsm.CodeOK)
		}
		for i := range events {
			if news := &events[i]; news.Kind == fsm.EventSilent && news.TTL == 0 {
				heard := &w.heardOf[int(news.Session.Node[0])-1]
				*heard = max(*heard, e.at) // it may be committed long after
			}
		}
		if e.cmd != nil {
			w.account.entry(n.machine, appliedEntry{before, index, e.by, e.cmd, out, events})
		}
	} else if mark := w.entries[index]; mark.term != e.term || mark.id != e.id {
		w.broken("the model of Raft is sound", "node %d has another entry at %d", n.i, index)
	} else if mark.answer != answer {
		w.broken("replicas agree", "node %d answers %v %v to entry %d", n.i, out, events, index)
	}
	n.note(events)
	n.answer(e.id, out)
}

// note is observer.Applied: a replica of a later life applies again what the process was told of.
func (n *node) note(events []fsm.Event) {
	told := n.known
	for i := range events {
		e := &events[i]
		if n.times.Note(e, n.now()) {
			n.wakeEnds()
		}
		switch {
		case e.Index <= told:
		case e.Kind == fsm.EventSilent:
			n.pilot.leader.Note(e, n.now())
		case e.Kind == fsm.EventDeparted:
			n.pilot.wake()
		}
	}
	for len(events) > 0 && events[0].Index <= told {
		events = events[1:]
	}
	if len(events) == 0 {
		return
	}
	n.known = events[len(events)-1].Index
	n.keeper.note(events)
}

func (n *node) carriedOut(index uint64, ch *change) fsm.Outcome {
	next := n.members.after(ch, index)
	if n.w.trace != nil {
		n.w.tell("node %d at %d: %v of node %d, life %d: %v", n.i, index, ch.kind, ch.who.node, ch.who.life, next != nil)
	}
	if next == nil {
		return fsm.Outcome{Code: fsm.CodeFinished}
	}
	n.members = next
	if self := n.raft.self; ch.who == n.raft.replicaID() && ch.kind == autopilot.Remove {
		n.w.after(n, 0, func() { n.replicaRemoved(self, n.machine.Departed(n.id) != fsm.Stays) })
	}
	return fsm.Outcome{Code: fsm.CodeOK}
}

func (w *world) imageOf(n *node, index uint64) []byte {
	w.stats.Checks++
	var b bytes.Buffer
	if err := n.machine.WriteSnapshot(&b, nil); err != nil {
		w.broken("snapshots are written", "%v", err)
	}
	if mark := &w.entries[index]; mark.state == nil {
		mark.state = b.Bytes()
	} else if !bytes.Equal(mark.state, b.Bytes()) {
		w.broken("replicas agree", "the snapshot of node %d at %d is another than the first one", n.i, index)
	}
	return w.entries[index].state
}

// restore begins with the state of the last snapshot: after a restart, or while the node runs.
func (r *raft) restore(running bool) {
	n := r.node
	n.machine, n.applied, n.members = fsm.New(), r.snap.index, r.snap.conf
	if r.snap.state != nil {
		m, err := fsm.ReadSnapshot(bytes.NewReader(r.snap.state))
		if err != nil {
			r.w.broken("snapshots are read", "%v", err)
			return
		}
		n.machine = m
	}
	n.machine.Limit(fsm.Limits{Step: r.w.plan.Steps})
	if got := r.w.imageAt(n); !bytes.Equal(got, r.snap.state) {
		r.w.broken("a restored replica is as the one that wrote the snapshot", "node %d at %d", n.i, r.snap.index)
	}
	n.timing = r.w.now
	n.times.Restore(n.machine, n.now())
	n.wakeEnds()
	if running && n.machine.Commands() > n.known {
		n.known = n.machine.Commands()
		n.pilot.leader.Skipped()
		n.keeper.restore(n.machine)
	}
}

func (w *world) imageAt(n *node) []byte {
	w.stats.Checks++
	if n.applied == 0 {
		return nil
	}
	var b bytes.Buffer
	if err := n.machine.WriteSnapshot(&b, nil); err != nil {
		w.broken("snapshots are written", "%v", err)
	}
	return b.Bytes()
}

func digestOf(out fsm.Outcome, events []fsm.Event) uint64 {
	value, data := out.Pack()
	h := mix(value, uint64(len(data)))
	for _, b := range data {
		h = mix(h, uint64(b))
	}
	for i := range events {
		e := &events[i]
		h = mix(h, uint64(e.Kind)|uint64(e.Reason)<<8|uint64(e.Mode)<<16|uint64(e.Weight)<<32)
		h = mix(h, e.Index^e.Session.Number<<32^uint64(e.Session.Node[0])<<56^e.Session.Incarnation<<48)
		h = mix(h, e.Request<<32^e.Token^uint64(e.TTL)<<20)
		h = mix(h, uint64(len(e.Name))<<32^uint64(uint32(e.Priority)))
		if e.Waited {
			h = mix(h, 1)
		}
		if e.Election {
			h = mix(h, 2)
		}
		for _, b := range []byte(e.Name) {
			h = mix(h, uint64(b))
		}
		for _, b := range []byte(e.Value) {
			h = mix(h, uint64(b))
		}
	}
	return h
}
