package processes_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

// agreed reports whether all name one raft leader, another than the victim.
func (p *patients) agreed(victim int) bool {
	named := make(map[string]bool)
	for _, c := range p.nodes {
		named[c.Status().RaftLeader] = true
	}
	return len(named) == 1 && !named[""] && !named[p.nodes[victim].ID()]
}

// Before, a raft leader with a hung disk said Ready, and named itself as the raft leader; nothing was
// logged above Info, and all leases of the fleet were lost.
func TestANodeWhoseDiskHangsSaysSo(t *testing.T) {
	t.Parallel()
	for name, hang := range map[string][]int{ // offsets from the raft leader
		"of the raft leader and a follower": {0, 1},
		"of the raft leader alone":          {0},
		"of a follower":                     {1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPatients(t)
			leader := p.raftLeader()
			for i, c := range p.nodes { // their renewals are written on every disk
				testkit.Acquire(t, c, fmt.Sprint("held by ", i), holdfast.WithTTL(time.Second))
			}
			over := make(chan struct{})
			victims := make(map[int]bool)
			for _, offset := range hang {
				victim := (leader + offset) % len(p.nodes)
				victims[victim] = true
				p.disks[victim].rule(func(int, string, string) error {
					<-over
					return nil
				})
			}
			t.Cleanup(func() { // before the nodes close
				select {
				case <-over:
				default:
					close(over)
				}
			})
			testkit.Polled(t, "see that the disk hangs", func() bool {
				for victim := range victims {
					st := p.nodes[victim].Status()
					if st.Ready || !st.Metrics.Ill || !strings.HasPrefix(st.Waits, "the disk has not finished a write for ") {
						return false
					}
				}
				return true
			})
			if len(victims) == 1 {
				victim := (leader + hang[0]) % len(p.nodes)
				testkit.Acquire(t, p.nodes[(victim+1)%len(p.nodes)], "served by the others", holdfast.WithTTL(time.Minute))
				testkit.Polled(t, "name the raft leader of the others", func() bool { return p.agreed(victim) })
			} else {
				testkit.Polled(t, "see that there is no raft leader", func() bool {
					for _, c := range p.nodes {
						if st := c.Status(); st.Ready || st.RaftLeader != "" {
							return false
						}
					}
					return true
				})
			}
			close(over)
			testkit.Polled(t, "serve again", func() bool {
				for _, c := range p.nodes {
					if st := c.Status(); !st.Ready || st.Waits != "" || st.Metrics.Ill {
						return false
					}
				}
				return true
			})
		})
	}
}
