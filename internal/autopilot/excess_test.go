package autopilot_test

import (
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/autopilot"
)

func able(m *autopilot.Member) { m.Able = true }

// client is a node that works without a replica, and asks for one.
func client(node string, with ...func(*autopilot.Member)) autopilot.Member {
	return joins(node, append(with, able)...)
}

// spare is a standby whose node could work as a client.
func spare(node string, with ...func(*autopilot.Member)) autopilot.Member {
	return standby(node, append(with, able)...)
}

// bounded is an input where so many shall follow besides those that vote.
func bounded(standbys int, in autopilot.Input) autopilot.Input {
	in.Standbys = standbys
	return in
}

// with adds members to three voters that are well.
func with(list ...autopilot.Member) autopilot.Input {
	return bounded(1, of(3, append(members{voter("a"), voter("b"), voter("c")}, list...)...))
}

func TestAsManyFollowAsShall(t *testing.T) {
	t.Parallel()
	const rests = "; 4 of 4 wanted replicas follow; clients that would take one: "
	check(t, []planned{
		{"of six nodes", bounded(1, of(3, voter("a"), client("b"), client("c"), client("d"), client("e"), client("f"), client("g", seen(time.Minute)), client("h", leaves))),
			"add standby b, add standby c, promote b, promote c, add standby d" + rests + "4"},
		{"all, where there is no bound", bounded(0, of(3, voter("a"), client("b"), client("c"), client("d"), client("e"), client("f"))),
			"add standby b, add standby c, promote b, promote c, add standby d, add standby e, add standby f; "},
		{"whoever can do nothing without, however many they are", with(client("d"), joins("e"), joins("f")),
			"add standby e, add standby f; 5 of 4 wanted replicas follow; clients that would take one: 1"},
		{"in the place of a standby that leaves", with(spare("d", leaves), client("e")), "remove d, add standby e; "},
		{"in the place of a silent one, whatever gossip says of it", with(spare("d", heard(dead)), client("e"), client("f")),
			"add standby e" + rests + "1"},
		{"not before ReplaceAfter", with(spare("d", heard(29*time.Second)), client("e")), rests + "1"},
		{"beside a dead voter that a standby that hangs cannot replace", bounded(1, of(3, voter("a"), voter("b"), voter("c", heard(dead)), spare("d", heard(dead), stuck), client("e"))),
			"add standby e, remove c, promote e; standby d has not been heard for 31s: waits until it is, or for a node that takes its place"},
	})
}

func TestAStandbyTooManyGoesOnAsAClient(t *testing.T) {
	t.Parallel()
	const rests = "; 4 of 4 wanted replicas follow; clients that would take one: "
	check(t, []planned{
		{"the younger", with(spare("d"), spare("e", fresh)), "remove e" + rests + "1"},
		{"one that has not caught up", with(spare("d", behind(1e6)), spare("e", fresh)), "remove d" + rests + "1"},
		{"one of the zone with the most replicas", bounded(1, of(3, voter("a", zone("x")), voter("b", zone("y")), voter("c", zone("y")),
			spare("d", zone("y")), spare("e", zone("z"), fresh))), "remove d" + rests + "1"},
		{"of the zone with the most replicas, though it has as many voters as the others", bounded(2, of(3, voter("a", zone("x")), voter("b", zone("y")), voter("c", zone("z")),
			spare("d", zone("x")), spare("e", zone("x")), spare("f", zone("y"), fresh))),
			"remove e; 5 of 5 wanted replicas follow; clients that would take one: 1"},
		{"one by one", with(spare("d"), spare("e"), spare("f")), "remove f, remove e" + rests + "2"},
		{"one whose node can, for those that cannot", with(standby("d", fresh), standby("e", fresh), spare("f")),
			"remove f; 5 of 4 wanted replicas follow; clients that would take one: 1"},
		{"none whose node cannot", with(standby("d"), standby("e")), "; "},
		{"none that is not heard", with(spare("d", heard(2*time.Second)), standby("e")), "; "},
		{"none beside a voter that is not heard", bounded(1, of(3, voter("a"), voter("b"), voter("c", heard(2*time.Second)), spare("d"), spare("e"))),
			"; voter c has not been heard for 2s: it is given up after 30s"},
		{"none before one has taken the place of a voter that leaves", bounded(1, of(3, voter("a"), voter("b"), voter("c", leaves), spare("d"), spare("e"))),
			"promote d, remove c; "},
		{"none before all vote that shall", bounded(1, of(3, voter("a"), voter("b"), spare("d", behind(1e6)), spare("e", behind(1e6)), spare("f", behind(1e6)))),
			"; 2 of 3 wanted voters stay: waits until a standby has caught up"},
		{"beside more voters than shall vote", bounded(1, of(3, voter("a"), voter("b"), voter("c"), voter("d"), voter("e"), spare("f"))),
			"remove f; 5 of 4 wanted replicas follow; clients that would take one: 1"},
		{"none where there is no bound", bounded(0, with(spare("d"), spare("e"))), "; "},
	})
}

