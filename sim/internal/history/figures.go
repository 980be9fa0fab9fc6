package history

import (
	"fmt"
	"time"
)

// Figures are a history in numbers: how much was tried, and how well it went.
type Figures struct {
	Calls, Grants, Refused int
	Expired                int // leases that ended for want of renewal
	Verified, Looked, Sets int
	Runs                   int // of Once keys
	Wholes                 int // grants of sets
	Rests                  int // grants whose place stays taken for a while: a minimum hold time or a lock delay
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
		case Ended:
			if e.Cause == CauseExpired {
				f.Expired++
			}
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
	f.Leaders = max(0, f.Leaders-1)
	f.Resumed = resumed(h)
	return f
}

// kinds counts what a grant is.
func (f *Figures) kinds(g *grant) {
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

// resumed is the time from Over until the last node served.
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

// count is one of the numbers, and how much of it is wanted.
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
		{"grants freed by force", &f.Freed, least.Freed}, {"grants with a TTL of their own", &f.Longs, least.Longs},
		{"nodes revoked", &f.Revoked, least.Revoked}, {"reads of leaders", &f.LeaderReads, least.LeaderReads},
		{"leaders observed", &f.Observed, least.Observed}, {"changes told", &f.Told, least.Told}, {"gaps told", &f.Resyncs, least.Resyncs},
		{"nodes that fell ill", &f.Ills, least.Ills}, {"changes of raft leader", &f.Leaders, least.Leaders},
	}
}

// Shortfall says what there is too little of to have shown a violation; "" if nothing is. A zero in
// least asks for nothing; Late and Resumed are not looked at.
func (f Figures) Shortfall(least Figures) string {
	for _, c := range f.counts(least) {
		if *c.n < c.least {
			return fmt.Sprintf("%d %s, at least %d wanted", *c.n, c.what, c.least)
		}
	}
	return ""
}

// Shortfall says what a history lacks: see Figures.Shortfall.
func Shortfall(h []Event, least Figures) string { return Measure(h).Shortfall(least) }
