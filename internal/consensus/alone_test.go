package consensus

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lni/dragonboat/v4/raftpb"
	"github.com/lni/vfs"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/transport"
)

func TestTheOnlyVoterDoesNotWaitForAnElection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, fs := newBench(), vfs.NewMem()
		b.tune = func(c *Config) { c.Election = time.Minute }
		for _, how := range []Start{StartBootstrap, StartRestart, StartRestart} {
			began := time.Now()
			r := b.open(t, 1, fs, how)
			r.barrier(t)
			if took := time.Since(began); took > time.Second {
				t.Errorf("%v: it took %v to serve, with elections of a minute", how, took)
			}
			r.propose(t, birth())
			r.close(t)
		}
		time.Sleep(time.Minute)
	})
}

// A founder whose log is short has the time in it when it was alone. It must not take the raft
// leadership from those that came later whenever it restarts.
func TestAVoterAmongOthersDoesNotHastenAnElection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		group := b.trio(t)
		defer func() { closeAll(t, group) }()
		for range 3 {
			group[0].close(t)
			leader := leaderOf(t, group[1:])
			_, term, _ := leader.RaftLeader()
			group[0] = b.open(t, 1, group[0].fs, StartRestart)
			group[0].barrier(t)
			time.Sleep(time.Second)
			if _, now, _ := leader.RaftLeader(); now != term || !leader.IsRaftLeader() {
				t.Errorf("the restart of a founder moved the group from term %d to %d", term, now)
			}
		}
	})
}

func TestAnyTraceOfAnotherVoterCounts(t *testing.T) {
	t.Parallel()
	change := func(kind raftpb.ConfigChangeType, replica uint64) raftpb.Entry {
		cc := raftpb.ConfigChange{Type: kind, ReplicaID: replica, Address: "a"}
		cmd, err := cc.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		return raftpb.Entry{Type: raftpb.ConfigChangeEntry, Cmd: cmd}
	}
	for name, c := range map[string]struct {
		entry  raftpb.Entry
		others bool
	}{
		"itself":             {change(raftpb.AddNode, 1), false},
		"standby":            {change(raftpb.AddNonVoting, 2), false},
		"another voter":      {change(raftpb.AddNode, 2), true},
		"unreadable":         {raftpb.Entry{Type: raftpb.ConfigChangeEntry, Cmd: []byte{0xff}}, true},
		"a command, no more": {raftpb.Entry{Type: raftpb.EncodedEntry, Cmd: fsm.Encode(birth())}, false},
	} {
		voters := otherVoters{replica: 1}
		voters.entry(&c.entry)
		if voters.others != c.others {
			t.Errorf("%s: another voter %v, want %v", name, voters.others, c.others)
		}
	}
	voters := otherVoters{replica: 1}
	voters.snapshot(raftpb.Membership{Addresses: map[uint64]string{1: "a", 2: "b"}})
	if !voters.others {
		t.Error("a voter in the snapshot was not seen")
	}
}

// Reads that wait for another voter's word, when that one is removed as the last other, wait for
// ever: the engine then sends no heartbeats to those who do not vote. A group that had shrunk to
// one voter under load did not grow again: its newcomers never caught up. (Found by real processes
// of which all but one left.)
func TestAGroupThatShrankToOneVoterUnderReadsGrowsAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, network := newBench(), transport.NewMemory(1)
		b.network = network
		network.SetFaults("*", "*", transport.Faults{Delay: 10 * time.Millisecond}) // a read is always on its way
		first := b.open(t, 1, vfs.NewMem(), StartBootstrap)
		defer func() { first.close(t) }()
		first.propose(t, birth())
		second := b.add(t, first, 2, vfs.NewMem())
		first.promote(t, second)
		second.barrier(t)

		reading, rest := context.WithCancel(context.Background())
		var readers sync.WaitGroup
		for i := range 20 {
			readers.Go(func() {
				for time.Sleep(time.Duration(i) * time.Millisecond); reading.Err() == nil; time.Sleep(time.Millisecond) {
					_ = first.Barrier(reading)
				}
			})
		}
		time.Sleep(100 * time.Millisecond)
		retry(t, "removing the other voter", func(ctx context.Context) error {
			return first.Remove(ctx, second.node, basis(first))
		})
		time.Sleep(time.Second)
		began := time.Now()
		first.propose(t, birth()) // served all the while
		if took := time.Since(began); took > time.Second {
			t.Errorf("the only voter answered after %v", took)
		}
		rest()
		readers.Wait()
		second.close(t)

		began = time.Now()
		third := b.add(t, first, 3, vfs.NewMem())
		defer func() { third.close(t) }()
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("a newcomer caught up after %v", took)
		}
	})
}