// A voter that leaves may be let go only when the others have been heard since it said so.
func TestNoStandbyIsRemovedBesideAVoterThatLeaves(t *testing.T) {
	t.Parallel()
	in := with(voter("d", leaves), spare("e"), spare("f"))
	in.Members[1].Heard, in.Members[2].Heard, in.Changed = 700*time.Millisecond, 700*time.Millisecond, 10*time.Millisecond
	if p := autopilot.Next(in); p.Kind != autopilot.Wait {
		t.Errorf("%v", p)
	}
}

func TestAStandbyIsOneOfAZoneAndHostThatTheReplicasDoNotHave(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		in   autopilot.Input
		want string
	}{
		{"a zone without a standby, though voters have it alike", bounded(3, of(3, voter("a", zone("x")), voter("b", zone("y")), voter("c", zone("z")),
			spare("d", zone("x")), client("e", zone("x")), client("f", zone("y")))), "f"},
		{"a host without a replica", bounded(3, of(3, voter("a", zone("x/1")), voter("b", zone("x/2")), voter("c", zone("x/3")),
			spare("d", zone("x/4")), client("e", zone("x/4")), client("f", zone("x/5")))), "f"},
		{"the zone of a standby that is silent for long", bounded(3, of(3, voter("a", zone("x")), voter("b", zone("y")), voter("c", zone("z")),
			spare("d", zone("y"), heard(dead)), spare("e", zone("x")), client("f", zone("x")), client("g", zone("y")))), "g"},
		{"the node with a disk", with(client("e"), client("f", disk)), "f"},
	} {
		if p := autopilot.Next(c.in); p.Kind != autopilot.AddStandby || p.Node != c.want {
			t.Errorf("%s: %v %s, want %s", c.name, p.Kind, p.Node, c.want)
		}
	}
}

