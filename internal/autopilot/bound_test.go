package autopilot

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/forming"
	"github.com/holdfast-go/holdfast/internal/lease"
)

// gathering is a group whose Bootstrap nodes have met: so many of them have replicas, and so many
// others have said Hello. Nodes without a replica ask for one in gossip.
func gathering(bootstrap, voters, replicas, clients int) State {
	s := State{
		Self: fsm.KeyNode([]byte{0}).String(), Cluster: "group", Departed: func(string) fsm.Departure { return fsm.Stays },
		Members: Members{Voters: make(map[uint64]string), Standbys: make(map[uint64]string), Change: 5},
		Info:    fsm.Info{Born: true, Bootstrap: uint32(bootstrap), Voters: uint32(min(bootstrap, 3))},
	}
	for i := range bootstrap {
		id := fsm.KeyNode([]byte{byte(i)})
		one := Sighting{Node: id.String(), Cluster: "group", Replica: uint64(i + 1), Phase: PhaseJoining, Here: true, Able: true}
		if i < replicas {
			one.Phase = PhaseRunning
			if i < voters {
				s.Members.Voters[one.Replica] = one.Node
			} else {
				s.Members.Standbys[one.Replica] = one.Node
			}
		}
		s.Seen = append(s.Seen, one)
		if i < replicas+clients {
			s.Known = append(s.Known, fsm.NodeRecord{Node: id, Incarnation: 1, Since: uint64(i + 1)})
		}
	}
	return s
}

// Two groups that have the same Bootstrap nodes must never both serve (S8). Voters and standbys are
// few, and two groups could have as many: all others must have said to one of them that they are
// its own.
func TestAGroupServesWhenAllHaveMetAndAsManyFollowAsShall(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		bootstrap, voters, replicas, clients, standbys int
		want                                           bool
	}{
		{10, 3, 5, 5, 2, true},
		{10, 3, 5, 4, 2, false},
		{10, 3, 4, 6, 2, false},
		{10, 1, 5, 5, 2, false},
		{10, 3, 10, 0, 2, true},
		{10, 3, 10, 0, 0, true},
		{10, 3, 5, 5, 0, false},
		{4, 3, 4, 0, 2, true},
		{4, 3, 3, 1, 2, false},
		{2, 1, 2, 0, 2, true},
		{2, 1, 1, 1, 2, false},
	} {
		l := New(Config{Want: 3, Standbys: c.standbys})
		s := gathering(c.bootstrap, c.voters, c.replicas, c.clients)
		if got := l.Complete(s); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	l, s := New(Config{Want: 3, Standbys: 2}), gathering(10, 3, 5, 5)
	for name, change := range map[string]func(*Sighting){
		"asks for no replica":      func(m *Sighting) { m.Phase = PhaseFresh },
		"asks another group":       func(m *Sighting) { m.Cluster = "other" },
		"is not in sight":          func(m *Sighting) { m.Here = false },
		"is a node of its own key": func(m *Sighting) { m.Node = "other" },
		"works as no client":       func(m *Sighting) { m.Able = false },
	} {
		other := s
		other.Seen = slices.Clone(s.Seen)
		change(&other.Seen[9])
		if l.Complete(other) {
			t.Errorf("the tenth node %s, and counts", name)
		}
	}
}

// A group that does not serve yet chose its voters when all that Bootstrap waits for had replicas:
// with fewer replicas it would never.
func TestAGroupWaitsForNoMoreReplicasThanShallFollow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ bootstrap, standbys, want int }{{10, 2, 5}, {10, 0, 10}, {4, 2, 4}, {3, 1, 3}} {
		l := New(Config{Want: 3, Standbys: c.standbys})
		in := l.input(gathering(c.bootstrap, 1, 1, 0), 1)
		if in.Expected != c.want || in.Standbys != c.standbys {
			t.Errorf("%+v: waits for %d, %d standbys", c, in.Expected, in.Standbys)
		}
	}
	serving := gathering(10, 3, 5, 5)
	serving.Info.Serving = true
	if in := New(Config{Want: 3, Standbys: 2}).input(serving, 1); in.Expected != 0 || in.Standbys != 2 {
		t.Errorf("a group that serves waits for %d, with %d standbys", in.Expected, in.Standbys)
	}
}

// Gossip alone knows that a node can do without its replica. A node that is not in sight may be one
// that cannot. A client has told the group in its Hello whether it has a disk.
func TestANodeIsAbleAsLongAsGossipShowsIt(t *testing.T) {
	t.Parallel()
	s := gathering(4, 1, 2, 0)
	s.Seen[2].Able = false
	s.Seen[1].Here = false
	s.Known[1].Node, s.Known[1].Place = fsm.KeyNode([]byte{3}), fsm.Place{Boot: "boot"} // the fourth has said Hello
	able := make(map[string]bool)
	for _, m := range New(Config{Want: 3}).input(s, 1).Members {
		able[m.Node] = m.Able
		if m.Role == Candidate && m.Disk != (m.Node == s.Seen[3].Node) {
			t.Errorf("%+v: a disk is %v", m, m.Disk)
		}
	}
	want := map[string]bool{s.Seen[0].Node: true, s.Seen[1].Node: false, s.Seen[2].Node: false, s.Seen[3].Node: true}
	if !maps.Equal(able, want) {
		t.Errorf("%v, want %v", able, want)
	}
}

