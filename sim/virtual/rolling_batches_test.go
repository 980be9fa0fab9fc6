package virtual_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/sim"
)

// Ten pods are updated in batches of three: those of a batch leave at one moment, and the next
// batch follows when their successors are ready. README's own code, with Close instead of Leave,
// lost the group at the second batch.
func TestARollingUpdateOfTenPodsInBatchesOfThreeIsHardlySeen(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		voters   int
		diskless bool
		end      func(n *sim.Node) // after Leave
	}{
		{"pods without disks", 3, true, (*sim.Node).Replace},
		{"pods with disks at their addresses", 3, false, func(*sim.Node) {}},
		{"pods with disks that move", 3, false, (*sim.Node).Replace},
		{"five voters without disks", 5, true, (*sim.Node).Replace},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := &meter{t: t}
			sim.Run(t, sim.Options{
				Nodes: 10, Diskless: c.diskless, Service: m.work,
				Config: func(_ int, cfg *holdfast.Config) { cfg.Voters = c.voters },
			}, func(s *sim.Sim) {
				group := s.Node(0).Cluster().Status().ClusterID
				time.Sleep(2 * time.Second)
				m.Reset()
				began := time.Now()
				s.Roll(3, func(n *sim.Node) {
					if err := n.Leave(testkit.Until(30 * time.Second)); err != nil {
						t.Errorf("node %d leaves: %v", n.Index(), err)
					}
					c.end(n)
				})
				took := time.Since(began)
				time.Sleep(2 * time.Second)
				gap, turns := m.Read()
				t.Logf("%s: the update took %v; %d turns, the longest gap %v", c.name, took, turns, gap)
				if gap > testkit.GapMax || turns < 100 {
					t.Errorf("%d turns, and nobody had the lock for %v", turns, gap)
				}
				for _, n := range s.Nodes() {
					if st := n.Cluster().Status(); st.ClusterID != group || len(st.Voters) < c.voters {
						t.Errorf("node %d: %+v, the group was %s", n.Index(), st, group)
					}
				}
			})
		})
	}
}

// meter is a service that wants one lock again and again, on every node, and one of its own for as
// long as the node stays.
type meter struct {
	testkit.Meter
	t *testing.T
}

func (m *meter) work(ctx context.Context, n *sim.Node, c *holdfast.Cluster) error {
	own, err := c.Acquire(ctx, fmt.Sprint("own of ", n.Index()))
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		l, err := c.Acquire(ctx, "door")
		if err != nil {
			break
		}
		m.Turn()
		leave := n.Section("door").Enter(ctx, l.Token())
		time.Sleep(20 * time.Millisecond)
		leave()
		_ = l.Release(context.WithoutCancel(ctx))
	}
	if !own.Valid() {
		m.t.Errorf("node %d lost a lease before it left: %v", n.Index(), own.Err())
	}
	return nil
}
