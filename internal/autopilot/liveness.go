package autopilot

import (
	"maps"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/lease"
)

const (
	stableAfter = time.Second      // a standby must have been well for so long to be promoted
	refusedTime = 30 * time.Second // a candidate that the group refused is left alone for so long
	orderTime   = 10 * time.Second // an operator's order counts for so long: its caller repeats it
	goneTime    = 2 * time.Second  // a node must have had no replica for so long to wait for nothing
	idleTime    = time.Hour        // a client without a session is counted for so long
	lookMax     = 2 * time.Second  // inputs come more often: after more this process stood still, or its engine did
)

// Config is what a Leader is made with.
type Config struct {
	Want         int // how many shall vote
	Standbys     int // how many shall follow besides: P14; 0: every node
	Moment       time.Duration
	Patience     time.Duration // see P13
	ReplaceAfter time.Duration
	LaterLife    func(node string, known, next uint64) bool // whether the second replica is of a later life of the node
	Level        uint64                                     // highest feature level that this node knows
	HoldLevel    uint64                                     // the group does not rise above it; 0: it may
	LevelPause   time.Duration                              // see LevelPauseDefault
}

// Heard is what Raft last heard of a replica in the present term.
type Heard struct {
	At       lease.Instant
	Match    uint64        // the last entry that it has on its disk, as far as it said; 0: it did not, yet
	Snapshot lease.Instant // when a piece of a snapshot was last sent to it
}

// Phase says how far a node has come in its life with the group. Gossip carries it.
type Phase uint8

// Phases. Their numbers are on the wire.
const (
	PhaseFresh    Phase = iota // has never belonged to a group
	PhaseJoining               // asks to be added to the group as Sighting.Replica
	PhaseRunning               // its replica has caught up
	PhaseLeaving               // leaves for good
	PhaseStarting              // has been added and its replica catches up; comes before PhaseRunning
)

// Runs reports whether the node runs a replica that the group has added.
func (p Phase) Runs() bool { return p == PhaseStarting || p == PhaseRunning }

// Sighting is what gossip shows of a node.
type Sighting struct {
	Node, Zone string
	Cluster    string // the group that it belongs to, or would join
	Replica    uint64 // its own, or the one that it asks for
	Phase      Phase
	Level      uint64 // highest feature level that its process knows
	Here       bool   // gossip sees it, if only in doubt
	Name, Addr string
	Client     bool // it does without a replica already
	Answers    bool // its process has answered at Addr lately: see Leader.Probes
	Able       bool // it can do without a replica: it works as a client meanwhile
	Unfit      bool // it does so, as its disk bears no replica now: P15
}

// State is what there is to see now.
type State struct {
	Self     string // this node
	Cluster  string // the group's id
	Info     fsm.Info
	Known    []fsm.NodeRecord
	Members  Members                                        // as applied here
	Departed func(node string) fsm.Departure                // what a node has said through the group
	Renewed  func(node fsm.Node, incarnation uint64) uint64 // the command that renewed a session of a process last; 0: none
	Heard    map[uint64]Heard                               // by replica
	Term     uint64                                         // of Raft, not before that of Heard
	Seen     []Sighting
}

// Outcome is what became of a plan that was carried out.
type Outcome uint8

// Outcomes.
const (
	Done    Outcome = iota
	Failed          // it was not made
	Refused         // the group said no
	Unknown         // it may be made yet
)

