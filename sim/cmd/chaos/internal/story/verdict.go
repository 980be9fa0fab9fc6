package story

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/sim/internal/history"
	"github.com/holdfast-go/holdfast/sim/internal/workload"
)

// LedgerLock is the lock of the shared resource.
const LedgerLock = "ledger"

// The bounds of a run, beside the TTL. The first two are those of shared/design.md L2 and L3 at
// default timing; the others allow for a machine that runs more processes than it has processors.
const (
	LateMax     = 2 * time.Second
	ResumeMax   = 20 * time.Second
	HealMax     = 60 * time.Second // after the faults every node is ready, and failed voters have been replaced, which takes 30 s
	ServeMax    = 5 * time.Second  // a fit node among a fit majority is served again, whoever was raft leader
	majorityMin = 10               // per cent of the time: order and lateness are demanded only then
	answerMax   = 500 * time.Millisecond
	driftMax    = 0.01                 // that of the nodes' default
	clockMax    = 2 * time.Millisecond // what two readings of one machine's clocks may differ by
)

// Verdict is what a run has shown.
type Verdict struct {
	Run        Run
	Lines      []Line
	History    []history.Event
	Violations []history.Violation
	Vacuous    []string // why the run is vacuous; empty: it is not
	Figures    Figures
	Recovery   map[int]time.Duration // by node: from the end of the faults until it served
}

// Figures count what happened.
type Figures struct {
	Over                              time.Duration // when all faults had ended; 0: never
	Took                              time.Duration // until nothing was asked of the processes but to end
	Seen                              history.Figures
	Checkpoints                       int // written over the one before
	Faults                            map[string]int
	Terms                             int // raft leaders in office, as far as they said so themselves
	Deaths                            int // processes that ended
	WellShare, QuorumShare            float64
	Healed                            time.Duration // from the end of the faults until every node had answered that it is ready; negative: never
	Unserved                          time.Duration // the longest that a fit node among a fit majority was not served
	Stalled                           time.Duration // of all processes together, by SIGSTOP or for want of processor and disk
	Fenced, Unfenced                  int           // writes to the two ledgers
	FencedLost, UnfencedLost, Refused int
	ShutOut                           int // holders with valid leases whose writes were refused beside a recovered group
	FoundOut                          int // nodes that ended on disks that were put back
}

// FaultsTotal is the number of faults.
func (f Figures) FaultsTotal() (n int) {
	for _, c := range f.Faults {
		n += c
	}
	return n
}

func violation(rule string, at time.Duration, lock, format string, args ...any) history.Violation {
	return history.Violation{Rule: rule, At: at, Lock: lock, Text: fmt.Sprintf(format, args...)}
}

// Judge says what a record and the two ledgers show.
func Judge(lines []Line, guarded, unguarded []Entry) (Verdict, error) {
	v := Verdict{Lines: lines, Recovery: make(map[int]time.Duration)}
	for _, l := range lines {
		if l.Run != nil {
			v.Run = *l.Run
		}
	}
	if v.Run.Nodes == 0 {
		return v, fmt.Errorf("the record does not say what was asked for")
	}
	v.History = Merge(lines)
	v.Violations = history.Check(v.History, history.Bounds{
		TTL: v.Run.TTL, Late: LateMax, Answer: answerMax, Resume: ResumeMax, Drift: driftMax, Clock: clockMax, Client: v.Run.MayBeFar,
	})
	v.Violations = append(v.Violations, fenced(guarded)...)
	v.Violations = append(v.Violations, workload.Checkpoints(v.History)...)
	for _, l := range lines {
		if l.Kind == KindWrong {
			v.Violations = append(v.Violations, violation("nothing fails by itself", l.To, "", "node %d: %s", l.Node, l.Text))
		}
	}
	v.unserved()
	slices.SortStableFunc(v.Violations, func(a, b history.Violation) int { return cmp.Compare(a.At, b.At) })
	v.count(guarded, unguarded)
	v.recovery()
	v.Vacuous = v.vacuous()
	return v, nil
}

// healed returns how long after the faults every node had answered that it is ready; negative:
// never.
func (v *Verdict) healed() (most time.Duration) {
	for i := range v.Run.Nodes {
		first := slices.IndexFunc(v.Lines, func(l Line) bool {
			return l.Status != nil && l.Node == i && l.Status.Ready && l.From >= v.Figures.Over
		})
		if first < 0 || v.Figures.Over == 0 {
			return -1
		}
		most = max(most, v.Lines[first].To-v.Figures.Over)
	}
	return most
}

func (v *Verdict) unserved() {
	end := v.took()
	_, all := health(v.Lines)
	for _, u := range all {
		long := min(u.To, end) - u.From
		v.Figures.Unserved = max(v.Figures.Unserved, long)
		if long > ServeMax {
			v.Violations = append(v.Violations, violation("a fit majority serves", u.From, "",
				"node %d was not served for %v", u.Node, long))
		}
	}
}

