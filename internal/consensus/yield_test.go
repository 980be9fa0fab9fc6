package consensus

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lni/vfs"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/transport"
)

// pair runs a group of two voters, of which the first is raft leader. cut parts them for two elections.
func pair(t *testing.T, f func(first, second *replica, cut func())) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		network := b.network.(*transport.Memory)
		first := b.open(t, 1, vfs.NewMem(), StartBootstrap)
		first.propose(t, birth())
		second := b.add(t, first, 2, vfs.NewMem())
		first.promote(t, second)
		second.barrier(t)
		defer closeAll(t, []*replica{first, second})
		f(first, second, func() {
			network.Isolate(second.endpoint.Addr())
			time.Sleep(2 * first.cfg.Election)
			network.Heal(second.endpoint.Addr(), "")
		})
	})
}

// Found by the seeded model, seeds 9452727 and 9477043: of two voters one left. As the raft leader removed it, it
// became raft leader itself, committed its own removal, and ended; its last word was lost, and the other waited
// for its vote forever. One that yields does not become raft leader: not as both hear nothing, nor by an order.
func TestAVoterThatYieldsLeavesTheRaftLeadershipToTheOther(t *testing.T) {
	t.Parallel()
	pair(t, func(first, second *replica, cut func()) {
		second.Yield(true)
		for range 20 {
			_, before, _ := first.RaftLeader()
			cut()
			second.barrier(t)
			if leader, term, _ := second.RaftLeader(); leader != first.node || term == before {
				t.Fatalf("after %v of term %d the raft leader is %v, of term %d", first.node, before, leader, term)
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := first.Transfer(ctx, second.node); err == nil {
			t.Error("it was made raft leader by an order")
		}
		first.barrier(t)
		second.Yield(false)
		if err := first.Transfer(ctx, second.node); err != nil {
			t.Errorf("without, a transfer fails: %v", err)
		}
	})
}

// Where the others cannot be raft leader, the one that yields is, after a while.
func TestAVoterYieldsForAWhile(t *testing.T) {
	t.Parallel()
	pair(t, func(first, second *replica, cut func()) {
		first.Yield(true)
		second.Yield(true)
		cut()
		began := time.Now()
		second.barrier(t)
		if took := time.Since(began); took > (yieldElections+4)*first.cfg.Election {
			t.Errorf("nobody was raft leader for %v", took)
		}
	})
}

// departs has the group know that a replica's node leaves. The replica stays in it.
func (r *replica) departs(t *testing.T, group []*replica) {
	t.Helper()
	r.propose(t, fsm.Hello{Node: r.self.Node, Incarnation: r.self.Incarnation, Name: "n"})
	r.propose(t, fsm.Goodbye{Node: r.self.Node, Incarnation: r.self.Incarnation, Departure: fsm.Leaves})
	for _, other := range group {
		other.barrier(t)
	}
}

// rivals are the two voters beside the raft leader. The first has the higher id, which counts among equals.
func rivals(group []*replica, first *replica) (higher, lower *replica) {
	rest := others(group, first)
	if rest[0].cfg.Replica < rest[1].cfg.Replica {
		return rest[1], rest[0]
	}
	return rest[0], rest[1]
}

// oneLeaves runs a group of three voters, one of which leaves, as the group knows.
func oneLeaves(t *testing.T, f func(t *testing.T, group []*replica, first, leaves, stays *replica, network *transport.Memory)) {
	oneLeft(t, func(t *testing.T, _ *bench, group []*replica, first, leaves, stays *replica, network *transport.Memory) {
		f(t, group, first, leaves, stays, network)
	})
}

// oneLeft is oneLeaves with its bench.
func oneLeft(t *testing.T, f func(t *testing.T, b *bench, group []*replica, first, leaves, stays *replica, network *transport.Memory)) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		group := b.trio(t)
		defer func() { closeAll(t, group) }()
		first := leaderOf(t, group)
		leaves, stays := rivals(group, first)
		leaves.departs(t, group)
		f(t, b, group, first, leaves, stays, b.network.(*transport.Memory))
	})
}

// Found by the seeded model, seed 9743732: of four voters one was dead, one was cut off, and one left. When the
// network was whole again that one became raft leader, though it had been started anew, committed its own
// removal, and ended; its last word was lost, and the two others waited for its vote forever.
func TestOfTwoThatMayBeRaftLeaderTheOneThatStaysIs(t *testing.T) {
	t.Parallel()
	oneLeaves(t, func(t *testing.T, group []*replica, first, leaves, stays *replica, network *transport.Memory) {
		theOneThatStaysLeads(t, group, first, leaves, stays, network, func() {})
	})
}

// Found by the seeded model, seed 9935196: the Hello of its next process came before its removal in the log, and
// nobody took it for one that leaves.
func TestOneThatReturnedIsNotRaftLeaderWhereOneThatStaysCanBe(t *testing.T) {
	t.Parallel()
	oneLeft(t, func(t *testing.T, b *bench, group []*replica, first, leaves, stays *replica, network *transport.Memory) {
		closeAll(t, []*replica{leaves})
		at := number(group, leaves)
		group[at-1] = b.open(t, at, leaves.fs, StartRestart)
		back := group[at-1]
		back.propose(t, fsm.Hello{Node: back.self.Node, Incarnation: back.self.Incarnation, Name: "n"})
		stays.barrier(t)
		theOneThatStaysLeads(t, group, first, back, stays, network, func() {})
	})
}