// A node with a key of its own holds leases without a replica. As a member that held no lease for an
// hour it would have been counted no more.
func TestAMemberWithoutASessionIsNotForgotten(t *testing.T) {
	t.Parallel()
	l, s := New(Config{}), gathering(3, 3, 3, 0)
	for i := range s.Known {
		s.Known[i].Idle = true
	}
	for at := lease.Instant(1); at < lease.Instant(3*idleTime); at += lease.Instant(time.Minute) {
		if cmd, ok := l.Withdrawal(s, at); ok {
			t.Fatalf("after %v: %+v", time.Duration(at), cmd)
		}
	}
}

// A node that asks for a replica of a later life starts it when it hears that it was added. The
// message may be lost, so it comes again until gossip says otherwise.
func TestANodeHearsInEachLifeThatItsReplicaWasAdded(t *testing.T) {
	t.Parallel()
	const node = "n"
	l := New(Config{LaterLife: func(_ string, known, next uint64) bool { return next > known }})
	s := State{Self: "a", Cluster: "group", Departed: func(string) fsm.Departure { return fsm.Stays }}
	news := func(phase Phase, replica uint64, now time.Duration) []forming.Message {
		s.Seen = []Sighting{{Node: node, Cluster: "group", Replica: replica, Phase: phase, Here: true}}
		return l.News(s, lease.Instant(now))
	}
	for life := uint64(1); life < 4; life++ {
		at := time.Duration(life) * time.Hour
		s.Members.Standbys = map[uint64]string{life - 1: node}
		if got := news(PhaseJoining, life, at); len(got) != 0 {
			t.Errorf("life %d, before it is added: %+v", life, got)
		}
		s.Members.Standbys = map[uint64]string{life: node}
		want := forming.Message{Kind: forming.Welcome, From: "a", To: node, Cluster: "group", Replica: life}
		for again := range time.Duration(3) {
			if got := news(PhaseJoining, life, at+again*time.Minute); len(got) != 1 || got[0] != want {
				t.Errorf("life %d, added: %+v", life, got)
			}
		}
		if got := news(PhaseStarting, life, at+time.Minute); len(got) != 0 {
			t.Errorf("life %d, started: %+v", life, got)
		}
		if got := news(PhaseJoining, life-1, at+time.Minute); life > 1 && (len(got) != 1 || !got[0].DuplicateDirectory) {
			t.Errorf("asks for life %d, and %d is added: %+v", life-1, life, got)
		}
	}
}

// Gossip alone knows the zone of a node that asks for a replica.
func TestANodeOfAZoneThatLacksAReplicaIsGivenOne(t *testing.T) {
	t.Parallel()
	s := gathering(7, 3, 3, 4)
	s.Info.Serving, s.Heard = true, make(map[uint64]Heard)
	at := lease.Instant(time.Hour)
	for i := range s.Seen {
		s.Seen[i].Zone = []string{"x", "y", "x", "y", "x", "z", "y"}[i]
		s.Heard[s.Seen[i].Replica] = Heard{At: at}
	}
	l := New(Config{Want: 3, Standbys: 2, Moment: time.Second})
	l.Plan(s, at)
	l.Carried(Plan{Kind: Barrier}, Done, s.Members.Change, at)
	if p := l.Plan(s, at); p.Kind != AddStandby || p.Node != s.Seen[5].Node {
		t.Errorf("%v, want a replica for %s", p, s.Seen[5].Node)
	}
}

// A candidate's age is the time for which it has asked. The group knows how many are to meet.
func TestTheLastReplicasWaitForThoseThatHaveNotAskedYet(t *testing.T) {
	t.Parallel()
	s := gathering(10, 1, 1, 0)
	s.Seen = s.Seen[:6]
	for i := range s.Seen {
		s.Seen[i].Zone = "x"
	}
	l := New(Config{Want: 3, Standbys: 2, Moment: time.Second})
	at := func(d time.Duration) Plan {
		now := lease.Instant(time.Hour + d)
		s.Heard = map[uint64]Heard{1: {At: now}}
		p := l.Plan(s, now)
		if p.Kind == Barrier {
			l.Carried(p, Done, s.Members.Change, now)
			p = l.Plan(s, now)
		}
		return p
	}
	if p := at(0); p.Kind != Wait {
		t.Errorf("%v, while four are to come", p)
	}
	s.Seen[1].Phase = PhaseFresh // it asks anew later
	at(time.Second)
	s.Seen[1].Phase = PhaseJoining
	at(2 * time.Second)
	s.Seen = s.Seen[:2]
	if p := at(4 * time.Second); p.Kind != Wait {
		t.Errorf("%v, two seconds after it asked", p)
	}
	if p := at(5 * time.Second); p.Kind != AddStandby {
		t.Errorf("%v, three seconds after it asked", p)
	}
}
