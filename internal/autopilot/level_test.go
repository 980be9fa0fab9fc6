package autopilot

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/lease"
)

// levelNode is the id of a node of these tests, "a" to "e".
func levelNode(name string) fsm.Node { return fsm.Node{name[0]} }

// levelled is what a raft leader "a" sees of a serving group of level 1: three voters, a standby
// and a client, all of which know level 2.
func levelled() (s State, members []Member) {
	s.Self, s.Info.Serving, s.Info.Level = levelNode("a").String(), true, 1
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		s.Known = append(s.Known, fsm.NodeRecord{Node: levelNode(name), Name: name, Incarnation: 1, Since: 1, Level: 2})
	}
	for i, name := range []string{"a", "b", "c", "d"} {
		m := Member{Node: levelNode(name).String(), Role: Voter, Heard: 100 * time.Millisecond}
		if i == 3 {
			m.Role = Standby
		}
		members = append(members, m)
	}
	return s, members
}

func TestTheLevelRisesWhenAllKnowTheNextOneAndAbsenceBlocks(t *testing.T) {
	t.Parallel()
	record := func(s *State, name string) *fsm.NodeRecord {
		for i := range s.Known {
			if s.Known[i].Name == name {
				return &s.Known[i]
			}
		}
		t.Fatal(name)
		return nil
	}
	for _, tc := range []struct {
		name  string
		edit  func(*State, []Member, *Config)
		waits string // "": it rises
	}{
		{"all know it", func(*State, []Member, *Config) {}, ""},
		{"a voter does not know it", func(s *State, _ []Member, _ *Config) { record(s, "b").Level = 1 }, "(b) knows 1"},
		{"a standby does not know it", func(s *State, _ []Member, _ *Config) { record(s, "d").Level = 1 }, "(d) knows 1"},
		{"a client does not know it", func(s *State, _ []Member, _ *Config) { record(s, "e").Level = 1 }, "(e) knows 1"},
		{"a voter is away", func(_ *State, m []Member, _ *Config) { m[1].Heard = time.Minute }, levelNode("b").String() + " is away"},
		{"a standby is away", func(_ *State, m []Member, _ *Config) { m[3].Heard = time.Minute }, levelNode("d").String() + " is away"},
		{"the raft leader hears itself", func(_ *State, m []Member, _ *Config) { m[0].Heard = time.Minute }, ""},
		{"a standby has not said Hello", func(s *State, _ []Member, _ *Config) { s.Known = append(s.Known[:3], s.Known[4]) }, levelNode("d").String() + " has not said Hello"},
		{"a removed node has a session", func(s *State, _ []Member, _ *Config) { r := record(s, "e"); r.Level, r.Gone, r.Lasting = 1, true, true }, "(e) knows 1"},
		{"a removed node has none", func(s *State, _ []Member, _ *Config) { r := record(s, "e"); r.Level, r.Gone = 1, true }, ""},
		{"a removed node has a replica again", func(s *State, _ []Member, _ *Config) { r := record(s, "d"); r.Level, r.Gone = 1, true }, "(d) knows 1"},
		{"a former process of a member did not", func(s *State, _ []Member, _ *Config) {
			s.Known = append(s.Known, fsm.NodeRecord{Node: levelNode("a"), Name: "a", Incarnation: 2, Level: 2})
			r := record(s, "a")
			r.Level, r.Gone = 1, true
		}, ""},
		{"a node knows more", func(s *State, _ []Member, _ *Config) { record(s, "b").Level = 9 }, ""},
		{"it is held", func(_ *State, _ []Member, c *Config) { c.HoldLevel = 1 }, "HoldLevel"},
		{"it is held higher up", func(_ *State, _ []Member, c *Config) { c.HoldLevel = 2 }, ""},
		{"many do not", func(s *State, _ []Member, _ *Config) {
			for i := range s.Known {
				s.Known[i].Level = 1
			}
		}, "and 2 more"},
	} {
		s, members := levelled()
		cfg := Config{Level: 2, Patience: time.Second, LevelPause: time.Minute}
		tc.edit(&s, members, &cfg)
		l := New(cfg)
		l.members = members
		early, _ := l.Rise(s, lease.Instant(time.Hour))
		level, waits := l.Rise(s, lease.Instant(time.Hour+time.Minute))
		switch rises := tc.waits == ""; {
		case early != 0:
			t.Errorf("%s: it rises at once", tc.name)
		case rises && (level != 2 || waits != ""), !rises && level != 0:
			t.Errorf("%s: %d, %q", tc.name, level, waits)
		case !rises && (!strings.Contains(waits, tc.waits) || !strings.HasPrefix(waits, "level 2: ")):
			t.Errorf("%s: %q, want %q", tc.name, waits, tc.waits)
		}
	}
}