func (v *Verdict) count(guarded, unguarded []Entry) {
	f := &v.Figures
	f.Faults = make(map[string]int)
	f.Fenced, f.Unfenced, f.FencedLost, f.UnfencedLost = len(guarded), len(unguarded), Lost(guarded), Lost(unguarded)
	f.Took, f.Seen = v.took(), history.Measure(v.History)
	for _, e := range v.History {
		switch {
		case e.Kind == history.Over:
			f.Over = e.At
		case e.Kind == history.Done && e.OK && e.Lock == workload.Checkpoint:
			f.Checkpoints++
		}
	}
	terms := make(map[string]bool)
	for _, l := range v.Lines {
		if s := l.Status; s != nil && s.RaftLeader != "" && s.RaftLeader == s.ID {
			terms[fmt.Sprint(l.Node, s.Term)] = true
		}
		switch {
		case l.Kind == KindFault:
			f.Faults[l.Fault.Name]++
		case l.Kind == KindExit && l.To <= f.Took:
			f.Deaths++
		case l.Kind == KindWrite && l.Text == Stale:
			f.Refused++
		case strings.HasPrefix(l.Text, LateValid):
			f.ShutOut++
		case l.Text == LateEnded:
			f.FoundOut++
		}
	}
	for _, spans := range stops(v.Lines) {
		for _, s := range union(spans) {
			f.Stalled += s.to - s.from
		}
	}
	f.Terms = len(terms)
	f.Healed = v.healed()
	f.WellShare, f.QuorumShare = v.shares()
}

// took is when the last order but that to end had been carried out, or else the end of the record.
func (v *Verdict) took() (end time.Duration) {
	for _, l := range v.Lines {
		if l.Text == Drained || l.Text == Settled {
			end = l.To
		}
	}
	if n := len(v.History); end == 0 && n > 0 {
		end = v.History[n-1].At
	}
	return end
}

// Rested is the note of a process whose callers have finished at the end.
const Rested = "rested"

// Drained is the note of a process that has taken every lock at the end.
const Drained = "drained"

// Settled is the note of a process whose watcher knows what the locks are, when nothing happens any
// more.
const Settled = "settled"

// Stale is the text of a write that the guard refused.
const Stale = "stale"

// The notes of processes that were told to write to the ledger once a group was recovered beside
// theirs begin with LateWrite, and a token follows. A process that was not run for a while says
// LateStale alone. Those on a disk that was put back say the last three, too.
const (
	LateWrite   = "late write: "
	LateWritten = LateWrite + "written"
	LateStale   = LateWrite + Stale
	LateValid   = LateStale + ", and the lease is valid"
	LateEnded   = LateWrite + "the node has ended: its disk is no replica's of this group"
	LateWaits   = LateWrite + "the node is not ready, and says for what it waits"
	LateSilent  = LateWrite + "the node is not ready, and says nothing"
)

func (v *Verdict) shares() (well, quorum float64) {
	since := make(map[int]time.Duration)
	var sum, majority, from time.Duration
	ok, end := false, v.Figures.Took
	for _, e := range v.History {
		if e.At > end {
			break
		}
		switch e.Kind {
		case history.Well:
			since[e.Node] = e.At
		case history.Ill:
			sum += e.At - since[e.Node]
			delete(since, e.Node)
		case history.Quorum:
			if ok {
				majority += e.At - from
			}
			ok, from = e.OK, e.At
		}
	}
	for _, at := range since {
		sum += end - at
	}
	if ok {
		majority += end - from
	}
	if end == 0 {
		return 0, 0
	}
	return float64(sum) / float64(end) / float64(v.Run.Nodes), float64(majority) / float64(end)
}

func (v *Verdict) recovery() {
	for _, e := range v.History {
		if _, ok := v.Recovery[e.Node]; e.Kind == history.Served && !ok && v.Figures.Over > 0 {
			v.Recovery[e.Node] = e.At - v.Figures.Over
		}
	}
}

func (v *Verdict) vacuous() (why []string) {
	f := v.Figures
	seconds := int(v.Run.Duration / time.Second)
	want := func(what string, n, least int) {
		if n < least {
			why = append(why, fmt.Sprintf("%s: %d, at least %d", what, n, least))
		}
	}
	part := func(of int) int { return max(1, seconds/of) }
	why = append(why, f.Seen.Lacks(history.Figures{
		Grants: 2 * seconds, Expired: 1, Verified: 1, Looked: 1, Runs: 1, Wholes: part(10), Tenures: part(10), Observed: part(5),
		MinHolds: part(20), Delays: part(60), Freed: part(60), Told: part(1), Longs: part(20),
	})...)
	want("checkpoints", f.Checkpoints, part(10))
	want("faults", f.FaultsTotal(), max(3, seconds/10))
	want("raft leaders", f.Terms, 2)
	want("updates lost without a guard", f.UnfencedLost, 1)
	want("stale writes refused", f.Refused, 1)
	want("per cent of the time in which well nodes were a majority", int(100*f.QuorumShare), majorityMin)
	want("nodes that served after the faults", len(v.Recovery), v.Run.Nodes)
	if !v.Run.Diskless {
		want("holders that were shut out beside a recovered group", f.ShutOut, 1)
	}
	return why
}

// OK reports whether the run was not vacuous and found nothing.
func (v *Verdict) OK() bool { return len(v.Violations) == 0 && len(v.Vacuous) == 0 }

// Names of faults in the order of their number, for people.
func (f Figures) Names() string {
	var names []string
	for name := range f.Faults {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(f.Faults[b], f.Faults[a]), strings.Compare(a, b))
	})
	for i, name := range names {
		names[i] = fmt.Sprintf("%s %d", name, f.Faults[name])
	}
	return strings.Join(names, ", ")
}