// Leader is the liveness of the replicas as the raft leader knows it: when Raft heard each, what
// the group's state says of its node, and what gossip shows of it. Leader makes of that the Input
// of Next, and says which nodes are to be told what. Its methods are for one goroutine.
type Leader struct {
	cfg      Config
	silences *silences
	orders   map[string]order // by node

	lagging        map[uint64]lease.Instant // since when a replica lacks what is committed, and has acknowledged nothing
	match          map[uint64]uint64        // what each had acknowledged at the last look
	stuck          map[uint64]time.Duration // for how long a replica has been heard without progress
	members        []Member                 // of the last Input
	healthySince   map[uint64]lease.Instant // since when a replica has been heard and caught up
	unseen         map[uint64]lease.Instant // since when gossip has not seen it
	gone           map[string]lease.Instant // since when a known node has had no replica
	had            map[string]uint64        // the last command when a known node had a replica, if it shows no life since
	unknownRunning map[uint64]lease.Instant // since when a replica that runs has been no member
	refused        map[uint64]lease.Instant // when the group refused to take a replica in
	asks           map[string]uint64        // the replicas that candidates would have
	asking         map[uint64]lease.Instant // since when a replica has been asked for
	fresh          map[string]bool          // nodes that asked to come in when the group did not know them
	probes         []string                 // nodes that may be heirs: P13
	term           uint64                   // of the last Input
	looked         lease.Instant            // when that was
	change         uint64                   // the last change of the membership that was seen
	changed        lease.Instant            // when, or when somebody said that it leaves
	leaving        map[uint64]bool          // the replicas whose nodes have said so
	agreed         lease.Instant            // since when all know the next feature level; 0: they do not
	hurry          bool                     // the group does not serve yet, a node leaves, or this node has just become raft leader
	unknown        bool                     // whether a change may be under way whose outcome this node does not know
}

// order is an operator's order that a node's replica is removed.
type order struct {
	number uint64 // of the command
	words  string
	at     lease.Instant
}

// New returns the knowledge of a node that is not raft leader.
func New(cfg Config) *Leader {
	l := &Leader{cfg: cfg, silences: newSilences(), orders: make(map[string]order)}
	l.Follow()
	return l
}

// Follow ends its time as raft leader: it forgets what means nothing to a later one.
func (l *Leader) Follow() {
	l.silences.follow()
	l.unknown, l.looked = true, 0
	l.lagging, l.match, l.members = make(map[uint64]lease.Instant), make(map[uint64]uint64), nil
	l.healthySince, l.unseen = make(map[uint64]lease.Instant), make(map[uint64]lease.Instant)
	l.gone, l.unknownRunning = make(map[string]lease.Instant), make(map[uint64]lease.Instant)
	l.refused, l.asking = make(map[uint64]lease.Instant), make(map[uint64]lease.Instant)
	l.fresh, l.probes = make(map[string]bool), nil
	l.leaving, l.agreed, l.had = nil, 0, make(map[string]uint64)
}

// Note takes what the log says of the replicas of a node: an EventSilent, by a raft leader, or an
// EventEvict, an operator's order or its refusal.
func (l *Leader) Note(e *fsm.Event, now lease.Instant) {
	node := e.Session.Node.String()
	switch {
	case e.Kind == fsm.EventSilent:
		l.silences.note(e, now)
	case e.Reason == fsm.ReasonNone:
		l.orders[node] = order{e.Index, e.Detail, now}
	case l.orders[node].number == e.Request:
		delete(l.orders, node)
	}
}

// Skipped says that the replica took over a state from a snapshot, and with it a part of the log that
// Note has not seen: there a silence may have ended, and an order been refused. What was noted before
// counts no more. Durations may be too short by that, and the caller of an order repeats it.
func (l *Leader) Skipped() {
	clear(l.silences.published)
	clear(l.orders)
}

// Refusal refuses an operator's order that P11 does not allow, nil if there is none. It is for one
// node, and the machine lets only the last order be refused.
func (l *Leader) Refusal(s State, plan Plan, now lease.Instant) *fsm.Evict {
	maps.DeleteFunc(l.orders, func(node string, o order) bool {
		return now-o.at > lease.Instant(orderTime) || s.Members.Change != 0 && !s.Members.Has(node)
	})
	if plan.Bears < 0 || l.unknown || l.silences.listening(now) < l.cfg.Moment {
		return nil
	}
	for node, o := range l.orders {
		replica, _ := s.Members.Replica(node)
		refusal := fsm.ReasonNone
		switch {
		case s.Members.Votes(node) && len(s.Members.Voters) == 1:
			refusal = fsm.ReasonLast
		case node == s.Self || l.silences.since(replica, now) < l.cfg.Moment:
			refusal = fsm.ReasonHeard
		}
		if id, err := fsm.ParseNode(node); err == nil && refusal != fsm.ReasonNone {
			return &fsm.Evict{Node: id, Seen: o.number, Refusal: refusal}
		}
	}
	return nil
}

