package consensus

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/autopilot"
	"github.com/holdfast-go/holdfast/internal/consensus/engine"
)

// A voter without a raft leader campaigns, and its peers learn its address and incarnation from
// that. A standby sends nothing by itself. If gossip names the address of a copy of its directory,
// it would wait forever, and so would the copy. So a standby without a raft leader greets the other
// members.

const introduceEvery = 2 * time.Second

// introduce greets the others as long as this replica is a standby and hears no raft leader. It
// returns when the replica ends.
func (g *Group) introduce() {
	tick := time.NewTicker(introduceEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if members := g.Members(); !members.Votes(g.cfg.Node) && !g.follows(time.Now()) {
				g.greet(members)
			}
		case <-g.carrier.Context().Done():
			return
		}
	}
}

// follows reports whether this replica has just heard a raft leader.
func (g *Group) follows(now time.Time) bool {
	for _, heard := range g.Heard() {
		if now.Sub(heard.At) < max(introduceEvery, g.cfg.attempt()) {
			return true
		}
	}
	return false
}

// greet greets all other members at once.
func (g *Group) greet(members autopilot.Members) {
	ctx, cancel := context.WithTimeout(g.carrier.Context(), introduceEvery)
	defer cancel()
	var all sync.WaitGroup
	for replica := range members.All() {
		if addr, _, err := g.nodes.Resolve(engine.Shard, replica); err == nil && replica != g.cfg.Replica {
			all.Go(func() { g.carrier.Introduce(ctx, addr) })
		}
	}
	all.Wait()
}
