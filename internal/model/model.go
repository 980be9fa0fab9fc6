// Package model runs the passive core of Holdfast, fsm, internal/lease and internal/session, as whole fleets in one goroutine:
// a model of Raft, of the network, of the nodes' clocks and processes, and of callers that work on a
// resource. Every decision comes from a Plan and every Plan from a seed, so a run can be repeated bit by
// bit, and a Plan that breaks a promise can be made smaller until a person can read its trace.
//
//	plan.go, random.go   what decides a run; random plans
//	world.go     true time and what happens next
//	clock.go     what a node's clock shows
//	network.go   messages, faults of links
//	faults.go    faults of nodes
//	raft.go, entries.go             the model of Raft
//	replica.go   applying the log, snapshots, restarts
//	keeper.go, propose.go   what the root package does around fsm and internal/session, without its goroutines
//	elapse.go    what it does around rests and Once keys
//	call.go, hold.go   callers, and the resource that they work on
//	sound.go     what must hold of a node's side of its sessions
//	once.go, lead.go   what they do as runners of Once keys, candidates and writers of values
//	fold.go      callers that follow the events of a replica
//	book.go, account.go, kinds.go   the invariants of the log: a second, independent account of every lock
//	watch.go     the invariants of true time
//	heal.go      the end of all faults, and what must work again
//	shrink.go, trace.go   smaller plans, and what a person reads
//
// What is modelled here and not the product's own code: everything but fsm, internal/lease, internal/session and fence.
package model

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/history"
)

// Violation is a broken promise.
type Violation struct {
	At   time.Duration // true time
	Rule string
	Text string
}

// String is the violation in one line.
func (v Violation) String() string {
	return fmt.Sprintf("%.6fs: %s: %s", v.At.Seconds(), v.Rule, v.Text)
}

// Result is what a run came to.
type Result struct {
	Violation *Violation // the first; nil: none
	Stats     Stats
	Digest    uint64   // of all that happened: equal plans make equal digests
	Trace     []string // with Traced
	History   []history.Event
}

// Stats are the figures of one run or of many.
type Stats struct {
	Runs       int
	Simulated  time.Duration // true time, faults and the time after them
	Steps      uint64        // things that happened: messages, timers, calls
	Applied    uint64        // commands carried out by state machines, on all replicas
	Commands   uint64        // entries of the logs, each counted once
	Together   uint64        // commands that travelled with others in one
	Checks     uint64        // of Machine.Check and of snapshots against the others'
	Calls      uint64        // of Acquire and TryAcquire
	Grants     uint64        // that a caller heard of
	Expired    uint64        // sessions that the group expired
	Leaders    uint64        // raft leaders elected
	Snapshots  uint64        // installed on a replica that lagged behind
	Restarts   uint64
	Faults     uint64
	Unknown    uint64 // attempts whose outcome was not learnt
	Writes     uint64 // to the fenced and to the unfenced resource, each
	LostWrites uint64 // updates that the unfenced resource lost
	Refused    uint64 // stale writes that the guard of the fenced resource refused
	Sets       uint64 // grants of several names at once
	Rests      uint64 // places that stayed taken and are free again
	Begun      uint64 // runs of Once keys
	Finished   uint64 // of them, as their callers heard
	Forgotten  uint64 // Once keys
	Elections  uint64 // leaders elected
	Campaigns  uint64 // again, after a loss
	Written    uint64 // values, by their holders
	Looks      uint64 // at who holds a lock and its value
	Folds      uint64 // states compared with what events made of an earlier one
	Resyncs    uint64 // after events were missed
	Late       history.Histogram
	LateRests  history.Histogram
	LateKeys   history.Histogram
	Resumed    time.Duration // longest time until every node served again after the faults
}

// Add adds the figures of another run.
func (s *Stats) Add(o Stats) {
	s.Runs += o.Runs
	s.Simulated += o.Simulated
	s.Resumed = max(s.Resumed, o.Resumed)
	s.Late.Merge(&o.Late)
	s.LateRests.Merge(&o.LateRests)
	s.LateKeys.Merge(&o.LateKeys)
	for _, f := range []struct{ to, from *uint64 }{
		{&s.Steps, &o.Steps}, {&s.Applied, &o.Applied}, {&s.Commands, &o.Commands}, {&s.Checks, &o.Checks},
		{&s.Calls, &o.Calls}, {&s.Grants, &o.Grants}, {&s.Expired, &o.Expired}, {&s.Leaders, &o.Leaders},
		{&s.Snapshots, &o.Snapshots}, {&s.Restarts, &o.Restarts}, {&s.Faults, &o.Faults}, {&s.Unknown, &o.Unknown},
		{&s.Writes, &o.Writes}, {&s.LostWrites, &o.LostWrites}, {&s.Refused, &o.Refused},
		{&s.Sets, &o.Sets}, {&s.Rests, &o.Rests}, {&s.Begun, &o.Begun}, {&s.Finished, &o.Finished}, {&s.Forgotten, &o.Forgotten},
		{&s.Elections, &o.Elections}, {&s.Campaigns, &o.Campaigns}, {&s.Written, &o.Written}, {&s.Looks, &o.Looks},
		{&s.Folds, &o.Folds}, {&s.Resyncs, &o.Resyncs}, {&s.Together, &o.Together},
	} {
		*f.to += *f.from
	}
}

// Toothless says what was missing from some runs that would have let them find something; "" if nothing was.
// The figures are those of at least some dozens of runs.
func (s *Stats) Toothless() string {
	for _, need := range []struct {
		what string
		n    uint64
		min  int
	}{
		{"calls", s.Calls, 20 * s.Runs}, {"grants", s.Grants, 5 * s.Runs}, {"raft leaders", s.Leaders, s.Runs + s.Runs/2},
		{"expired sessions", s.Expired, 1 + s.Runs/10}, {"restarts", s.Restarts, 1 + s.Runs/10},
		{"snapshots installed", s.Snapshots, 1}, {"unknown outcomes", s.Unknown, s.Runs},
		{"grants of sets", s.Sets, s.Runs / 2}, {"rests that are over", s.Rests, s.Runs / 2},
		{"runs of Once keys", s.Begun, 2 * s.Runs}, {"Once keys finished", s.Finished, s.Runs}, {"Once keys forgotten", s.Forgotten, s.Runs},
		{"leaders elected", s.Elections, s.Runs}, {"campaigns after a loss", s.Campaigns, 1 + s.Runs/50},
		{"values written", s.Written, s.Runs}, {"looks at who holds", s.Looks, s.Runs},
		{"commands that travelled together", s.Together, 5 * s.Runs},
		{"states folded from events", s.Folds, 10 * s.Runs}, {"states read anew after missed events", s.Resyncs, s.Runs / 2},
		{"updates lost by the unfenced resource", s.LostWrites, 1}, {"stale writes refused", s.Refused, 1},
	} {
		if need.n < uint64(need.min) {
			return fmt.Sprintf("%d %s in %d runs, at least %d wanted", need.n, need.what, s.Runs, need.min)
		}
	}
	return ""
}

// Option changes how a plan is run, not what happens.
type Option uint8

// Traced keeps the trace of a run, which costs time.
const Traced Option = 1

// Run carries out a plan.
func Run(p Plan, opts ...Option) Result {
	w := newWorld(p)
	for _, o := range opts {
		if o == Traced {
			w.trace = &trace{}
		}
	}
	w.run()
	r := Result{Violation: w.fail, Stats: w.stats, Digest: w.digest, History: w.history}
	if w.trace != nil {
		r.Trace = w.trace.lines
	}
	return r
}