// Hurry reports whether a node waits for the next step.
func (l *Leader) Hurry() bool { return l.hurry }

// Asks is the replica that a candidate would have.
func (l *Leader) Asks(node string) uint64 { return l.asks[node] }

// Report returns the silence to publish in the log, so that the next raft leader knows of it; nil:
// nothing now, or no majority to tell it to.
func (l *Leader) Report(s State, plan Plan, now lease.Instant) *fsm.Silent {
	if plan.Bears < 0 {
		return nil
	}
	return l.silences.report(s.Members, s.Self, s.Info.Commands, now)
}

// Complete reports whether the group may serve its first lock: as many nodes have met in it as its
// founder wanted, and as many of them vote. It is the group's to say, not the Config of the node
// that happens to be raft leader. Of two, one votes: there the other must have said Hello, and so
// belong to this group and no other. Where fewer replicas than those nodes shall follow, the others
// must have said Hello: each has written down by then that it belongs to this group. How many shall
// follow is the Config's to say: it decides on no lock. Clients that ask for no replica do not count:
// they are of no Bootstrap.
func (l *Leader) Complete(s State) bool {
	members := len(s.Members.Voters) + len(s.Members.Standbys)
	said, without := 0, 0
	for _, n := range s.Known {
		node := n.Node.String()
		switch {
		case s.Members.Has(node):
			said++
		case slices.ContainsFunc(s.Seen, func(m Sighting) bool { return m.Node == node && m.Able && m.asks(s.Cluster) }):
			without++
		}
	}
	return (len(s.Members.Voters) >= int(s.Info.Voters) || s.Info.Voters == 2 && said >= 2) &&
		members >= l.expected(s) && members+without >= int(s.Info.Bootstrap)
}

// expected is how many of the nodes that meet in a group are to have a replica before it serves.
func (l *Leader) expected(s State) int {
	if l.cfg.Standbys == 0 {
		return int(s.Info.Bootstrap)
	}
	return min(int(s.Info.Bootstrap), max(l.cfg.Want, int(s.Info.Voters))+l.cfg.Standbys)
}

// asks reports whether a node that gossip sees asks a group for a replica.
func (m Sighting) asks(cluster string) bool {
	return m.Here && m.Phase == PhaseJoining && m.Cluster == cluster
}

// Withdrawal is the command that withdraws the waiters of a node that has no replica any more: the
// node may not be there to take a grant. Its grants stay until their TTL, since nothing proves that
// its process is dead. It is for one node; false: for none now. A node that may be a client needs no
// replica, and the waiters of a client end with their session. It is one unless this raft leader has seen
// its replica, gossip does not see the node, and it has said no Hello and renewed no session since it had
// that. It is counted no more when it has had no session for long. The group knows it until it comes back.
func (l *Leader) Withdrawal(s State, now lease.Instant) (fsm.Remove, bool) {
	here, had := make(map[string]bool), make(map[string]uint64)
	for _, m := range s.Seen {
		here[m.Node] = m.Here
	}
	known := make(map[string]bool)
	for _, n := range s.Known {
		node := n.Node.String()
		known[node] = true
		at, before := l.had[node]
		switch {
		case s.Members.Has(node):
			had[node] = s.Info.Commands
		case before && n.Since <= at && s.Renewed(n.Node, n.Incarnation) <= at:
			had[node] = at
		}
	}
	l.had = had
	maps.DeleteFunc(l.gone, func(node string, _ lease.Instant) bool { return !known[node] })
	for _, n := range s.Known {
		node, patience := n.Node.String(), goneTime
		absent := !s.Members.Has(node)
		if _, replica := had[node]; n.Node.Bound() && (here[node] || !replica) {
			absent, patience = absent && n.Idle, idleTime
		}
		if since(l.gone, node, absent && !n.Gone, now) >= patience {
			return fsm.Remove{Node: n.Node, Incarnation: n.Incarnation, Since: n.Since}, true
		}
	}
	return fsm.Remove{}, false
}

