// Package health decides whether a node is ill: its process runs, and what it asks of its group or
// of its disk gets no answer. It is passive: internal/node polls it, and time is an argument. What
// must hold:
//
//	I1  a node is ill only after its process ran for the patience without a break: a process that was
//	    stopped or starved has itself to blame, and a poll that comes late begins the time again
//	I2  a node is well again only after the patience without a sign of illness, nor a late poll
//	I3  without a raft leader nothing can be answered, and that alone is no illness: the loss of the
//	    majority is reported apart
package health

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/lease"
)

// Signs are what a node sees of itself at a poll.
type Signs struct {
	// Unanswered is for how long nothing has been answered of what the replica was given to propose
	// or to read; 0: nothing waits for an answer. Time in a queue before that does not count.
	Unanswered time.Duration
	Writing    time.Duration // for how long a write of the log has been under way; 0: none is
	Leader     uint64        // the term of the raft leader; 0: none is known
	Leads      bool          // this replica is the raft leader
	// Last and Committed are the ends of the log and of its committed part.
	Last, Committed uint64
}

// Cause says what of a node is ill.
type Cause uint8

// Causes.
const (
	None       Cause = iota
	Disk             // a write of the log does not return
	Stalled          // this raft leader commits nothing of what is in its log
	Mute             // nothing is answered
	Leaderless       // nothing is answered, since there is no raft leader: no illness, but no node serves so
)

// Illness is what keeps a node from serving, and for how long. The zero value is nothing.
type Illness struct {
	Cause Cause
	Leads bool // the node is raft leader
	For   time.Duration
}

// String is the illness in words, "" for nothing.
func (i Illness) String() string {
	seconds := max(time.Second, i.For.Truncate(time.Second)) / time.Second
	switch {
	case i.Cause == Disk:
		return fmt.Sprintf("the disk has not finished a write for %d s", seconds)
	case i.Cause == Stalled:
		return fmt.Sprintf("this raft leader has committed nothing for %d s", seconds)
	case i.Cause == Mute && i.Leads:
		return fmt.Sprintf("no answer from the other voters for %d s", seconds)
	case i.Cause == Mute:
		return fmt.Sprintf("no answer from the raft leader for %d s", seconds)
	case i.Cause == Leaderless:
		return fmt.Sprintf("no answer from any raft leader for %d s", seconds)
	}
	return ""
}

// pollsInPatience is how many polls a patience has.
const pollsInPatience = 5

// Monitor judges one node. It is made by New, and is for one goroutine.
type Monitor struct {
	patience time.Duration
	polled   bool
	last     lease.Instant // poll
	ran      lease.Instant // since when each poll came in time
	progress lease.Instant // of this raft leader's commits, or there was nothing to commit
	sound    lease.Instant // since when there is no sign of illness
	waited   time.Duration // in which a raft leader was known and did not answer
	term     uint64        // of that
	signs    Signs         // of the last poll
	ill      bool
	illness  Illness // the last that was seen
}

// New returns the monitor of a node that is well.
func New(patience time.Duration) *Monitor { return &Monitor{patience: patience} }

// Pause is the time between two polls.
func (m *Monitor) Pause() time.Duration { return m.patience / pollsInPatience }

// Poll takes the signs of now. It returns what keeps the node from serving, and whether it is ill: a
// node whose signs are gone stays ill for a while.
func (m *Monitor) Poll(now lease.Instant, s Signs) (illness Illness, ill bool) {
	if !m.polled || now-m.last > lease.Instant(m.Pause()*3/2) {
		m.ran, m.sound = now, now
	}
	if !m.polled || !s.Leads || s.Last <= s.Committed || s.Committed != m.signs.Committed {
		m.progress = now
	}
	m.wait(now, s)
	m.polled, m.last, m.signs = true, now, s

	found := m.find(now, s)
	if found.Cause != None || s.Leader == 0 || s.Unanswered >= m.patience {
		m.sound = now
	}
	switch {
	case found.Cause != None:
		m.ill, m.illness = true, found
	case m.ill && now-m.sound >= lease.Instant(m.patience):
		m.ill, m.illness = false, Illness{}
	case !m.ill && m.long(now, s.Unanswered):
		return Illness{Cause: Leaderless, For: s.Unanswered}, false
	}
	return m.illness, m.ill
}

// wait counts the time in which a raft leader was known and did not answer. It counts from the
// beginning with each answer, and with another raft leader, which is given what the last one lost.
// A node that hears the same one again after a while has waited all along.
func (m *Monitor) wait(now lease.Instant, s Signs) {
	switch {
	case s.Unanswered == 0, s.Unanswered < m.signs.Unanswered:
		m.waited = 0
	case s.Leader != 0 && s.Leader != m.term:
		m.term, m.waited = s.Leader, 0
	case s.Leader != 0 && m.signs.Leader != 0:
		m.waited += now.Sub(m.last)
	case s.Leader != 0: // it is heard again: it has two polls to answer
		m.waited = max(m.waited, min(s.Unanswered, m.patience)-2*m.Pause())
	}
}

// long reports whether something has waited for the patience, and the process ran meanwhile.
func (m *Monitor) long(now lease.Instant, age time.Duration) bool {
	return min(age, now.Sub(m.ran)) >= m.patience
}

// find is the illness that the signs show.
func (m *Monitor) find(now lease.Instant, s Signs) Illness {
	stalled := now.Sub(m.progress)
	switch {
	case m.long(now, s.Writing):
		return Illness{Cause: Disk, Leads: s.Leads, For: s.Writing}
	case m.long(now, stalled):
		return Illness{Cause: Stalled, Leads: true, For: stalled}
	case m.long(now, min(s.Unanswered, m.waited)):
		return Illness{Cause: Mute, Leads: s.Leads, For: s.Unanswered}
	}
	return Illness{}
}
