package history

import (
	"fmt"
	"math/bits"
	"strings"
	"time"
)

// Figures are a history in numbers: how much was tried, and how well it went.
type Figures struct {
	Calls, Grants, Refused int
	Released               int
	Expired                int // leases that ended for want of renewal
	Ended                  int // those that ended otherwise, and were not released
	Verified, Looked, Sets int
	Runs                   int // of Once keys
	Wholes                 int // grants of sets
	Tenures                int // grants to candidates
	Rests                  int // grants whose place stays taken for a while: a minimum hold time or a lock delay
	MinHolds               int // of them, those that were released and had a minimum hold time
	Delays                 int // and those that were lost and had a delay
	Freed                  int // grants that were freed by force
	Longs                  int // grants with a TTL of their own
	Revoked                int // nodes that an operator has revoked
	LeaderReads            int
	Observed               int // times at which an observer was told of a leader or a vacancy
	Told                   int // changes that watchers were told of
	Resyncs                int // gaps that they were told of
	Ills                   int // times at which a node fell ill
	Leaders                int // raft leaders that followed the first one
	// Late is how long after the end of its holder's validity, as far as that was seen, a lock of a
	// holder that did not release it was granted to somebody who waited by then.
	Late Histogram
	// Resumed is the time from the end of all faults until every node had served; 0 if not all did.
	Resumed time.Duration
}

// Measure counts what is in a history.
func Measure(h []Event) (f Figures) {
	all := grants(h)
	asked := make(map[uint64]Event)
	last := make(map[string]*grant) // exclusive, by lock
	joined := make(map[string]bool) // names that sets are had of: who waits may wait for another one
	for _, e := range h {
		switch e.Kind {
		case Asked:
			f.Calls++
			asked[e.Op] = e
			if len(e.Others) > 0 {
				for _, name := range e.Names() {
					joined[name] = true
				}
			}
		case Refused:
			f.Refused++
		case Granted:
			f.Grants++
			g := all[e.Token]
			f.kinds(g)
			if g.Weight < g.Limit || joined[e.Lock] {
				continue
			}
			if p := last[e.Lock]; p != nil && p.release < 0 && p.last >= 0 && asked[e.Op].Wait {
				if due := h[p.last].At + h[p.last].Remaining + p.LockDelay; asked[e.Op].At <= due {
					f.Late.Add(e.At - due)
				}
			}
			last[e.Lock] = g
		case Released:
			f.Released++
			if g := all[e.Token]; g != nil && g.MinHold > 0 {
				f.MinHolds++
			}
		case Ended:
			f.ended(e, all[e.Token])
		default:
			f.other(e)
		}
	}
	f.Leaders = max(0, f.Leaders-1)
	f.Resumed = resumed(h)
	return f
}

func (f *Figures) other(e Event) {
	switch e.Kind {
	case Verified:
		f.Verified++
	case Looked:
		f.Looked++
	case Done:
		f.Sets++
	case Begun:
		f.Runs++
	case Forced:
		if e.OK {
			f.Freed++
		}
	case Revoked:
		if e.OK {
			f.Revoked++
		}
	case Leads:
		f.LeaderReads++
	case Observed:
		f.Observed++
	case Told:
		f.Told++
		if e.Change == ChangeResync {
			f.Resyncs++
		}
	case Ill:
		f.Ills++
	case Led:
		f.Leaders++
	}
}

func (f *Figures) ended(e Event, g *grant) {
	switch e.Cause {
	case CauseReleased:
		return
	case CauseExpired:
		f.Expired++
	default:
		f.Ended++
	}
	if g != nil && g.LockDelay > 0 {
		f.Delays++
	}
}

func (f *Figures) kinds(g *grant) {
	if g.Election {
		f.Tenures++
	}
	if len(g.Others) > 0 {
		f.Wholes++
	}
	if g.TTL > 0 {
		f.Longs++
	}
	if g.MinHold > 0 || g.LockDelay > 0 {
		f.Rests++
	}
}