func TestTheLevelDoesNotRiseBeyondWhatTheRaftLeaderKnowsNorBeforeTheGroupServes(t *testing.T) {
	t.Parallel()
	s, members := levelled()
	l := New(Config{Level: 1, Patience: time.Second})
	l.members = members
	if level, waits := l.Rise(s, 1); level != 0 || waits != "" {
		t.Errorf("%d, %q", level, waits)
	}
	l = New(Config{Level: 9, Patience: time.Second})
	l.members = members
	if level, _ := l.Rise(s, 1); level != 2 {
		t.Errorf("level %d, one at a time", level)
	}
	s.Info.Serving = false
	if level, waits := l.Rise(s, 2); level != 0 || waits != "" {
		t.Errorf("before it serves: %d, %q", level, waits)
	}
}

// The pause is for those who find that the new version is bad: it begins anew whenever somebody goes
// back, or is away, and with each raft leader, who knows nothing of the time before.
func TestThePauseBeforeALevelRisesBeginsAnewWithEachThatIsMissing(t *testing.T) {
	t.Parallel()
	s, members := levelled()
	l := New(Config{Level: 2, Patience: time.Second, LevelPause: time.Hour})
	l.members = members
	at := func(d time.Duration) lease.Instant { return lease.Instant(time.Hour + d) }
	stays := func(when time.Duration, text string) {
		t.Helper()
		if level, waits := l.Rise(s, at(when)); level != 0 || !strings.Contains(waits, text) {
			t.Fatalf("after %v: level %d, %q", when, level, waits)
		}
	}
	stays(0, "it rises in 1h0m")
	stays(59*time.Minute, "it rises in 1m")
	s.Known[1].Level = 1 // rolled back
	stays(time.Hour, "(b) knows 1")
	s.Known[1].Level = 2
	stays(time.Hour+time.Minute, "it rises in 1h0m")
	members[2].Heard = time.Minute
	stays(2*time.Hour, "away")
	members[2].Heard = 0
	stays(2*time.Hour+time.Minute, "it rises in 1h0m")
	l.Follow()
	l.members = members
	stays(3*time.Hour+time.Minute, "it rises in 1h0m")
	stays(4*time.Hour, "it rises in 1m")
	if level, _ := l.Rise(s, at(4*time.Hour+time.Minute)); level != 2 {
		t.Error("it never rises")
	}
}

// A node that the group would refuse gets no replica there.
func TestANodeBelowTheLevelOfTheGroupIsNoCandidate(t *testing.T) {
	t.Parallel()
	for level, want := range map[uint64]bool{0: false, 1: false, 2: true, 3: true} {
		s := State{Self: "a", Cluster: "g", Members: Members{Voters: map[uint64]string{1: "a"}}, Departed: func(string) fsm.Departure { return fsm.Stays }}
		s.Info.Serving, s.Info.Level = true, 2
		s.Seen = []Sighting{{Node: "b", Cluster: "g", Replica: 2, Phase: PhaseJoining, Here: true, Level: level}}
		l := New(Config{Want: 3, Moment: MomentDefault})
		l.Plan(s, lease.Instant(time.Hour))
		if got := l.Asks("b") != 0; got != want {
			t.Errorf("level %d: a candidate: %v", level, got)
		}
	}
}

// A client that had said that it is gone for good was still given a replica, though the group refuses
// its Hello. A node that has left and comes back asks as one that leaves.
func TestANodeThatIsGoneForGoodIsNoCandidate(t *testing.T) {
	t.Parallel()
	for word, want := range map[fsm.Departure]bool{fsm.Stays: true, fsm.Leaves: true, fsm.Gone: false} {
		s := State{Self: "a", Cluster: "g", Members: Members{Voters: map[uint64]string{1: "a"}}, Departed: func(node string) fsm.Departure {
			if node == "b" {
				return word
			}
			return fsm.Stays
		}}
		s.Info.Serving = true
		s.Seen = []Sighting{{Node: "b", Cluster: "g", Replica: 2, Phase: PhaseJoining, Here: true}}
		l := New(Config{Want: 3, Moment: MomentDefault})
		l.Plan(s, lease.Instant(time.Hour))
		if got := l.Asks("b") != 0; got != want {
			t.Errorf("a node that %v: a candidate: %v", word, got)
		}
	}
}
