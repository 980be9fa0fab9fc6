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
		now := make(map[process]time.Time)
		var mu sync.Mutex
		var all sync.WaitGroup
		for _, node := range nodes[:min(len(nodes), reachMax)] {
			m, ok := n.gossip.Member(node)
			if !ok {
				continue
			}
			all.Go(func() {
				if n.probe(ctx, m.Addr, m.Node, m.Incarnation) == nil {
					mu.Lock()
					defer mu.Unlock()
					now[processOf(m)] = time.Now()
				}
			})
		}
		all.Wait()
		a.mu.Lock()
		defer a.mu.Unlock()
		a.at, a.seeking = now, false
	})
}
