package node

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/membership"
)

// answerLasts is for how long an answer to a probe says who is at an address.
const answerLasts = 2 * time.Second

// answers are the processes that have answered at their addresses to this raft leader.
type answers struct {
	mu      sync.Mutex
	at      map[process]time.Time
	seeking bool
}

type process struct {
	node, addr  string
	incarnation uint64
}

func processOf(m membership.Member) process { return process{m.Node, m.Addr, m.Incarnation} }

// lately reports whether a process has just answered.
func (a *answers) lately(m membership.Member) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	at, ok := a.at[processOf(m)]
	return ok && time.Since(at) < answerLasts
}

// seek probes nodes in the background, one round at a time; the pilot polls again soon.
func (a *answers) seek(n *Node, nodes []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(nodes) == 0 || a.seeking {
		return
	}
	a.seeking = n.Go(func(ctx context.Context) {
		var targets []membership.Member
		for _, node := range nodes[:min(len(nodes), reachMax)] {
			if m, ok := n.gossip.Member(node); ok {
				targets = append(targets, m)
			}
		}
		came := together(targets, func(m membership.Member) (at time.Time) {
			if n.probe(ctx, m.Addr, m.Node, m.Incarnation) == nil {
				at = time.Now()
			}
			return at
		})
		now := make(map[process]time.Time)
		for i, m := range targets {
			if !came[i].IsZero() {
				now[processOf(m)] = came[i]
			}
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		a.at, a.seeking = now, false
	})
}
