package autopilot

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/lease"
)

// wiped is a raft leader of three voters, of which "old" has been silent for two seconds, and a node
// that asks to come in.
type wiped struct {
	l    *Leader
	s    State
	heir Sighting
	old  Sighting
	now  lease.Instant
}

func newWiped() *wiped {
	w := &wiped{
		l: New(Config{Want: 3, Moment: time.Second, Patience: time.Second, ReplaceAfter: 30 * time.Second}), now: 1,
		old:  Sighting{Node: "old", Name: "host", Addr: "10.0.0.3:7643", Phase: PhaseRunning, Here: true, Replica: 3, Cluster: "c"},
		heir: Sighting{Node: "0f", Name: "host", Addr: "10.0.0.3:7643", Phase: PhaseJoining, Here: true, Replica: 4, Cluster: "c", Answers: true},
	}
	w.s = State{
		Self: "a", Cluster: "c", Info: fsm.Info{Born: true, Serving: true},
		Members:  Members{Voters: map[uint64]string{1: "a", 2: "b", 3: "old"}, Change: 5},
		Heard:    map[uint64]Heard{2: {}, 3: {At: 1}},
		Departed: func(string) fsm.Departure { return fsm.Stays },
	}
	w.l.Carried(Plan{Kind: Barrier}, Done, 5, 1)
	return w
}

// after polls until some time has passed in which all but the old voter are heard, and returns the
// last plan.
func (w *wiped) after(d time.Duration) (p Plan) {
	for end := w.now + lease.Instant(d); w.now < end; {
		w.now += lease.Instant(100 * time.Millisecond)
		for replica, h := range w.s.Heard {
			if replica != 3 {
				h.At = w.now
				w.s.Heard[replica] = h
			}
		}
		w.s.Seen = []Sighting{w.old, w.heir}
		p = w.l.Plan(w.s, w.now)
	}
	return p
}

// joins takes the newcomer in, which catches up.
func (w *wiped) joins() {
	w.s.Members.Standbys, w.s.Members.Change = map[uint64]string{4: w.heir.Node}, 6
	w.heir.Phase = PhaseRunning
	w.s.Heard[4] = Heard{Match: 1}
	w.s.Known = append(w.s.Known, record(w.heir.Node))
}

func record(node string) (r fsm.NodeRecord) {
	r.Node, _ = fsm.ParseNode(node)
	r.Incarnation = 1
	return r
}

const heirID = "0f0f0f0f-0f0f-4f0f-8f0f-0f0f0f0f0f0f"

func TestAWipedHostsNewNodeTakesTheVotersPlaceLongBeforeReplaceAfter(t *testing.T) {
	t.Parallel()
	w := newWiped()
	w.heir.Node = heirID
	if p := w.after(2 * time.Second); p.Kind != AddStandby {
		t.Fatalf("it is not taken in: %v", p)
	}
	w.joins()
	if p := w.after(3 * time.Second); p.Kind != Remove || p.Node != "old" || p.Reason != wipedReason {
		t.Errorf("%v of %s: %s", p.Kind, p.Node, p.Reason)
	}
}

// The group had as many replicas as it should have, those of dead nodes among them: the wiped host's
// new node was a client, and the voter was missed for all of ReplaceAfter.
func TestAWipedHostsNewNodeThatIsAClientLetsAStandbyTakeTheVotersPlace(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(w *wiped){
		"":                                  func(*wiped) {},
		"the group has not heard its Hello": func(w *wiped) { w.s.Known = w.s.Known[:1] },
		"nobody answers at the address":     func(w *wiped) { w.heir.Answers = false },
		"it is no client":                   func(w *wiped) { w.heir.Client = false },
		"the old voter is heard":            func(w *wiped) { w.s.Heard[3] = Heard{At: 1 << 60} },
		"no standby is ready":               func(w *wiped) { w.s.Info.Applied = 10 * behindMax },
		"the group knew the node before":    func(w *wiped) { w.l.fresh = make(map[string]bool) },
		"gossip does not see it any more":   func(w *wiped) { w.heir.Here = false },
		"it is at another address":          func(w *wiped) { w.heir.Addr = "10.0.0.9:7643" },
	} {
		w := newWiped()
		const standby = "0a0a0a0a-0a0a-4a0a-8a0a-0a0a0a0a0a0a"
		w.l.cfg.Standbys = 1
		w.heir.Node, w.heir.Able = heirID, true
		w.s.Members.Standbys, w.s.Heard[4] = map[uint64]string{4: standby}, Heard{Match: 1}
		w.heir.Replica, w.s.Known = 5, []fsm.NodeRecord{record(standby)}
		if p := w.after(2 * time.Second); p.Kind > Wait {
			t.Fatalf("before the heir works as a client: %v %v", p.Kind, p)
		}
		w.heir.Client, w.s.Known = true, append(w.s.Known, record(heirID))
		change(w)
		p := w.after(3 * time.Second)
		if replaced := p.Kind == Remove && p.Node == "old" && p.Reason == wipedReason; replaced != (name == "") {
			t.Errorf("%q: %v of %s: %s", name, p.Kind, p.Node, p.Reason)
		}
	}
}

// Each is one thing that an operator or a cloud does every day, and no host that was wiped.
func TestNothingElseThanAWipedHostShortensReplaceAfter(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(w *wiped){
		"the old voter is heard":                    func(w *wiped) { w.s.Heard[3] = Heard{At: 1 << 60} },
		"a later process of it is elsewhere":        func(w *wiped) { w.old.Addr = "10.0.0.9:7643" },
		"the newcomer is at another address":        func(w *wiped) { w.heir.Addr = "10.0.0.9:7643" },
		"the address was given to another host":     func(w *wiped) { w.heir.Name = "another" },
		"nobody answers at the address":             func(w *wiped) { w.heir.Answers = false },
		"the group knew the node before":            func(w *wiped) { w.s.Known = append(w.s.Known, record(heirID)) },
		"the newcomer has not caught up":            func(w *wiped) { w.s.Info.Applied = 10 * behindMax },
		"gossip does not see the newcomer any more": func(w *wiped) { w.heir.Here = false },
	} {
		w := newWiped()
		w.heir.Node = heirID
		if name == "the group knew the node before" {
			change(w)
		}
		w.after(2 * time.Second)
		w.joins()
		change(w)
		if p := w.after(10 * time.Second); p.Kind == Remove || p.Kind == Promote {
			t.Errorf("%s: %v of %s: %s", name, p.Kind, p.Node, p.Reason)
		}
	}
}
