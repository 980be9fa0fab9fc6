package autopilot_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/autopilot"
)

func well(node, zone string) autopilot.Replica {
	return autopilot.Replica{Node: node, Zone: zone, Alive: true, CaughtUp: true, Stable: time.Minute}
}

func failed(node string, since time.Duration) autopilot.Replica {
	return autopilot.Replica{Node: node, Failed: since}
}

func left(r autopilot.Replica) autopilot.Replica { r.Left = true; return r }

func lagging(node string) autopilot.Replica { return autopilot.Replica{Node: node, Alive: true} }

type replicas = []autopilot.Replica

func TestNextChangeOfTypicalFleets(t *testing.T) {
	t.Parallel()
	long := time.Minute
	two := replicas{well("a", ""), well("b", "")}
	three := replicas{well("a", ""), well("b", ""), well("c", "")}
	for _, c := range []struct {
		name string
		in   autopilot.Input
		kind autopilot.Kind
		node string
	}{
		{"a complete fleet rests", autopilot.Input{Voters: three}, autopilot.None, ""},
		{"a founder adds who joins", autopilot.Input{Voters: three[:1], Candidates: []autopilot.Candidate{{Node: "c"}, {Node: "b"}}}, autopilot.AddNonVoter, "b"},
		{"a non-voter that lags is not promoted", autopilot.Input{Voters: two, NonVoters: replicas{lagging("c")}}, autopilot.None, ""},
		{"a non-voter that has caught up is", autopilot.Input{Voters: two, NonVoters: replicas{well("c", "")}}, autopilot.Promote, "c"},
		{"one that flaps is not", autopilot.Input{Voters: two, NonVoters: replicas{well("c", "")}, StableAfter: time.Hour}, autopilot.None, ""},
		{"a fourth stays a non-voter", autopilot.Input{Voters: three, NonVoters: replicas{well("d", "")}}, autopilot.None, ""},
		{"a voter that failed just now is kept", autopilot.Input{Voters: append(two, failed("c", 29*time.Second)), NonVoters: replicas{well("d", "")}}, autopilot.None, ""},
		{"one that failed for long is replaced first", autopilot.Input{Voters: append(two, failed("c", long)), NonVoters: replicas{well("d", "")}}, autopilot.Promote, "d"},
		{"and removed then", autopilot.Input{Voters: append(three, failed("d", long))}, autopilot.Remove, "d"},
		{"without a successor it stays", autopilot.Input{Voters: append(two, failed("c", long))}, autopilot.None, ""},
		{"a voter that left is removed at once", autopilot.Input{Voters: append(two, left(failed("c", 0))), NonVoters: replicas{well("d", "")}}, autopilot.Remove, "c"},
		{"two that leave together are removed one by one", autopilot.Input{Voters: replicas{well("a", ""), left(well("b", "")), left(well("c", ""))}}, autopilot.Remove, "b"},
		{"one that cannot be spared waits", autopilot.Input{Voters: replicas{well("a", ""), left(well("b", "")), failed("c", time.Second)}}, autopilot.None, ""},
		{"until the failed one is given up", autopilot.Input{Voters: replicas{well("a", ""), left(well("b", "")), failed("c", long)}}, autopilot.Remove, "c"},
		{"a voter that lags is not removed", autopilot.Input{Voters: append(three, lagging("d"))}, autopilot.None, ""},
		{"the raft leader does not remove itself", autopilot.Input{Voters: replicas{left(well("a", "")), well("b", "")}}, autopilot.None, ""},
		{"nothing changes without a healthy majority", autopilot.Input{Voters: replicas{well("a", ""), failed("b", long), failed("c", long)}, NonVoters: replicas{well("d", "")}, Candidates: []autopilot.Candidate{{Node: "e"}}}, autopilot.None, ""},
		{"a non-voter that left is removed", autopilot.Input{Voters: three, NonVoters: replicas{left(well("d", ""))}}, autopilot.Remove, "d"},
		{"one that failed is given time", autopilot.Input{Voters: three, NonVoters: replicas{failed("d", 299*time.Second)}}, autopilot.None, ""},
		{"but not for ever", autopilot.Input{Voters: three, NonVoters: replicas{failed("d", 301*time.Second)}}, autopilot.Remove, "d"},
		{"who has a replica is not added again", autopilot.Input{Voters: three, Candidates: []autopilot.Candidate{{Node: "a"}}}, autopilot.None, ""},
		{"a group without voters is left alone", autopilot.Input{Candidates: []autopilot.Candidate{{Node: "a"}}}, autopilot.None, ""},
	} {
		c.in.Self, c.in.Want = "a", 3
		if got := autopilot.Next(c.in); got.Kind != c.kind || got.Node != c.node {
			t.Errorf("%s: %v %q (%s), want %v %q", c.name, got.Kind, got.Node, got.Reason, c.kind, c.node)
		}
	}
}

func TestVotersAreSpreadOverZones(t *testing.T) {
	t.Parallel()
	in := autopilot.Input{
		Self: "a", Want: 3,
		Voters:    replicas{well("a", "east"), well("b", "west")},
		NonVoters: replicas{well("c", "east"), well("d", "west"), well("e", "north"), lagging("f")},
	}
	if got := autopilot.Next(in); got.Kind != autopilot.Promote || got.Node != "e" {
		t.Errorf("promoted %q, want the node in the zone without a voter", got.Node)
	}
	in.Voters = append(in.Voters, well("g", "west"))
	in.NonVoters, in.Candidates = nil, []autopilot.Candidate{{Node: "h", Zone: "west"}, {Node: "i", Zone: "north"}}
	if got := autopilot.Next(in); got.Kind != autopilot.AddNonVoter || got.Node != "i" {
		t.Errorf("added %q, want the node in the zone without a voter", got.Node)
	}
}

func TestVoterThatFailedInAZoneIsReplacedInThatZone(t *testing.T) {
	t.Parallel()
	dead := failed("c", time.Minute)
	dead.Zone = "north"
	in := autopilot.Input{
		Self: "a", Want: 3,
		Voters:    replicas{well("a", "east"), well("b", "west"), dead},
		NonVoters: replicas{well("d", "west"), well("e", "north")},
	}
	if got := autopilot.Next(in); got.Node != "e" {
		t.Errorf("replaced by %q, want the node of the same zone", got.Node)
	}
}

func TestKindsHaveNames(t *testing.T) {
	t.Parallel()
	for kind, want := range map[autopilot.Kind]string{
		autopilot.None: "none", autopilot.AddNonVoter: "add non-voter", autopilot.Promote: "promote",
		autopilot.Remove: "remove", 99: "unknown",
	} {
		if kind.String() != want {
			t.Errorf("%d is %q, want %q", kind, kind, want)
		}
	}
}
