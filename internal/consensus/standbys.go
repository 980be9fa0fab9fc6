package consensus

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
)

// While linearizable reads are under way the engine's heartbeats confirm them, and such heartbeats go to voters
// alone. Under reads without a pause a standby would hear no raft leader, and serve nobody; and the raft leader
// would not hear the standby, and not take it for one that may replace a dead voter. Entries go to standbys,
// too, so the raft leader proposes one that changes nothing where a standby falls silent under reads.

// quietHeartbeats is for how many heartbeats a standby may be silent.
const quietHeartbeats = 3

// reachStandbys runs while this replica is the raft leader of a view.
func (g *Group) reachStandbys(view *leaderView) {
	if view.replica != g.cfg.Replica {
		return
	}
	g.carrier.Run(func() {
		look := time.NewTicker(quietHeartbeats * g.cfg.Heartbeat)
		defer look.Stop()
		for asked := (time.Time{}); ; {
			select {
			case <-look.C:
			case <-view.changed:
				return
			case <-g.carrier.Context().Done():
				return
			}
			if g.missesStandby(asked) {
				asked = time.Now()
				ctx, cancel := context.WithTimeout(g.carrier.Context(), g.cfg.Election)
				_, _ = g.Propose(ctx, fsm.Encode(fsm.Raise{})) // if it fails, another one follows
				cancel()
			}
		}
	})
}

// missesStandby reports whether reads are under way, and a standby with a connection here is silent. One that
// was silent as the last entry was proposed for it, at asked, has an election timeout to answer that.
func (g *Group) missesStandby(asked time.Time) bool {
	quiet := quietHeartbeats * g.cfg.Heartbeat
	if time.Since(g.nodes.Confirmed()) >= quiet {
		return false
	}
	heard, answering := g.Heard(), time.Since(asked) < g.cfg.Election
	for replica := range g.Members().Standbys {
		at := heard[replica].At
		if time.Since(at) >= quiet && (!answering || at.After(asked)) && g.nodes.HasConnection(replica) {
			return true
		}
	}
	return false
}
