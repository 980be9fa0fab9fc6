package lease

import (
	"time"

	"github.com/holdfast-go/holdfast/fsm"
)

// Elapses is how a replica times what hangs on no session: places that stay taken after their grant
// (rests), the periods of Once keys, and the steps of what ends much. As with Expiries every
// replica times all along. What it keeps true:
//
//	L1 a rest is due only when at least its time went by since this replica applied its beginning
//	L2 a turn is due only when at least a period went by since this replica knew of the one before
//	L3 a step is due as soon as this replica knows of the one before
//	L4 on the raft leader all that is due then, elsewhere stagger later; again every retry until they are done
type Elapses struct {
	stagger, retry time.Duration
	rests          map[fsm.Grant]*resting
	queue          queue[*resting]
	turns          map[time.Duration]turned // by how long the keys are kept
	step           *turned                  // the last one of what has ended and is still there; nil: nothing is
}

// resting is one place. Its slot is when the raft leader proposes its end, next.
type resting struct {
	slot
	grant fsm.Grant
}

// turned is the last turn of a class of Once keys, and when this replica saw it.
type turned struct {
	index uint64
	at    Instant
}

// sweepPause is the pause between two sweeps: forgetting is spread.
const sweepPause = 50 * time.Millisecond

// NewElapses returns an empty table. stagger and retry are as for NewExpiries.
func NewElapses(stagger, retry time.Duration) *Elapses {
	e := &Elapses{stagger: max(0, stagger), retry: max(time.Millisecond, retry), turns: make(map[time.Duration]turned)}
	e.Reset()
	return e
}

// Resting notes that the place of a grant stays taken for d. applied must be read from the clock
// not before the entry reached this replica; after a restart or a snapshot it is the time of the
// restore: late, never early.
func (e *Elapses) Resting(g fsm.Grant, d time.Duration, applied Instant) {
	due := applied.Add(max(0, d))
	if r, ok := e.rests[g]; ok {
		e.queue.move(r, max(r.at, due))
		return
	}
	r := &resting{slot: slot{at: due}, grant: g}
	e.rests[g] = r
	e.queue.push(r)
}

// Rested notes that the group ended a rest.
func (e *Elapses) Rested(g fsm.Grant) {
	if r, ok := e.rests[g]; ok {
		delete(e.rests, g)
		e.queue.remove(r)
	}
}

// Reset forgets all rests, before they are noted anew from a state that came as a whole.
func (e *Elapses) Reset() {
	e.rests = make(map[fsm.Grant]*resting)
	e.queue = queue[*resting]{}
}

// Len is how many rests there are.
func (e *Elapses) Len() int { return len(e.rests) }

// Rests returns what is to be proposed at now about rests, at most so many, and when to call it
// again at the latest if nothing else happens: Never without rests. raftLeader is as in
// Expiries.Step.
func (e *Elapses) Rests(now Instant, raftLeader bool, most int) (due []fsm.EndRest, next Instant) {
	lag := e.lag(raftLeader)
	for {
		r, ok := e.queue.first()
		switch {
		case !ok:
			return due, Never
		case r.at.Add(lag) > now:
			return due, r.at.Add(lag)
		case len(due) == most:
			return due, now
		}
		due = append(due, fsm.EndRest(r.grant))
		e.queue.move(r, now.Add(e.retry))
	}
}

// Turns returns what is to be proposed at now about Once keys, and when to call it again at the
// latest: Never without keys. classes are all that there are in the state now: a turn that this
// table did not know is taken for new. Only the raft leader sweeps.
func (e *Elapses) Turns(now Instant, raftLeader bool, classes []fsm.Class) (due []fsm.Command, next Instant) {
	next = Never
	if len(classes) == 0 {
		clear(e.turns)
		return nil, next
	}
	for _, k := range classes {
		last, ok := e.turns[k.Keep]
		if !ok || last.index != k.Last {
			last = turned{k.Last, now}
		}
		at := last.at.Add(fsm.OncePeriod(k.Keep)).Add(e.lag(raftLeader))
		if at <= now {
			due = append(due, fsm.Turn{Keep: k.Keep, Last: k.Last})
			last.at = last.at.Add(now.Sub(at) + e.retry) // also after a long pause: one at a time
			at = now.Add(e.retry)
		}
		e.turns[k.Keep] = last
		next = min(next, at)
		if k.Over != 0 && raftLeader {
			due = append(due, fsm.Sweep{Keep: k.Keep, Upto: k.Over})
			next = min(next, now.Add(sweepPause))
		}
	}
	return due, next
}

// Continues returns whether the next step of what has ended is to be proposed at now, and when to
// call it again at the latest: Never if nothing is left. last and left are what the state says now.
func (e *Elapses) Continues(now Instant, raftLeader bool, last uint64, left bool) (due bool, next Instant) {
	if !left {
		e.step = nil
		return false, Never
	}
	if e.step == nil || e.step.index != last {
		e.step = &turned{last, now}
	}
	at := e.step.at.Add(e.lag(raftLeader))
	if at > now {
		return false, at
	}
	e.step.at = now.Add(e.retry)
	return true, e.step.at.Add(e.lag(raftLeader))
}

func (e *Elapses) lag(raftLeader bool) time.Duration {
	if raftLeader {
		return 0
	}
	return e.stagger
}
