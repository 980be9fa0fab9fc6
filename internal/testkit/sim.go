package testkit

import (
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/sim"
)

// LateMax is the bound of L2 (ARCHITECTURE.md): a dead holder's lock is granted within its TTL and
// this.
const LateMax = 2 * time.Second

// LongTTL configures a node that grants leases for longer than most tests last.
func LongTTL(_ int, cfg *holdfast.Config) { cfg.MaxTTL = holdfast.TTLMax }

// Settles waits, in virtual time, until ok.
func Settles(t testing.TB, limit time.Duration, what string, ok func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	for !ok() {
		if time.Since(began) > limit {
			t.Fatalf("no %s within %v", what, limit)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return time.Since(began)
}

// Follower returns a node with the role that is not raft leader.
func Follower(s *sim.Sim, role holdfast.Role) *sim.Node {
	leader := s.RaftLeader()
	for _, n := range s.Nodes() {
		if c := n.Cluster(); c != nil && n != leader && c.Status().Role == role {
			return n
		}
	}
	return nil
}

// Others returns the nodes that run but for some.
func Others(s *sim.Sim, but ...*sim.Node) (list []*sim.Node) {
	for _, n := range s.Nodes() {
		if !slices.Contains(but, n) && n.Cluster() != nil {
			list = append(list, n)
		}
	}
	return list
}

// StateOf is a member's state as c sees it.
func StateOf(c *holdfast.Cluster, id string) holdfast.MemberState {
	for _, m := range c.Members() {
		if m.ID == id {
			return m.State
		}
	}
	return holdfast.StateLeft // forgotten
}
