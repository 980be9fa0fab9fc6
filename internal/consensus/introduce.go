package consensus

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/hearing"
)

// Who votes asks the others when it hears no raft leader, and is heard by that: where it is, and
// whether it is the process of its node that counts. A replica that only follows asks for nothing.
// Beside a copy of its directory, of which gossip tells, it would wait for ever, and so would the
// copy. So it greets the others while it hears no raft leader.

const (
	introduceEvery = 2 * time.Second
	introduceTime  = presentFor / 2 // for the others to answer, or for the raft leader to be back
)

// introduce greets the others as long as this replica only follows and hears nobody. It returns
// when the replica ends.
func (g *Group) introduce() {
	tick := time.NewTicker(introduceEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if members := g.Members(); !members.Votes(g.cfg.Node) && !g.follows(time.Now()) {
				g.greet(members)
			}
		case <-g.carrier.ended:
			return
		case <-g.failed:
			return
		}
	}
}

// follows reports whether this replica heard a raft leader a moment ago.
func (g *Group) follows(now time.Time) bool {
	for _, heard := range g.Heard() {
		if now.Sub(heard.At) < max(introduceEvery, g.cfg.attempt()) {
			return true
		}
	}
	return false
}

// greet greets all other members at once.
func (g *Group) greet(members hearing.Members) {
	ctx, cancel := context.WithTimeout(context.Background(), introduceEvery)
	defer cancel()
	var all sync.WaitGroup
	for replica := range members.All() {
		if addr, _, err := g.nodes.Resolve(shard, replica); err == nil && replica != g.cfg.Replica {
			all.Go(func() { g.carrier.introduce(ctx, addr) })
		}
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		all.Wait()
	}()
	select {
	case <-over:
	case <-g.carrier.ended:
		cancel()
		<-over
	}
}

// introduce greets whoever is at an address, and hears what it says to that.
func (c *carrier) introduce(ctx context.Context, addr string) {
	s, err := c.dial(ctx, addr)
	if err != nil {
		return
	}
	defer s.Close()
	patience := time.NewTimer(introduceTime)
	defer patience.Stop()
	select {
	case <-s.gone:
	case <-patience.C:
	case <-ctx.Done():
	}
}