func resumed(h []Event) (longest time.Duration) {
	over, nodes, served := time.Duration(-1), make(map[int]bool), make(map[int]bool)
	for _, e := range h {
		switch {
		case e.Kind == Well || e.Kind == Ill:
			nodes[e.Node] = true
		case e.Kind == Over:
			over = e.At
		case e.Kind == Served && over >= 0 && !served[e.Node]:
			served[e.Node] = true
			longest = e.At - over
		}
	}
	if over < 0 || len(served) < len(nodes) {
		return 0
	}
	return longest
}

// Merge adds what was counted in another history. Resumed becomes the longer one.
func (f *Figures) Merge(o Figures) {
	mine, others := f.counts(Figures{}), o.counts(Figures{})
	for i := range mine {
		*mine[i].n += *others[i].n
	}
	f.Late.Merge(&o.Late)
	f.Resumed = max(f.Resumed, o.Resumed)
}

type count struct {
	what  string
	n     *int
	least int
}

func (f *Figures) counts(least Figures) []count {
	return []count{
		{"calls", &f.Calls, least.Calls}, {"grants", &f.Grants, least.Grants}, {"refusals", &f.Refused, least.Refused},
		{"leases expired", &f.Expired, least.Expired}, {"tokens verified", &f.Verified, least.Verified},
		{"looks at queues", &f.Looked, least.Looked}, {"values set", &f.Sets, least.Sets}, {"runs", &f.Runs, least.Runs},
		{"grants of sets", &f.Wholes, least.Wholes}, {"grants that rest", &f.Rests, least.Rests},
		{"tenures of leaders", &f.Tenures, least.Tenures}, {"minimum hold times", &f.MinHolds, least.MinHolds},
		{"lock delays", &f.Delays, least.Delays}, {"releases", &f.Released, least.Released}, {"leases ended", &f.Ended, least.Ended},
		{"grants freed by force", &f.Freed, least.Freed}, {"grants with a TTL of their own", &f.Longs, least.Longs},
		{"nodes revoked", &f.Revoked, least.Revoked}, {"reads of leaders", &f.LeaderReads, least.LeaderReads},
		{"leaders observed", &f.Observed, least.Observed}, {"changes told", &f.Told, least.Told}, {"gaps told", &f.Resyncs, least.Resyncs},
		{"nodes that fell ill", &f.Ills, least.Ills}, {"changes of raft leader", &f.Leaders, least.Leaders},
	}
}

// Lacks says all that there is too little of to have shown a violation. A zero in least asks for
// nothing; Late and Resumed are not looked at.
func (f Figures) Lacks(least Figures) (what []string) {
	for _, c := range f.counts(least) {
		if *c.n < c.least {
			what = append(what, fmt.Sprintf("%d %s, at least %d wanted", *c.n, c.what, c.least))
		}
	}
	return what
}

// Shortfall is the first that Lacks says; "" if there is enough.
func (f Figures) Shortfall(least Figures) string {
	if what := f.Lacks(least); len(what) > 0 {
		return what[0]
	}
	return ""
}

// Shortfall says what a history lacks: see Figures.Shortfall.
func Shortfall(h []Event, least Figures) string { return Measure(h).Shortfall(least) }

// Histogram counts durations in buckets that double from a millisecond on. The zero value is empty.
type Histogram struct {
	Buckets [20]uint64 // below 1ms, 2ms, 4ms, …
	Count   uint64
	Max     time.Duration
}

// Add counts one duration; what is below zero counts as zero.
func (h *Histogram) Add(d time.Duration) {
	d = max(0, d)
	h.Buckets[min(bits.Len64(uint64(d/time.Millisecond)), len(h.Buckets)-1)]++
	h.Count++
	h.Max = max(h.Max, d)
}

// Merge adds what another one counted.
func (h *Histogram) Merge(o *Histogram) {
	for i, n := range o.Buckets {
		h.Buckets[i] += n
	}
	h.Count += o.Count
	h.Max = max(h.Max, o.Max)
}

// String is one line: "below 1ms: 3, below 16ms: 2; max 12ms".
func (h *Histogram) String() string {
	var parts []string
	for i, n := range h.Buckets {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("below %v: %d", time.Millisecond<<i, n))
		}
	}
	return fmt.Sprintf("%s; max %v", strings.Join(parts, ", "), h.Max.Round(time.Microsecond))
}