// Plan returns the next step by the present knowledge.
func (l *Leader) Plan(s State, now lease.Instant) Plan {
	return Next(l.input(s, now))
}

// Carried takes the outcome of a plan; change is Members.Change after it. A candidate counts as
// refused only if the group refused it: an unknown outcome, a lost plan or a change in between says
// nothing of the node.
func (l *Leader) Carried(plan Plan, out Outcome, change uint64, now lease.Instant) {
	l.unknown = out == Unknown || plan.Kind == Barrier && out != Done
	if plan.Kind == AddStandby && out == Refused && change == plan.Index {
		l.refused[l.asks[plan.Node]] = now
	}
}

// turnedDown reports whether the group has refused a replica a moment ago: it had removed it.
func (l *Leader) turnedDown(replica uint64, now lease.Instant) bool {
	at, ok := l.refused[replica]
	return ok && now-at < lease.Instant(refusedTime)
}

// input is the Input of Next: the membership as applied here, the replicas that Raft hears, the
// nodes that leave, and the nodes that gossip sees.
func (l *Leader) input(s State, now lease.Instant) Input {
	members := s.Members
	if s.Term != l.term { // it was not raft leader in between, however short that was
		l.Follow()
		l.term = s.Term
	}
	l.silences.lead(members, now)
	if l.looked != 0 && now-l.looked > lease.Instant(lookMax) {
		l.silences.stoodStill(now)
		clear(l.lagging)
	}
	l.looked = now
	if members.Change != l.change {
		l.change, l.changed = members.Change, now
	}
	in := Input{
		Self: s.Self, Want: l.cfg.Want, Standbys: l.cfg.Standbys, Index: members.Change, Term: s.Term, Unknown: l.unknown,
		Listening: l.silences.listening(now), Moment: l.cfg.Moment, Patience: l.cfg.Patience,
		ReplaceAfter: l.cfg.ReplaceAfter,
	}
	if s.Info.Serving {
		in.StableAfter = stableAfter
	} else { // there is nothing to lose yet
		in.Want, in.Listening = max(in.Want, int(s.Info.Voters)), in.Moment
		in.Expected, in.Meeting = l.expected(s), int(s.Info.Bootstrap)
	}
	l.silences.take(l.progress(s, now), members, now)
	for _, begun := range []map[uint64]lease.Instant{l.healthySince, l.unseen, l.lagging} {
		maps.DeleteFunc(begun, func(replica uint64, _ lease.Instant) bool { return !members.Includes(replica) })
	}
	maps.DeleteFunc(l.refused, func(replica uint64, _ lease.Instant) bool { return !l.turnedDown(replica, now) })
	v := snapshot{State: s, seen: make(map[string]Sighting), hellos: make(map[string]fsm.NodeRecord)}
	for _, m := range s.Seen {
		v.seen[m.Node] = m
	}
	for _, n := range s.Known {
		v.hellos[n.Node.String()] = n
	}
	if l.silences.heardAll(s.Heard, members, in.Self) {
		in.Listening = in.Moment // there is nobody left to listen for
	}
	before := l.leaving
	l.leaving = make(map[uint64]bool)
	for replica, node := range members.All() {
		role := Standby
		if members.Voters[replica] != "" {
			role = Voter
		}
		m := l.replica(&v, role, replica, node, now)
		if m.Departure == fsm.Leaves {
			l.leaving[replica] = true
			if !before[replica] { // the voters that stay must be heard from now on: one may have died a moment ago
				l.changed = now
			}
		}
		in.Members = append(in.Members, m)
	}
	l.hurry = !s.Info.Serving || len(l.leaving) > 0 || l.silences.listening(now) < in.Moment
	in.Changed = max(1, time.Duration(now-l.changed))
	l.inherit(&in, &v)
	l.members = slices.Clone(in.Members)
	l.candidates(&in, &v, now)
	return in
}

