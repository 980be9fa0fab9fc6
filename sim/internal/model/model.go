// Package model runs the passive core of Holdfast, fsm, internal/lease, internal/session, the table
// of internal/expiry and internal/autopilot, as whole fleets in one goroutine: a model of Raft, of the network, of gossip, of the nodes' clocks and processes, and of callers that
// work on a resource. Every decision comes from a Plan and every Plan from a seed, so a run can be
// repeated bit by bit, and a Plan that breaks a promise can be made smaller until a person can read
// its trace.
//
//	plan.go, random.go   what decides a run; random plans
//	world.go     true time, the nodes' clocks, and what happens next
//	node.go      a machine, its process, and what each begins with
//	network.go   messages, faults of links, and what nodes see of each other by gossip
//	faults.go    faults of nodes
//	recast.go    those of machines that stand still, of disks that hang, and of what is large
//	clocks.go    clocks that stand still with their machine, and who finds that out
//	raft.go, entries.go  the model of Raft, with a membership that changes by one replica at a time
//	pilot.go     carries out what the planner of the membership says, as internal/node does
//	life.go      removal, the next life as a replica, disks that are opened elsewhere, operators
//	bound.go     operators who set quotas
//	recover.go   operators who recover the group too early
//	reshape.go   the membership, deaths, leaves, and its invariants
//	replica.go   applying the log, snapshots, restarts
//	keeper.go, propose.go   what the root package does around fsm and internal/session, without its goroutines
//	call.go, tenure.go   callers, and the resource that they work on
//	lead.go      what callers do as candidates, writers of values and runners of Once keys
//	account.go   when what has an end began, and which grants there were, by the log
//	watch.go     the invariants of true time, and of a node's side of its sessions
//	heal.go      the end of all faults, and what must work again
//	shrink.go    smaller plans, and what a person reads
//
// What is modelled here and not the product's own code: everything but fsm, internal/lease,
// internal/session, internal/batch, internal/retry, internal/autopilot, the table of
// internal/expiry and fence.
package model

import (
	"fmt"
	"reflect"
	"time"

	"github.com/holdfast-go/holdfast/sim/internal/history"
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
	Removed    uint64 // voters that were silent for long, and that the planner removed
	Promoted   uint64 // standbys that it made voters
	Excess     uint64 // standbys that it removed since more replicas followed than should
	LetGo      uint64 // nodes that it removed as they left
	Void       uint64 // changes of the membership that came when it was another
	Returned   uint64 // nodes that came back in another life as a replica, and caught up
	Recovered  uint64 // states that an operator recovered while others lived
	Died       uint64 // nodes that were gone for good with their disks
	Replaced   uint64 // of these, those whose replicas were removed
	Parted     uint64 // times that gossip and Raft were cut apart
	Misled     uint64 // leases that outlived their time as their machine had stood still with its clocks
	Stopped    uint64 // times that a process found out that its clock had
	Large      uint64 // messages that were lost as they were large
	Stuck      uint64 // voters that were heard without progress for long, and that the planner removed
	Hung       uint64 // disks that hung as something was to be written
	Faults     uint64
	Unknown    uint64 // attempts whose outcome was not learnt
	Writes     uint64 // to the fenced and to the unfenced resource, each
	LostWrites uint64 // updates that the unfenced resource lost
	Refused    uint64 // stale writes that the guard of the fenced resource refused
	Sets       uint64 // grants of several names at once
	Moved      uint64 // disks that were opened elsewhere while their processes lived on
	Outlived   uint64 // of those, with a valid lease
	OverQuota  uint64 // calls and writes of values that a quota refused
	Revoked    uint64 // sessions that an operator ended with all that their node held
	Proven     uint64 // sessions ended as the next process proved that theirs was dead
	Rests      uint64 // places that stayed taken and are free again
	Begun      uint64 // runs of Once keys
	Finished   uint64 // of them, as their callers heard
	Forgotten  uint64 // Once keys
	Elections  uint64 // leaders elected
	Campaigns  uint64 // again, after a loss
	Written    uint64 // values, by their holders
	Looks      uint64 // at who holds a lock and its value
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
	to, from := reflect.ValueOf(s).Elem(), reflect.ValueOf(o)
	for i := range to.NumField() {
		if to.Field(i).Kind() == reflect.Uint64 {
			to.Field(i).SetUint(to.Field(i).Uint() + from.Field(i).Uint())
		}
	}
}

// Shortfall says what was missing from some runs that would have let them find something; "" if
// nothing was. The figures are those of at least some dozens of runs.
func (s *Stats) Shortfall() string {
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
		{"disks opened elsewhere", s.Moved, s.Runs / 4}, {"leases of processes whose disk was opened elsewhere", s.Outlived, 1 + s.Runs/20},
		{"sessions of processes that are proved dead", s.Proven, s.Runs / 4}, {"sessions that an operator revoked", s.Revoked, 1 + s.Runs/20},
		{"refusals of a quota", s.OverQuota, s.Runs},
		{"leases that outlived their time with their holder's clocks", s.Misled, s.Runs / 60},
		{"clocks found to have stood still", s.Stopped, 1 + s.Runs/20}, {"disks that hung", s.Hung, 1 + s.Runs/20},
		{"messages lost as they were large", s.Large, s.Runs}, {"voters without progress removed", s.Stuck, s.Runs / 100},
		{"silent voters removed", s.Removed, 1 + s.Runs/20}, {"standbys promoted", s.Promoted, 1 + s.Runs/20}, {"nodes let go", s.LetGo, 1 + s.Runs/40},
		{"standbys too many removed", s.Excess, 1 + s.Runs/40},
		{"nodes back in another life", s.Returned, 1 + s.Runs/40}, {"dead nodes replaced", s.Replaced, 1 + s.Runs/40},
		{"times gossip and Raft were cut apart", s.Parted, s.Runs / 2}, {"changes of the membership that were void", s.Void, 1},
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