// theOneThatStaysLeads loses the raft leader again and again, each time after meanwhile.
func theOneThatStaysLeads(t *testing.T, group []*replica, first, leaves, stays *replica, network *transport.Memory, meanwhile func()) {
	for range 20 {
		if err := leaderOf(t, group).Transfer(t.Context(), first.node); err != nil {
			t.Fatal(err)
		}
		leaderOf(t, group)
		meanwhile()
		network.Isolate(first.endpoint.Addr())
		time.Sleep(4 * first.cfg.Election)
		if leader, _, _ := stays.RaftLeader(); leader != stays.node {
			t.Fatalf("%s is raft leader, which leaves, or nobody: %q", leaves.node, leader)
		}
		network.Heal()
		first.barrier(t)
	}
}

// Found by reading, 2026-11-27: the time in which the others do not answer began with the first question of the
// one that leaves, also while a raft leader was heard that refuses it anyway: one that had been started anew, or
// was cut off from the raft leader alone, used it up long before the raft leader was lost.
func TestAQuestionWhileARaftLeaderIsHeardUsesNothingUp(t *testing.T) {
	t.Parallel()
	oneLeaves(t, func(t *testing.T, group []*replica, first, leaves, stays *replica, network *transport.Memory) {
		theOneThatStaysLeads(t, group, first, leaves, stays, network, func() {
			network.Cut(first.endpoint.Addr(), leaves.endpoint.Addr())
			time.Sleep((yieldElections + 2) * first.cfg.Election)
			if leader, _, _ := stays.RaftLeader(); leader != first.node {
				t.Fatalf("the raft leader is %q while %s and %s hear each other", leader, first.node, stays.node)
			}
			network.Heal()
			leaves.barrier(t)
		})
	})
}

// The one that stays lacks what is committed.
func TestAVoterThatLeavesIsRaftLeaderWhereNoOtherCanBe(t *testing.T) {
	t.Parallel()
	oneLeaves(t, func(t *testing.T, _ []*replica, first, _, stays *replica, network *transport.Memory) {
		network.Cut(first.endpoint.Addr(), stays.endpoint.Addr())
		first.propose(t, fsm.Level{Level: 1})
		network.Isolate(first.endpoint.Addr())
		began := time.Now()
		stays.barrier(t)
		if took := time.Since(began); took > (yieldElections+6)*first.cfg.Election {
			t.Errorf("nobody was raft leader for %v", took)
		}
		network.Heal()
		first.barrier(t)
	})
}

// Found by reading, 2026-11-27: as the process of the raft leader died, the voter with the highest id succeeded
// it at once, and nobody asked whether that one leaves: it then committed its own removal, and its last word
// could be lost.
func TestAVoterThatStaysSucceedsADeadRaftLeader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.tune = unhurried
		group := b.trio(t)
		defer func() { closeAll(t, group) }()
		first := leaderOf(t, group)
		leaves, stays := rivals(group, first)
		leaves.departs(t, group)
		time.Sleep(time.Minute)
		for range 20 {
			if node, all := first.Successor(first.cfg.Election); node != stays.node || !all {
				t.Fatalf("the raft leader names %q its successor, with all: %v", node, all)
			}
		}
		first.isKilled(t)
		died := time.Now()
		stays.propose(t, fsm.Level{Level: 1})
		if took := time.Since(died); took > 50*time.Millisecond {
			t.Errorf("fail-over took %v", took)
		}
		if leader := leaderOf(t, others(group, first)); leader != stays {
			t.Error("the voter that leaves leads")
		}
	})
}

// Found by reading, 2026-11-27: Close of a raft leader asked the voters in any order. A dead one cost an election
// timeout, in which the engine takes no proposal, and one that leaves could be the next raft leader.
func TestARaftLeaderThatClosesIsSucceededByAVoterThatIsHeardAndStays(t *testing.T) {
	t.Parallel()
	for range 4 {
		oneLeaves(t, func(t *testing.T, group []*replica, first, _, stays *replica, _ *transport.Memory) {
			first.close(t)
			if leader := leaderOf(t, others(group, first)); leader != stays {
				t.Error("the voter that leaves leads")
			}
		})
		oneLeaves(t, func(t *testing.T, _ []*replica, first, leaves, stays *replica, network *transport.Memory) {
			network.Isolate(stays.endpoint.Addr())
			time.Sleep(2 * first.cfg.Election)
			from := time.Now()
			first.close(t)
			if leader, _, _ := leaves.RaftLeader(); leader != leaves.node {
				t.Errorf("%q is raft leader, not the only other voter that is heard", leader)
			}
			if took := time.Since(from); took > first.cfg.Election {
				t.Errorf("it took %v", took)
			}
			network.Heal()
			stays.barrier(t)
		})
	}
}
