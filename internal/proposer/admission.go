package proposer

import (
	"container/list"
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/seam"
)

const (
	// CallsMax is how many commands of one kind a node has under way at a time; further ones wait
	// for their turn. They fill two entries of the log (batch.CommandsMax); with more of them each
	// only takes longer.
	CallsMax = 1024
	// proposalsFirst is how many there may be at first.
	proposalsFirst = 64
	// proposalsMin is how few there may always be. What they take tells when the group is quicker
	// again.
	proposalsMin = 16
	// turnsMax is how many calls may wait for their turn.
	turnsMax = 1 << 16
	// silence is how long nothing was answered when the group is taken to be out of reach.
	silence = time.Second
	// paceAnswers is how many answers are timed together for the pace. They come in bursts: the gap
	// before a single one tells nothing, and a pause of a second would pass for a group that
	// answers once a second.
	paceAnswers = 64
)

// Admission lets in as many calls at a time as the group serves in good time, first come, first
// served. With more under way, all of them would come to an answer too late: it would be proposed
// again, or heard by nobody, and the group would be busy in vain. So it takes fewer when answers
// take longer than they should; and a call whose turn or answer would come after its deadline is
// refused at once. While the group is out of reach, a few calls try it, and the others wait.
type Admission struct {
	good time.Duration // an answer in this time is in good time

	mu      sync.Mutex
	under   int           // calls under way
	window  float64       // how many there may be
	cut     time.Time     // when the window was last made smaller
	service time.Duration // what a call takes, on average
	heard   time.Time     // the last answer
	resumed time.Time     // the last answer after a silence
	gap     time.Duration // between two answers while many are under way, on average
	since   time.Time     // since when answers are counted for that; zero: few are under way
	answers int
	queue   list.List // of *turn
	shut    bool
	empty   chan struct{} // closed when shut and none is under way
}

// turn is a call that waits.
type turn struct {
	deadline time.Time // zero: none
	decided  chan bool // capacity 1: whether it is let in
}

func newAdmission(good time.Duration) *Admission {
	return &Admission{good: good, window: proposalsFirst, empty: make(chan struct{})}
}

// enter waits for a turn until ctx ends. It returns a *seam.OverloadError where too many calls are
// the reason that there is none. closed ends the waiting with ErrClosed.
func (a *Admission) enter(ctx context.Context, closed <-chan struct{}) error {
	a.mu.Lock()
	now := time.Now()
	deadline, _ := ctx.Deadline()
	switch {
	case a.queue.Len() == 0 && a.under < a.limit(now) && !a.late(now, deadline, 0):
		a.begin(now)
		a.mu.Unlock()
		return nil
	case a.queue.Len() >= turnsMax || a.late(now, deadline, a.queue.Len()):
		a.mu.Unlock()
		return &seam.OverloadError{}
	}
	t := &turn{deadline: deadline, decided: make(chan bool, 1)}
	place := a.queue.PushBack(t)
	a.mu.Unlock()

	select {
	case in := <-t.decided:
		if !in {
			return &seam.OverloadError{}
		}
		return nil
	case <-ctx.Done():
		if a.leaveQueue(place) {
			return &seam.OverloadError{Ended: ctx.Err()}
		}
		return &seam.UnreachedError{Ended: ctx.Err()}
	case <-closed:
		a.leaveQueue(place)
		return seam.ErrClosed
	}
}

// leaveQueue takes back a turn that is not wanted any more. It reports whether the group was heard
// of lately.
func (a *Admission) leaveQueue(place *list.Element) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	select {
	case in := <-place.Value.(*turn).decided:
		if in {
			a.end(now)
		}
	default:
		a.queue.Remove(place)
	}
	return !a.silent(now)
}

// leave ends a call that was let in then. One that was not answered tells only that it would have
// taken longer.
func (a *Admission) leave(began time.Time, answered bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if answered && a.silent(now) {
		a.resumed, a.service = now, min(a.service, a.good)
	}
	if !began.Before(a.resumed) { // how long the group was out of reach tells nothing of how it serves now
		a.learn(now, now.Sub(began), answered)
	}
	if answered {
		a.heard = now
		a.count(now)
	}
	a.end(now)
}

// learn adapts the window, and what a call takes. The caller holds a.mu.
func (a *Admission) learn(now time.Time, took time.Duration, answered bool) {
	switch {
	case answered && took <= a.good && 2*a.under > int(a.window):
		a.window = min(CallsMax, a.window+16/a.window)
	case took > a.good && now.Sub(a.cut) > a.good:
		a.window, a.cut = max(proposalsMin, a.window*3/4), now
	}
	if answered || took > a.service {
		a.service += (took - a.service) / 16
	}
}

// count notes an answer for the pace. The caller holds a.mu.
func (a *Admission) count(now time.Time) {
	if a.since.IsZero() {
		return
	}
	a.answers++
	if a.answers < paceAnswers {
		return
	}
	gap := now.Sub(a.since) / paceAnswers
	if a.gap == 0 {
		a.gap = gap
	}
	a.gap += (gap - a.gap) / 8
	a.since, a.answers = now, 0
}

// begin gives a place to a call. The caller holds a.mu.
func (a *Admission) begin(now time.Time) {
	a.under++
	if a.under >= proposalsMin && a.since.IsZero() {
		a.since, a.answers = now, 0
	}
}

// end frees the place of a call and lets in who is next. The caller holds a.mu.
func (a *Admission) end(now time.Time) {
	a.under--
	if a.under < proposalsMin && a.queue.Len() == 0 {
		a.since = time.Time{}
	}
	for a.queue.Len() > 0 && a.under < a.limit(now) {
		t := a.queue.Remove(a.queue.Front()).(*turn)
		in := !a.late(now, t.deadline, 0)
		if in {
			a.begin(now)
		}
		t.decided <- in
	}
	if a.shut && a.under == 0 {
		close(a.empty)
	}
}

// drain lets in nobody any more, and waits until those who are in have their answers, or ctx ends.
func (a *Admission) drain(ctx context.Context) {
	a.mu.Lock()
	if !a.shut && a.under == 0 {
		close(a.empty)
	}
	a.shut = true
	a.mu.Unlock()
	select {
	case <-a.empty:
	case <-ctx.Done():
	}
}

// limit is how many calls may be under way. The caller holds a.mu.
func (a *Admission) limit(now time.Time) int {
	switch {
	case a.shut:
		return 0
	case a.silent(now):
		return proposalsMin
	}
	return int(a.window)
}

// late reports whether the answer might come too late for a call with so many before it: twice of
// what it takes on average, as far as that is known from earlier calls, or by the number of those
// under way, whose answers come before. The caller holds a.mu.
func (a *Admission) late(now time.Time, deadline time.Time, ahead int) bool {
	if deadline.IsZero() || a.under < proposalsMin || a.silent(now) {
		return false
	}
	wait, service := time.Duration(ahead)*a.gap, max(a.service, time.Duration(a.under)*a.gap)
	return deadline.Sub(now) < wait+2*service
}

// silent reports whether the group has answered nothing lately. The caller holds a.mu.
func (a *Admission) silent(now time.Time) bool { return now.Sub(a.heard) > silence }

func (a *Admission) waiting() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.queue.Len()
}
