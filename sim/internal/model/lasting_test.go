package model_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/sim/internal/model"
)

// small is a plan of a fleet under faults. Two callers take one lock again and again, on nodes of their own,
// and the holder goes on with its work for a second.
func small(nodes int, faults ...model.Fault) model.Plan {
	p := model.Plan{
		Seed: 1, Nodes: nodes, Voters: 3, Election: 200 * time.Millisecond, Snapshot: 40, Drift: 0.01, Compared: true,
		Net: model.Net{Delay: time.Millisecond}, TTLs: []time.Duration{2 * time.Second}, Locks: []model.Kind{{}},
		Duration: 40 * time.Second, Faults: faults,
	}
	for range nodes {
		p.Rates = append(p.Rates, 1)
	}
	for at := time.Duration(0); at < p.Duration; at += time.Second {
		for node := range 2 {
			p.Calls = append(p.Calls, model.Call{
				Caller: node, Node: node, At: at, Wait: true, Patience: 10 * time.Second, Asker: -1, Works: 2, Hold: time.Second,
			})
		}
	}
	return p
}

// The holder is stopped with its clocks until the lock has another holder, as it was cut off: it finds that
// out from the first message. A product that does not compare clocks is found out.
func TestAHolderWhoseClocksStoodStillIsMisledUntilTheFirstMessage(t *testing.T) {
	t.Parallel()
	misled, missed := uint64(0), 0
	for node := range 2 {
		for at := 5 * time.Second; at < 9*time.Second; at += time.Second / 2 {
			p := small(3,
				model.Fault{Kind: model.Freeze, At: at, For: 5 * time.Second, Node: node},
				model.Fault{Kind: model.Cut, At: at + time.Second, For: 8 * time.Second, Node: node})
			r := model.Run(p)
			if r.Violation != nil || r.Stats.Stopped == 0 {
				t.Errorf("node %d at %v: %v, it was found out %d times", node, at, r.Violation, r.Stats.Stopped)
			}
			misled += r.Stats.Misled
			p.Compared = false
			if v := model.Run(p).Violation; v != nil && v.Rule == "a clock that stood still is found out" {
				missed++
			}
		}
	}
	if misled == 0 || missed == 0 {
		t.Errorf("%d holders were misled, %d runs noticed that no clock is compared", misled, missed)
	}
}

// A raft leader that reaches nobody with an entry cannot change the membership either.
func TestAVoterThatIsHeardWithoutProgressIsReplaced(t *testing.T) {
	t.Parallel()
	const leads = 1 // by the seed
	for node := range 3 {
		p := small(4, model.Fault{Kind: model.Large, At: 5 * time.Second, For: 30 * time.Second, Node: node, Other: node})
		p.Planned, p.ReplaceAfter = true, 11*time.Second
		if r := model.Run(p); r.Violation != nil || r.Stats.Stuck == 0 != (node == leads) || r.Stats.Large == 0 {
			t.Errorf("node %d: %v, %d voters without progress removed, %d messages lost", node, r.Violation, r.Stats.Stuck, r.Stats.Large)
		}
	}
}

// What is proposed on a node whose disk hangs is carried out when the disk goes on, if at all: long after its
// caller has given up.
func TestANodeWhoseDiskHangsAcknowledgesNothingAndGoesOnWithWhatItHad(t *testing.T) {
	t.Parallel()
	for node := range 3 {
		p := small(3, model.Fault{Kind: model.Hang, At: 5 * time.Second, For: 10 * time.Second, Node: node})
		r := model.Run(p)
		if r.Violation != nil || r.Stats.Hung != 1 || node < 2 && r.Stats.Unknown == 0 {
			t.Errorf("node %d: %v, %d disks hung, %d unknown outcomes", node, r.Violation, r.Stats.Hung, r.Stats.Unknown)
		}
	}
}
