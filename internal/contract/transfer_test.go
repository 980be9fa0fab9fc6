package contract_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/sim"
)

// transfers has an operator at a node make each voter raft leader in turn.
func transfers(t *testing.T, operator *holdfast.Cluster, voters []*holdfast.Cluster) {
	t.Helper()
	for _, c := range append(voters, voters[0]) {
		polled(t, "the raft leader to know it", func() bool {
			// A voter of a busy machine may lag behind for three elections, and the voters have one of their own.
			err := operator.TransferRaftLeader(within(t, 20*time.Second), c.ID(), "its machine is newer")
			if err != nil && !errors.Is(err, holdfast.ErrNotTransferred) {
				t.Fatalf("the transfer to %s: %v", c.ID(), err)
			}
			return err == nil && c.Status().RaftLeader == c.ID()
		})
	}
}

// Before work on a machine its node shall not be raft leader. The engine drops the order of a standby.
func TestAnOperatorMovesTheRaftLeadershipFromAnyNode(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 4}, func(s *sim.Sim) {
		standby := follower(s, holdfast.RoleStandby).Cluster()
		held := get(t, standby, "held", holdfast.WithTTL(2*time.Second))
		for _, from := range []*holdfast.Cluster{standby, s.RaftLeader().Cluster(), follower(s, holdfast.RoleVoter).Cluster()} {
			to := follower(s, holdfast.RoleVoter).Cluster()
			if err := from.TransferRaftLeader(until(time.Minute), to.ID(), "a new kernel"); err != nil {
				t.Fatal(err)
			}
			settles(t, 5*time.Second, "raft leader", func() bool { return to.Status().RaftLeader == to.ID() })
			if err := from.TransferRaftLeader(until(time.Minute), to.ID(), "again"); err != nil {
				t.Errorf("a second call: %v", err)
			}
		}
		if time.Sleep(5 * time.Second); !held.Valid() {
			t.Error("the lease ended with the transfers")
		}
		for name, err := range map[string]error{
			"a standby":       standby.TransferRaftLeader(until(time.Minute), standby.ID(), "why"),
			"an unknown node": standby.TransferRaftLeader(until(time.Minute), uuid.NewString(), "why"),
			"no reason":       standby.TransferRaftLeader(until(time.Minute), s.RaftLeader().Cluster().ID(), ""),
		} {
			if !errors.Is(err, holdfast.ErrInvalid) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// The raft leader goes on where the voter that is to follow it does not answer.
func TestATransferToAVoterThatIsCutOffIsAnErrorAndTheGroupGoesOn(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
		leader, to := s.RaftLeader().Cluster(), follower(s, holdfast.RoleVoter)
		to.Isolate()
		if err := leader.TransferRaftLeader(until(time.Minute), to.Cluster().ID(), "why"); !errors.Is(err, holdfast.ErrNotTransferred) {
			t.Errorf("a transfer to a voter that is cut off: %v", err)
		}
		serves(t, until(10*time.Second), leader)
	})
}
