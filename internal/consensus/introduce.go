package consensus

import (
	"context"
	"sync"
	"time"
)

// A voter without a raft leader campaigns, and its peers learn its address and incarnation from
// that. A standby sends nothing by itself. If gossip names the address of a copy of its directory,
// it would wait forever, and so would the copy. So a standby without a raft leader greets the other
// members.

const introduceEvery = 2 * time.Second

// Introduce greets the other members if this replica is a standby and hears no raft leader, at most once in
// introduceEvery. It never blocks. It is for one goroutine, to be called now and then.
func (g *Group) Introduce() {
	now := time.Now()
	if now.Sub(g.introduced) < introduceEvery {
		return
	}
	if g.introduced = now; !g.Members().Votes(g.cfg.Node) && !g.follows(now) {
		g.greetings.Call()
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
func (g *Group) greet() {
	ctx, cancel := context.WithTimeout(g.carrier.Context(), introduceEvery)
	defer cancel()
	var all sync.WaitGroup
	for replica := range g.Members().All() {
		if addr, err := g.nodes.Locate(replica); err == nil && replica != g.cfg.Replica {
			all.Go(func() { g.carrier.Introduce(ctx, addr) })
		}
	}
	all.Wait()
}