// progress is what Raft has heard. A replica that is heard without progress counts as one that is
// not: it lacks entries that a majority has, and neither acknowledges any nor is sent a snapshot.
func (l *Leader) progress(s State, now lease.Instant) map[uint64]Heard {
	l.stuck = make(map[uint64]time.Duration)
	moment := max(l.cfg.Moment, 1)
	heard := make(map[uint64]Heard, len(s.Heard))
	for replica, one := range s.Heard {
		if one.Match != l.match[replica] {
			delete(l.lagging, replica)
		}
		l.match[replica] = one.Match
		hears := time.Duration(now-one.At) < moment // else it is silent, and no more than that
		lag := since(l.lagging, replica, hears && one.Match < s.Info.Applied, now)
		if lag = min(lag, time.Duration(now-one.Snapshot)); lag >= moment {
			l.stuck[replica] = lag
			one.At = min(one.At, now-lease.Instant(lag))
		}
		heard[replica] = one
	}
	return heard
}

// Members are the voters and standbys as this raft leader last judged them.
func (l *Leader) Members() []Member { return l.members }

// candidates adds the nodes that ask for a replica. A node that has one, of a former life, waits
// until that is removed. One that is gone for good gets none: its Hello would be refused. One that
// has left may be back, which the group hears only when it has a replica.
func (l *Leader) candidates(in *Input, v *snapshot, now lease.Instant) {
	l.asks = make(map[string]uint64)
	asked := l.asking
	l.asking = make(map[uint64]lease.Instant)
	for node, m := range v.seen {
		if v.Members.Has(node) || l.turnedDown(m.Replica, now) || v.Departed(node) == fsm.Gone {
			continue
		}
		if m.asks(v.Cluster) && max(m.Level, 1) >= v.Info.Level {
			age := since(asked, m.Replica, true, now)
			in.Members = append(in.Members, Member{Node: node, Zone: m.Zone, Able: m.Able, Unfit: m.Unfit, Disk: v.hasDisk(node), Age: age})
			l.asks[node], l.asking[m.Replica] = m.Replica, asked[m.Replica]
			if _, known := v.hellos[node]; !known {
				l.fresh[node] = true
			}
		}
	}
	maps.DeleteFunc(l.fresh, func(node string, _ bool) bool { return l.asks[node] == 0 && !v.Members.Has(node) })
}

// snapshot is a State by node.
type snapshot struct {
	State
	seen   map[string]Sighting
	hellos map[string]fsm.NodeRecord // nodes whose Hello the group has carried out
}

func (v *snapshot) hasDisk(node string) bool { return v.hellos[node].Place != (fsm.Place{}) }

// replica describes one replica to the autopilot and notes since when it has been so.
func (l *Leader) replica(v *snapshot, role Role, replica uint64, node string, now lease.Instant) Member {
	m := v.seen[node]
	r := Member{
		Node: node, Zone: m.Zone, Role: role, Departure: v.Departed(node), Disk: v.hasDisk(node),
		Heard: l.silences.since(replica, now), Seen: since(l.unseen, replica, !m.Here || m.Replica != replica, now),
	}
	if o := l.orders[node]; now-o.at <= lease.Instant(orderTime) {
		r.Ordered = o.words
	}
	r.Succeeded = m.asks(v.Cluster) && m.Replica != replica
	r.Able = m.Here && m.Able
	r.Unfit = m.asks(v.Cluster) && m.Replica == replica && m.Unfit
	r.Stuck = l.stuck[replica] > 0
	match := v.Heard[replica].Match
	if match < v.Info.Applied {
		r.Behind = v.Info.Applied - match
	}
	// The Hello may be of a former life; then the replica has nothing before it has said what it
	// has.
	r.Running = v.hellos[node].Incarnation != 0 && (role == Voter || match > 0)
	r.Age = since(l.healthySince, replica, r.Running && r.Heard < l.cfg.Moment, now)
	return r
}

// since returns for how long something has been so without a break.
func since[K comparable](begun map[K]lease.Instant, key K, so bool, now lease.Instant) time.Duration {
	if !so {
		delete(begun, key)
		return 0
	}
	at, ok := begun[key]
	if !ok {
		begun[key], at = now, now
	}
	return time.Duration(now - at)
}
