package report

import (
	"cmp"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/sim/cmd/chaos/report/story"
	"github.com/holdfast-go/holdfast/sim/internal/history"
)

// State is what a process is in for a while. Its text is the class of the picture's bars.
type State string

// The states of a process, and what is done to it meanwhile.
const (
	StateDead     State = "dead"     // no process
	StateStarting State = "starting" // has not served yet
	StateUp       State = "up"       // serves
	StateStuck    State = "stuck"    // does not, at the moment
	StateStopped  State = "stopped"  // by SIGSTOP
	StateNetwork  State = "network"  // its network is cut or bad
	StateDisk     State = "disk"     // its disk is full
	StateStall    State = "stall"    // got no processor or disk
	StateLeader   State = "leader"   // is raft leader, as it sees itself
)

// Span is a stretch of time in one state.
type Span struct {
	Node     int
	State    State
	From, To time.Duration
	Text     string
}

// states returns what each process was in, one span after the other.
func states(v story.Verdict) (all []Span) {
	end := v.Figures.Took
	for node := range v.Run.Nodes {
		now := Span{Node: node, State: StateDead}
		turn := func(to State, at time.Duration) {
			if to == now.State {
				return
			}
			if now.To = at; now.To > now.From {
				all = append(all, now)
			}
			now = Span{Node: node, State: to, From: at}
		}
		for _, l := range v.Lines {
			if l.Node != node || l.To > end {
				continue
			}
			switch {
			case l.Kind == story.KindStart:
				turn(StateStarting, l.To)
			case l.Kind == story.KindExit:
				turn(StateDead, l.To)
			case l.Kind != story.KindStatus || now.State == StateDead:
			case l.Status.Served:
				turn(StateUp, l.To)
			case now.State == StateUp:
				turn(StateStuck, l.From)
			}
		}
		turn("", end)
	}
	return all
}

// faultState is what a fault of that name puts a process in, beside what it does to its life.
func faultState(name string) State {
	switch name {
	case "stop", "stop holder":
		return StateStopped
	case "partition", "isolate", "deaf", "mute", "storm", "reset", "no gossip", "no raft", "siege":
		return StateNetwork
	case "full disk":
		return StateDisk
	}
	return ""
}

// faultSpan is one fault from its beginning to its end.
type faultSpan struct {
	story.Fault
	From, To time.Duration
	lane     int
}

// faults returns all faults, each on the first lane that is free.
func faults(v story.Verdict) (all []faultSpan, lanes int) {
	for _, l := range v.Lines {
		switch l.Kind {
		case story.KindFault:
			all = append(all, faultSpan{Fault: *l.Fault, From: l.From, To: v.Figures.Took})
		case story.KindFaultEnd:
			i := slices.IndexFunc(all, func(f faultSpan) bool { return f.ID == l.Fault.ID })
			if i >= 0 {
				all[i].To = l.To
			}
		}
	}
	var free []time.Duration
	for i := range all {
		all[i].lane = lane(&free, all[i].From, all[i].To)
	}
	return all, len(free)
}

// lane finds the first lane that is free at from, and takes it until to.
func lane(free *[]time.Duration, from, to time.Duration) int {
	for i, at := range *free {
		if at <= from {
			(*free)[i] = to
			return i
		}
	}
	*free = append(*free, to)
	return len(*free) - 1
}

// overlays returns what was done to the processes beside ending them, and when they stood still or
// were raft leader.
func overlays(v story.Verdict) (all []Span) {
	list, _ := faults(v)
	for _, f := range list {
		if s := faultState(f.Name); s != "" {
			for _, n := range f.Nodes {
				all = append(all, Span{n, s, f.From, f.To, f.Name + " " + f.Text})
			}
		}
	}
	for _, l := range v.Lines {
		if l.Kind == story.KindStall && l.Node >= 0 {
			all = append(all, Span{l.Node, StateStall, l.From, l.To, "stood still"})
		}
	}
	for _, t := range story.Tenures(v.Lines) {
		all = append(all, Span{t.Node, StateLeader, t.From, t.To, "raft leader"})
	}
	return all
}

// hold is one grant as the picture shows it.
type hold struct {
	names    []string
	node     int
	token    uint64
	from, to time.Duration
	valid    time.Duration // until then, as its holder was told
	lost     string        // why, unless it was released
	rest     time.Duration // until then its place stays taken, as it had asked; 0: it is free at once
	minHold  time.Duration
	delay    time.Duration
	lane     int
}

// holds returns the grants of every lock in the order of time, each on a lane of its own, and the
// locks by name. A set is drawn at each of its names.
func holds(v story.Verdict) (byLock map[string][]*hold, lanes map[string]int, names []string) {
	byLock, lanes = make(map[string][]*hold), make(map[string]int)
	for _, h := range grants(v) {
		for _, name := range h.names {
			one := *h
			byLock[name] = append(byLock[name], &one)
		}
	}
	for name, list := range byLock {
		names = append(names, name)
		slices.SortFunc(list, func(a, b *hold) int { return cmp.Compare(a.from, b.from) })
		var free []time.Duration
		for _, g := range list {
			g.lane = lane(&free, g.from, g.to)
		}
		lanes[name] = len(free)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(lanes[a], lanes[b]), cmp.Compare(a, b))
	})
	return byLock, lanes, names
}

// grants returns all grants. Locks that are asked for only at the end are of no interest.
func grants(v story.Verdict) (all []*hold) {
	byToken := make(map[uint64]*hold)
	asked := make(map[uint64]history.Event)
	for _, e := range v.History {
		g := byToken[e.Token]
		a, known := asked[e.Op]
		switch {
		case e.Kind == history.Asked:
			asked[e.Op] = e
		case e.Kind == history.Granted && known:
			g = &hold{names: a.Names(), node: e.Node, token: e.Token, from: e.At, to: e.At, minHold: a.MinHold, delay: a.LockDelay}
			byToken[e.Token] = g
			all = append(all, g)
		case g == nil:
		case e.Kind == history.Held:
			g.to, g.valid = e.At, e.At+e.Remaining
		case e.Kind == history.Release:
			g.to, g.valid = e.At, max(e.At, g.valid)
			if g.minHold > 0 {
				g.rest = g.from + g.minHold
			}
			delete(byToken, e.Token)
		case e.Kind == history.Ended && e.Cause != history.CauseReleased && g.lost == "":
			g.to, g.lost = e.At, e.Cause
			if g.delay > 0 {
				g.rest = g.to + g.delay
			}
		}
	}
	return all
}
