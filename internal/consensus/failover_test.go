package consensus

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/transport"
)

// isKilled closes the endpoint of a replica as a kernel does when a process dies: its connections
// end, and dials are refused.
func (r *replica) isKilled(t *testing.T) {
	t.Helper()
	if err := r.endpoint.Close(); err != nil {
		t.Error(err)
	}
}

// falseAlarm ends the connections between two replicas, and refuses those that one of them dials for
// a while, although the other lives: as a proxy may that is restarted.
func falseAlarm(network *transport.Memory, refused, dialed *replica) {
	from, to := refused.endpoint.Addr(), dialed.endpoint.Addr()
	network.SetFaults(from, to, transport.Faults{Refuse: true})
	network.Break(from, to)
	synctest.Wait()
	time.Sleep(50 * time.Millisecond)
	network.SetFaults(from, to, transport.Faults{})
}

func (r *replica) term() uint64 {
	_, term, _ := r.RaftLeader()
	return term
}

func TestADeadRaftLeaderIsReplacedWithoutAnElectionTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.tune = unhurried
		group := b.trio(t)
		defer func() { closeAll(t, group) }()
		for n := range 4 {
			old := leaderOf(t, group)
			term, survivors := old.term(), others(group, old)
			time.Sleep(time.Minute) // connections that are not in use are closed
			old.isKilled(t)
			died := time.Now()
			survivors[n%2].propose(t, fsm.Level{Level: uint64(n + 1)})
			if took := time.Since(died); took > 50*time.Millisecond {
				t.Errorf("fail-over took %v", took)
			}
			if now := survivors[0].term(); now != term+1 {
				t.Errorf("term %d after %d: there was not one campaign", now, term)
			}
			old.close(t)
			i := slices.Index(group, old)
			group[i] = b.open(t, i+1, old.fs, StartRestart)
			group[i].barrier(t)
		}
	})
}

func TestTheVoterWithTheLongestLogIsTheNextRaftLeader(t *testing.T) {
	t.Parallel()
	for n := range 2 {
		synctest.Test(t, func(t *testing.T) {
			b := newBench()
			b.tune = unhurried
			group, network := b.trio(t), b.network.(*transport.Memory)
			defer func() { closeAll(t, group) }()
			old := leaderOf(t, group)
			survivors := others(group, old)
			behind, ahead := survivors[n], survivors[1-n]
			network.Cut(old.endpoint.Addr(), behind.endpoint.Addr())
			old.propose(t, fsm.Level{Level: 1})
			network.SetFaults(behind.endpoint.Addr(), old.endpoint.Addr(), transport.Faults{Refuse: true})
			network.Break(old.endpoint.Addr(), "*")
			old.isKilled(t)
			died := time.Now()
			behind.propose(t, fsm.Level{Level: 9})
			if took := time.Since(died); took > 50*time.Millisecond {
				t.Errorf("fail-over took %v", took)
			}
			if leader := leaderOf(t, survivors); leader != ahead {
				t.Error("the voter that lacks an entry leads")
			}
		})
	}
}

func TestWhatOneVoterFindsMovesNoRaftLeadership(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.tune = unhurried
		group := b.trio(t)
		defer func() { closeAll(t, group) }()
		leader := leaderOf(t, group)
		term := leader.term()
		for range 20 {
			falseAlarm(b.network.(*transport.Memory), others(group, leader)[0], leader)
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		for _, r := range group {
			if r.term() != term {
				t.Errorf("term %d after %d", r.term(), term)
			}
		}
		leader.propose(t, fsm.Level{Level: 1})
	})
}

// A proxy that refuses again and again costs one raft leader in ten seconds; what it costs beyond
// that is left to the election timeout, as ever.
func TestAFalseAlarmOfAllDeposesOneRaftLeaderAndThenRests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.tune = func(c *Config) {
			c.Tick, c.Heartbeat, c.Election = 10*time.Millisecond, 100*time.Millisecond, time.Minute
		}
		group := b.trio(t)
		defer func() { closeAll(t, group) }()
		first := leaderOf(t, group)
		term := first.term()
		alarm := func() {
			leader := leaderOf(t, group)
			falseAlarmOfAll(b.network.(*transport.Memory), others(group, leader), leader)
		}
		began := time.Now()
		for time.Since(began) < alarmRest-2*time.Second {
			alarm()
			time.Sleep(2 * time.Second) // the one that was deposed has a connection again, and is heard
		}
		if now := leaderOf(t, group).term(); now != term+1 {
			t.Errorf("term %d after %d: false alarms have not deposed one raft leader", now, term)
		}
		time.Sleep(alarmRest)
		alarm()
		if now := leaderOf(t, group).term(); now != term+2 {
			t.Errorf("term %d after %d: an alarm does not count again after the rest", now, term)
		}
	})
}

func falseAlarmOfAll(network *transport.Memory, refused []*replica, dialed *replica) {
	to := dialed.endpoint.Addr()
	for _, r := range refused {
		network.SetFaults(r.endpoint.Addr(), to, transport.Faults{Refuse: true})
	}
	for _, r := range refused {
		network.Break(r.endpoint.Addr(), to)
	}
	time.Sleep(50 * time.Millisecond)
	network.Calm()
}

// A cut cable and a host that is gone show neither the end of a connection nor a refusal.
func TestARaftLeaderOutOfReachIsLeftToTheElectionTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.tune = unhurried
		group := b.trio(t)
		defer func() { closeAll(t, group) }()
		leader := leaderOf(t, group)
		network, term := b.network.(*transport.Memory), leader.term()
		network.Isolate(leader.endpoint.Addr())
		network.Break(leader.endpoint.Addr(), "*")
		time.Sleep(5 * time.Second)
		for _, r := range others(group, leader) {
			if r.term() != term {
				t.Errorf("term %d after %d", r.term(), term)
			}
		}
		network.Heal()
		time.Sleep(time.Minute)
	})
}
