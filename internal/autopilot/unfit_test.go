package autopilot_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/autopilot"
	"github.com/holdfast-go/holdfast/internal/lease"
)

func sickly(m *autopilot.Member) { m.Unfit = true }

// A client whose disk is full was given a replica, could not start it and died; so did the next one of the same
// zone, and each standby that never was counted for its group, as gossip saw its node.
func TestAClientWhoseDiskBearsNoReplicaIsGivenNone(t *testing.T) {
	t.Parallel()
	const rests = "; 4 of 4 wanted replicas follow; clients that would take one: "
	check(t, []planned{
		{"another is", with(client("d", sickly), client("e"), client("f")), "add standby e" + rests + "1"},
		{"none, where no disk bears one", with(client("d", sickly), client("e", sickly)), "; "},
		{"and none that it could not start", with(spare("d", sickly, starts, heard(2*time.Second)), client("e")), "remove d, add standby e; "},
		{"one by one", with(spare("d", sickly, starts, heard(2*time.Second)), spare("e", sickly, starts, heard(dead)), client("f")),
			"remove d, remove e, add standby f; "},
		{"unless it is heard", with(spare("d", sickly), client("e")), rests + "1"},
		{"which costs no voter its place", with(spare("d"), voter("e", sickly, heard(2*time.Second))),
			"; voter e has not been heard for 2s: it is given up after 30s"},
		{"and keeps none from its end", bounded(1, of(3, voter("a", leaves), voter("b", leaves), spare("d", sickly, starts, heard(2*time.Second)))),
			"remove d; a leaves, and nobody stays: all can only close"},
	})
}

// What gossip says of a disk is about the replica that the node asks for: it costs no other its place.
func TestOnlyTheReplicaThatANodeAsksForIsUnfit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		replica uint64
		phase   autopilot.Phase
		want    autopilot.Kind
	}{
		"this one":              {5, autopilot.PhaseJoining, autopilot.Remove},
		"one of a former life":  {4, autopilot.PhaseJoining, autopilot.Wait},
		"one that has begun":    {5, autopilot.PhaseStarting, autopilot.Wait},
		"one that has begun so": {5, autopilot.PhaseRunning, autopilot.Wait},
	} {
		l := autopilot.New(autopilot.Config{Want: 3, Standbys: 1, Moment: time.Second, ReplaceAfter: time.Minute, LaterLife: func(string, uint64, uint64) bool { return false }})
		s := autopilot.State{
			Self: "a", Cluster: "group", Term: 1, Info: fsm.Info{Born: true, Serving: true},
			Members:  autopilot.Members{Voters: map[uint64]string{1: "a"}, Standbys: map[uint64]string{5: "b"}, Change: 3},
			Departed: func(string) fsm.Departure { return fsm.Stays },
			Seen:     []autopilot.Sighting{{Node: "b", Cluster: "group", Replica: c.replica, Phase: c.phase, Here: true, Able: true, Client: true, Unfit: true}},
		}
		now := lease.Instant(time.Hour)
		if p := l.Plan(s, now); p.Kind != autopilot.Barrier {
			t.Fatalf("%s: %v", name, p)
		}
		l.Carried(autopilot.Plan{Kind: autopilot.Barrier}, autopilot.Done, 3, now)
		var p autopilot.Plan
		for range 20 {
			now += lease.Instant(100 * time.Millisecond)
			p = l.Plan(s, now)
		}
		if p.Kind != c.want || p.Kind == autopilot.Remove && p.Node != "b" {
			t.Errorf("%s: %v", name, p)
		}
	}
}
