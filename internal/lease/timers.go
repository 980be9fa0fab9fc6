package lease

import (
	"time"

	"github.com/holdfast-go/holdfast/fsm"
)

// Timers is a replica's table of times that belong to no session: rests (places that stay taken
// after their grant), the periods of Once keys, and the steps of large ends. As with Expiries every
// replica times them. Invariants:
//
//	L1 a rest is not due before its time has passed since this replica applied its beginning
//	L2 a turn is not due before a period has passed since this replica learned of the one before
//	L3 a step is due when this replica learns of the one before
//	L4 each is due then on the raft leader, stagger later elsewhere, and again every retry until it is done
//	L5 two sweeps of a class are at least sweepPause apart, however often TurnsDue is called
type Timers struct {
	stagger, retry time.Duration
	rests          map[fsm.Grant]*restTimer
	queue          queue[*restTimer]
	turns          map[time.Duration]lastSeen // by the period for which keys are kept
	step           *lastSeen                  // the last step of an unfinished end; nil without one
	swept          Instant                    // when sweeps were due last
}

// restTimer is one rest. Its slot is the raft leader's next proposal to end it.
type restTimer struct {
	slot
	grant fsm.Grant
}

// lastSeen is the last turn of a class of Once keys, or the last step, and the time when this
// replica saw it.
type lastSeen struct {
	index uint64
	at    Instant
}

// sweepPause spreads the deletion of Once keys.
const sweepPause = 50 * time.Millisecond

// NewTimers returns an empty table. stagger and retry are as for NewExpiries.
func NewTimers(stagger, retry time.Duration) *Timers {
	t := &Timers{stagger: max(0, stagger), retry: max(time.Millisecond, retry), turns: make(map[time.Duration]lastSeen), swept: -Instant(sweepPause)}
	t.Reset()
	return t
}

// RestBegan notes that the place of a grant stays taken for d. applied must be read from the clock
// not before the entry reached this replica; after a restart or a snapshot it is the time of the
// restore: late, never early.
func (t *Timers) RestBegan(g fsm.Grant, d time.Duration, applied Instant) {
	due := applied.Add(max(0, d))
	if r, ok := t.rests[g]; ok {
		t.queue.move(r, max(r.at, due))
		return
	}
	r := &restTimer{slot: slot{at: due}, grant: g}
	t.rests[g] = r
	t.queue.push(r)
}

// RestEnded notes that the group ended a rest.
func (t *Timers) RestEnded(g fsm.Grant) {
	if r, ok := t.rests[g]; ok {
		delete(t.rests, g)
		t.queue.remove(r)
	}
}

// Reset forgets all rests, before the caller notes those of a restored state.
func (t *Timers) Reset() {
	t.rests = make(map[fsm.Grant]*restTimer)
	t.queue = queue[*restTimer]{}
}

// Len is the count of rests.
func (t *Timers) Len() int { return len(t.rests) }

// RestsDue returns the ends of rests to propose at now, at most so many, and the latest time of the
// next call: Never without rests. raftLeader is as in Expiries.Step.
func (t *Timers) RestsDue(now Instant, raftLeader bool, most int) (due []fsm.EndRest, next Instant) {
	lag := t.lag(raftLeader)
	for {
		r, ok := t.queue.first()
		switch {
		case !ok:
			return due, Never
		case r.at.Add(lag) > now:
			return due, r.at.Add(lag)
		case len(due) == most:
			return due, now
		}
		due = append(due, fsm.EndRest(r.grant))
		t.queue.move(r, now.Add(t.retry))
	}
}

// TurnsDue returns the commands about Once keys to propose at now, and the latest time of the next
// call: Never without keys. classes are all classes in the present state: a turn unknown to this
// table counts as new. Only the raft leader sweeps.
func (t *Timers) TurnsDue(now Instant, raftLeader bool, classes []fsm.Class) (due []fsm.Command, next Instant) {
	next = Never
	if len(classes) == 0 {
		clear(t.turns)
		return nil, next
	}
	sweeps := raftLeader && t.swept.Add(sweepPause) <= now
	for _, k := range classes {
		last, ok := t.turns[k.Keep]
		if !ok || last.index != k.Last {
			last = lastSeen{k.Last, now}
		}
		at := last.at.Add(fsm.OncePeriod(k.Keep)).Add(t.lag(raftLeader))
		if at <= now {
			due = append(due, fsm.Turn{Keep: k.Keep, Last: k.Last})
			last.at = last.at.Add(now.Sub(at) + t.retry) // one at a time, also after a long pause
			at = now.Add(t.retry)
		}
		t.turns[k.Keep] = last
		next = min(next, at)
		if k.Over == 0 || !raftLeader {
			continue
		}
		if sweeps {
			due = append(due, fsm.Sweep{Keep: k.Keep, Upto: k.Over})
			t.swept = now
		}
		next = min(next, t.swept.Add(sweepPause))
	}
	return due, next
}

// StepDue reports whether the next step of an unfinished end is to be proposed at now, and returns
// the latest time of the next call: Never if nothing is left. last and left are of the present
// state.
func (t *Timers) StepDue(now Instant, raftLeader bool, last uint64, left bool) (due bool, next Instant) {
	if !left {
		t.step = nil
		return false, Never
	}
	if t.step == nil || t.step.index != last {
		t.step = &lastSeen{last, now}
	}
	at := t.step.at.Add(t.lag(raftLeader))
	if at > now {
		return false, at
	}
	t.step.at = now.Add(t.retry)
	return true, t.step.at.Add(t.lag(raftLeader))
}

func (t *Timers) lag(raftLeader bool) time.Duration {
	if raftLeader {
		return 0
	}
	return t.stagger
}