func TestThePlanSaysThatClientsWait(t *testing.T) {
	t.Parallel()
	for want, in := range map[string]autopilot.Input{
		"the membership is as wanted": with(spare("d")),
		"the membership is as wanted: 4 of 4 wanted replicas follow; clients that would take one: 1": with(spare("d"), client("e")),
		"remove e: 5 replicas follow, 4 shall: it goes on as a client":                               with(spare("d"), spare("e")),
	} {
		if got := autopilot.Next(in).String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// Beyond Replicas a zone that was without a replica once had none ever after: after a voter's death a
// client of its zone became a standby at best, and after an outage of the zone not even that.
func TestAZoneThatLacksAReplicaIsGivenOneForThatOfACrowdedZone(t *testing.T) {
	t.Parallel()
	const rests = "; 5 of 5 wanted replicas follow; clients that would take one: "
	in := func(z string) func(*autopilot.Member) { return zone(z) }
	fleet := func(list ...autopilot.Member) autopilot.Input { return bounded(2, of(3, list...)) }
	check(t, []planned{
		{"a voter of the third zone dies", fleet(voter("a", in("x")), voter("b", in("y")), voter("c", in("z"), heard(dead)),
			spare("d", in("x")), spare("e", in("y")), client("f", in("y")), client("g", in("z"))),
			"remove c, promote d, add standby g" + rests + "1"},
		{"and then one of the crowded zone", fleet(voter("a", in("y")), voter("b", in("x"), heard(dead)), voter("d", in("x")),
			spare("e", in("y")), spare("g", in("z"), fresh), client("f", in("y"))),
			"remove b, promote g, add standby f; "},
		{"the third zone is back after an outage", fleet(voter("a", in("x")), voter("b", in("y")), voter("d", in("x")),
			spare("e", in("y")), spare("f", in("x")), client("g", in("z")), client("h", in("z")), client("i", in("y"))),
			"add standby g, remove f" + rests + "3"},
		{"and has two of five voters, of which none moves", bounded(2, of(5, voter("a", in("x")), voter("b", in("y")), voter("c", in("x")), voter("d", in("y")), voter("e", in("x")),
			spare("f", in("x")), spare("g", in("y")), client("h", in("z")), client("i", in("z")))),
			"add standby h, remove f, add standby i, remove g; 7 of 7 wanted replicas follow; clients that would take one: 2"},
		{"a host", fleet(voter("a", in("x/1")), voter("b", in("x/2")), voter("c", in("x/3")), spare("d", in("x/1")), spare("e", in("x/2")), client("f", in("x/4"))),
			"add standby f, remove e" + rests + "1"},
		{"not before the newcomer could vote", fleet(voter("a", in("x")), voter("b", in("y")), voter("d", in("x")),
			spare("e", in("y")), spare("f", in("x")), spare("g", in("z"), starts)), "; "},
		{"nor before it is heard at all", fleet(voter("a", in("x")), voter("b", in("y")), voter("d", in("x")),
			spare("e", in("y")), spare("f", in("x")), spare("g", in("z"), starts, heard(20*time.Second))), "; "},
		{"not while a standby is silent, which may be the one of that zone", fleet(voter("a", in("x")), voter("b", in("y")), voter("d", in("x")),
			spare("e", in("y")), spare("f", in("x"), heard(2*time.Second)), client("g", in("z"))), rests + "1"},
		{"nor before the last newcomer could vote", fleet(voter("a", in("x")), voter("b", in("y")), voter("d", in("x")),
			spare("e", in("y"), young), spare("f", in("x")), client("g", in("z"))), rests + "1"},
		{"none whose node can do nothing without", fleet(voter("a", in("x")), voter("b", in("y")), voter("d", in("x")),
			standby("e", in("y")), standby("f", in("x")), client("g", in("z"))), rests + "1"},
		{"none for one better place alone", fleet(voter("a", in("x")), voter("b", in("y")), voter("c", in("z")),
			spare("d", in("x")), spare("e", in("y")), client("f", in("z"))), rests + "1"},
	})
}

// Nothing said that a place is free for want of a node, nor that a silent standby keeps its place for a while.
func TestThePlanSaysThatASilentStandbyIsMissed(t *testing.T) {
	t.Parallel()
	two := func(list ...autopilot.Member) autopilot.Input {
		return bounded(1, of(3, append(members{voter("a"), voter("b")}, list...)...))
	}
	check(t, []planned{
		{"it has no successor", with(spare("d", heard(dead))), "; standby d has not been heard for 31s: waits until it is, or for a node that takes its place"},
		{"the one silent for longest", bounded(2, with(spare("d", heard(dead)), spare("e", heard(time.Minute)))),
			"; standby e has not been heard for 1m0s: waits until it is, or for a node that takes its place"},
		{"not before its place is free", with(spare("d", heard(29*time.Second))), "; "},
		{"nor where each node has a replica", bounded(0, with(spare("d", heard(dead)))), "; "},
		{"a voter is missing, and clients wait for its place", two(spare("d", heard(2*time.Second)), spare("e", heard(2*time.Second)), client("f"), client("g")),
			"; 2 of 3 wanted voters stay: waits for standby d, which is not heard: a client takes its place after 30s"},
		{"and none does", two(spare("d", heard(2*time.Second))), "; 2 of 3 wanted voters stay: waits for standby d, which is not heard, or another node"},
	})
}

func TestAReasonToAddAStandbySaysWhyThatOne(t *testing.T) {
	t.Parallel()
	three := func(standbys int, list ...autopilot.Member) autopilot.Input {
		return bounded(standbys, of(3, append(members{voter("a", zone("x/1")), voter("b", zone("x/2")), voter("c", zone("y/1"))}, list...)...))
	}
	for want, in := range map[string]autopilot.Input{
		"no replica in zone z":                                 three(1, client("d", zone("z")), client("e", zone("y/2"))),
		"no replica on host y/2":                               three(1, client("d", zone("y/2")), client("e", zone("x/3"))),
		"3 of 4 wanted replicas follow":                        three(1, client("d", zone("y/1"))),
		"it can do nothing without a replica":                  three(1, joins("d", zone("z")), client("e", zone("z"))),
		"every node shall have a replica":                      three(0, client("d", zone("y/1"))),
		"a standby of a more crowded zone or host goes for it": three(1, spare("d", zone("x/1")), client("e", zone("z"))),
	} {
		if p := autopilot.Next(in); p.Kind != autopilot.AddStandby || p.Reason != "it joins: "+want {
			t.Errorf("%v, want %q", p, want)
		}
	}
}

// Among candidates of like places and disks the lowest id was taken, though an operator is told that age decides.
func TestOfLikeCandidatesTheOneThatHasAskedForLongestIsTaken(t *testing.T) {
	t.Parallel()
	if p := autopilot.Next(with(client("e", young), client("f"))); p.Kind != autopilot.AddStandby || p.Node != "f" {
		t.Errorf("%v", p)
	}
}

// A link to one zone was cut, and gossip went around it: each standby of the zone that the raft leader could
// not reach counted as none after half a minute, so the next client of the zone was given its place, one
// after the other, while those of the other zones asked.
func TestAZoneThatIsNotReachedIsNotGivenOnePlaceAfterTheOther(t *testing.T) {
	t.Parallel()
	in := bounded(2, of(3, voter("a", zone("x")), voter("b", zone("y")), voter("c", zone("x")),
		spare("d", zone("z"), heard(dead)), spare("e", zone("z"), heard(dead)),
		client("z1", zone("z")), client("z2", zone("z")), client("z3", zone("z")), client("x1", zone("x")), client("y1", zone("y")), client("y2", zone("y"))))
	var added []string
	for range 8 {
		p := autopilot.Next(in)
		if p.Kind != autopilot.AddStandby {
			break
		}
		added = append(added, p.Node)
		for i := range in.Members {
			if m := &in.Members[i]; m.Node == p.Node {
				m.Role, m.Running, m.Age = autopilot.Standby, m.Zone != "z", time.Minute
				if m.Zone == "z" {
					m.Heard = dead // and never in this life
				}
			}
		}
	}
	if want := []string{"z1", "y1", "z2", "x1"}; !slices.Equal(added, want) {
		t.Errorf("%q are given a replica, want %q", added, want)
	}
}
