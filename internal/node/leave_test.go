package node

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/transport"
)

// Of two voters one leaves, and the two are cut apart before it is removed. If it came back as raft leader, it
// would commit its own removal and end, and its last word might be lost: the other would wait for its vote forever.
func TestTheLastButOneThatLeavesDoesNotBecomeRaftLeader(t *testing.T) {
	t.Parallel()
	for range 10 {
		synctest.Test(t, func(t *testing.T) {
			network := transport.NewMemory(1)
			nodes := fleet(t, []*heard{{}, {}, {}}, network, nil)
			ctx := ready(t, nodes...)
			time.Sleep(10 * time.Second) // all of them vote
			leader := slices.IndexFunc(nodes, func(n *Node) bool { return n.replica.Load().IsRaftLeader() })
			nodes[0], nodes[leader] = nodes[leader], nodes[0]
			stays, leaves := nodes[0], nodes[1]
			if err := nodes[2].Leave(ctx); err != nil {
				t.Fatal(err)
			}
			network.SetFaults("*", "*", transport.Faults{Delay: 10 * time.Millisecond})
			left := make(chan error, 1)
			go func() { left <- leaves.Leave(ctx) }()
			group, replica := stays.replica.Load(), leaves.replica.Load()
			for departure(group, leaves.ID()) != fsm.Leaves {
				time.Sleep(time.Millisecond)
			}
			network.Isolate(leaves.Addr())
			time.Sleep(2 * leaves.cfg.Election)
			if !group.Members().Has(leaves.ID()) {
				t.Error("it was removed before they were cut apart")
			}
			network.Heal()
			for len(left) == 0 {
				if replica.IsRaftLeader() {
					t.Fatal("the node that leaves is raft leader")
				}
				time.Sleep(time.Millisecond)
			}
			if err := <-left; err != nil {
				t.Error(err)
			}
			if err := group.Barrier(ctx); err != nil {
				t.Error(err)
			}
		})
	}
}
