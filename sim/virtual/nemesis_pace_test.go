package virtual_test

import (
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/sim/internal/history"
	"github.com/holdfast-go/holdfast/sim/internal/workload"
)

// pace is how often things happen in a run, and for how long. What changes who belongs to the group
// takes long times and few calls; what goes wrong between calls takes many calls.
type pace struct {
	name               string
	minutes            int
	users              workload.Pace
	operate            time.Duration // the longest pause before an operator revokes a node
	faultPause, backup time.Duration // the longest pause between faults, and before a backup is made or put back
	faults             int64         // at a time
	hours, moves       int           // the percentage of faults that last for hours, and the share of moves and leaving nodes
	survey             time.Duration // how often it is looked who votes
	ttls, longs        []time.Duration
	least              history.Figures // of all runs together
}

// dense has many calls, and faults that last for seconds: for runs of minutes.
func dense() pace {
	return pace{
		name: "dense", minutes: 2,
		users: workload.Pace{
			Call: 500 * time.Millisecond, Keep: 5 * time.Second, Lead: time.Second, Look: time.Second, Burden: time.Second,
			Job: 3 * time.Second, Hold: 4 * time.Minute, Patience: 90 * time.Second, Glance: 300 * time.Millisecond, Gaze: 300 * time.Millisecond,
		},
		operate: 30 * time.Second, faultPause: 5 * time.Second, backup: time.Minute, faults: 2, survey: 150 * time.Millisecond,
		ttls:  []time.Duration{3 * time.Second, 5 * time.Second}, // ten elections: docs/operations.md
		longs: []time.Duration{2 * time.Minute, 10 * time.Minute, time.Hour},
		least: history.Figures{
			Calls: 200, Grants: 50, Refused: 20, Expired: 1, Verified: 20, Looked: 50, Sets: 50, Runs: 5, Ills: 10, Leaders: 10,
			Wholes: 5, Rests: 5, Freed: 1, Longs: 5, Revoked: 1, LeaderReads: 10, Observed: 30, Told: 1000, Resyncs: 1,
		},
	}
}

// sparse has few calls, long TTLs, and faults up to hours: for runs of hours.
func sparse() pace {
	return pace{
		name: "sparse", minutes: 4 * 60,
		users: workload.Pace{
			Call: 3 * time.Minute, Keep: time.Minute, Lead: 10 * time.Minute, Look: 4 * time.Minute, Burden: time.Hour,
			Job: 10 * time.Minute, Hold: time.Hour, Patience: 20 * time.Minute, Glance: 5 * time.Second, Gaze: 30 * time.Second,
		},
		operate: time.Hour, faultPause: 2 * time.Minute, backup: 40 * time.Minute, faults: 3, hours: 5, moves: 20, survey: 500 * time.Millisecond,
		ttls: []time.Duration{30 * time.Second, time.Minute}, longs: []time.Duration{10 * time.Minute, time.Hour, 6 * time.Hour},
		least: history.Figures{
			Calls: 500, Grants: 200, Refused: 20, Expired: 1, Verified: 50, Looked: 100, Runs: 5, Ills: 50, Leaders: 10,
			Wholes: 5, Rests: 5, Longs: 50, Revoked: 1, LeaderReads: 10, Observed: 30, Told: 1000,
		},
	}
}

func paceFromEnv(t *testing.T) pace {
	t.Helper()
	switch name := os.Getenv(paceVar); name {
	case "", "dense":
		return dense()
	case "sparse":
		return sparse()
	default:
		t.Fatalf("%s: %q is neither dense nor sparse", paceVar, name)
		return pace{}
	}
}

// timing is how quick the group's Raft is: in a sparse run mostly slow, as ticks are what an idle
// fleet costs.
func (p pace) timing(r *rand.Rand) (t holdfast.Timing) {
	if p.name != "sparse" {
		return t
	}
	switch what := r.IntN(100); {
	case what < 10:
	case what < 40:
		t = holdfast.Timing{Tick: 100 * time.Millisecond, Heartbeat: 200 * time.Millisecond, Election: time.Second}
	default:
		t = holdfast.Timing{Tick: 500 * time.Millisecond, Heartbeat: time.Second, Election: 4 * time.Second}
	}
	return t
}

// slower is how much longer than with the default timing it may take until a raft leader serves.
func slower(t holdfast.Timing) time.Duration { return 10 * t.Election }

// lasts is how long a fault is in force: mostly around the TTL, sometimes long enough to be
// replaced, now and then for long after that, and in a sparse run for hours.
func (x *nemesis) lasts(r *rand.Rand) time.Duration {
	d := workload.UpTo(r, 2*x.ttl)
	switch what := r.IntN(100); {
	case what < 2:
		d += replaced + workload.UpTo(r, 9*time.Minute)
	case what < 10:
		d += replaced + workload.UpTo(r, 20*time.Second)
	case what < 10+x.pace.hours:
		d += workload.UpTo(r, 2*time.Hour)
	case what < 10+4*x.pace.hours:
		d += workload.UpTo(r, 10*time.Minute)
	}
	return d
}
