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

// silence is how long ago r heard the other; an hour if never in this term.
func (r *replica) silence(other *replica) time.Duration {
	if h, ok := r.Heard()[other.cfg.Replica]; ok {
		return time.Since(h.At)
	}
	return time.Hour
}

// heardWithin is the longest silence of a replica that is well: it is asked with each heartbeat.
func (r *replica) heardWithin() time.Duration { return r.cfg.Heartbeat + r.cfg.Tick }

// trioOn is a trio whose replicas have disks that may hang.
func (b *bench) trioOn(t *testing.T, disks []*stuck) []*replica {
	t.Helper()
	group := []*replica{b.open(t, 1, vfs.Wrap(vfs.NewMem(), disks[0]), StartBootstrap)}
	group[0].propose(t, birth())
	for n := 2; n <= 3; n++ {
		group = append(group, b.add(t, group[0], n, vfs.Wrap(vfs.NewMem(), disks[n-1])))
		group[0].promote(t, group[n-1])
	}
	for _, r := range group {
		r.barrier(t)
	}
	return group
}

func TestAReplicaWhoseDiskHangsIsNotHeard(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, disks := newBench(), []*stuck{{}, {}, {}}
		group := b.trioOn(t, disks)
		defer func() { closeAll(t, group) }()
		leader := leaderOf(t, group)
		sick, well := others(group, leader)[0], others(group, leader)[1]
		<-time.After(time.Second)
		if a, b := leader.silence(sick), leader.silence(well); a > leader.heardWithin() || b > leader.heardWithin() {
			t.Fatalf("replicas that are well were heard %v and %v ago", a, b)
		}
		disk := disks[number(group, sick)-1]
		disk.shut()
		for level := range uint64(10) {
			leader.propose(t, fsm.Level{Level: level + 1})
		}
		<-time.After(10 * time.Second)
		if took := leader.silence(sick); took < 9*time.Second {
			t.Errorf("a replica whose disk hangs was heard %v ago", took)
		}
		if took := leader.silence(well); took > leader.heardWithin() {
			t.Errorf("the one that is well was heard %v ago", took)
		}
		heard := leader.Heard()
		if behind, all := heard[sick.cfg.Replica].Match, heard[well.cfg.Replica].Match; all < behind+10 {
			t.Errorf("the one that hangs has acknowledged %d, the other %d", behind, all)
		}
		disk.open()
		<-time.After(5 * time.Second)
		if took := leader.silence(sick); took > leader.heardWithin() {
			t.Errorf("it is well again, and was heard %v ago", took)
		}
		if heard = leader.Heard(); heard[sick.cfg.Replica].Match != heard[well.cfg.Replica].Match {
			t.Errorf("it is well again, and has acknowledged %d of %d", heard[sick.cfg.Replica].Match, heard[well.cfg.Replica].Match)
		}
	})
}

// Before, the heartbeats of the next raft leader counted as a voter that the one of before hears: it named itself
// for as long as its disk hung.
func TestARaftLeaderWhoseDiskHangsHearsNoMajorityAndTheNextOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, disks := newBench(), []*stuck{{}, {}, {}}
		group := b.trioOn(t, disks)
		defer func() { closeAll(t, group) }()
		old := leaderOf(t, group)
		disk, rest := disks[number(group, old)-1], others(group, old)
		<-time.After(5 * time.Second)
		if node, term, _ := old.Later(); !old.HearsMajority(time.Second) || node != "" {
			t.Fatalf("a raft leader that is well hears %q lead in term %d, and of the voters %v", node, term, old.Heard())
		}
		disk.shut()
		rest[0].propose(t, fsm.Level{Level: 1}) // of the next one at last
		<-time.After(2 * time.Second)
		next := leaderOf(t, rest)
		if node, _, _ := old.RaftLeader(); node != old.node {
			t.Errorf("its engine names %q: it does not stand still", node)
		}
		for i := 0; i < 20 && !t.Failed(); i++ {
			<-time.After(time.Second)
			if old.HearsMajority(time.Second) || old.HearsMajority(time.Hour) {
				t.Error("it hears a majority of the voters")
			}
			_, in, _ := next.RaftLeader()
			if node, term, at := old.Later(); node != next.node || term != in || time.Since(at) > old.heardWithin() {
				t.Errorf("it hears %q lead in term %d, %v ago, not %q in %d", node, term, time.Since(at), next.node, in)
			}
		}
		disk.open()
		old.barrier(t)
		if node, term, _ := old.Later(); node != "" {
			t.Errorf("it is well again, and hears %q lead in term %d, later than in its own", node, term)
		}
	})
}

func TestAReplicaThatHearsNothingIsNotHeardThoughItsMessagesArrive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		network := b.network.(*transport.Memory)
		group := b.trio(t)
		defer func() { closeAll(t, group) }()
		leader := leaderOf(t, group)
		deaf, well := others(group, leader)[0], others(group, leader)[1]
		network.Cut(leader.endpoint.Addr(), deaf.endpoint.Addr())
		network.Cut(well.endpoint.Addr(), deaf.endpoint.Addr())
		// What it proposes arrives, as its connections stay: for a while, as nobody acknowledges.
		if _, err := deaf.Propose(context.Background(), fsm.Encode(fsm.Level{Level: 7})); err == nil {
			t.Error("a replica that hears nothing has heard an outcome")
		}
		if well.barrier(t); well.level() != 7 {
			t.Error("the messages of the one that hears nothing do not arrive")
		}
		if took := leader.silence(deaf); took <= leader.heardWithin() {
			t.Errorf("a replica that hears nothing was heard %v ago", took)
		}
		<-time.After(10 * time.Second)
		if took := leader.silence(deaf); took < 10*time.Second {
			t.Errorf("after ten seconds without a word to it, it was heard %v ago", took)
		}
		if took := leader.silence(well); took > leader.heardWithin() {
			t.Errorf("the one that is well was heard %v ago", took)
		}
		network.Heal()
	})
}

func TestThoseWhoFollowHearTheRaftLeaderAloneAndANewOneAfterAnElection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		network := b.network.(*transport.Memory)
		group := b.trio(t)
		defer func() { closeAll(t, group) }()
		old := leaderOf(t, group)
		rest := others(group, old)
		<-time.After(time.Second)
		for _, r := range rest {
			if heard := r.Heard(); len(heard) != 1 || r.silence(old) > r.heardWithin() {
				t.Errorf("one that follows has heard %v", heard)
			}
		}
		network.Isolate(old.endpoint.Addr())
		rest[0].propose(t, fsm.Level{Level: 1})
		<-time.After(5 * time.Second)
		leader := leaderOf(t, rest)
		follower := others(rest, leader)[0]
		if leader.silence(follower) > leader.heardWithin() || follower.silence(leader) > follower.heardWithin() {
			t.Errorf("the new raft leader has heard %v, the other %v", leader.Heard(), follower.Heard())
		}
		for _, r := range rest {
			if r.silence(old) != time.Hour {
				t.Error("the old raft leader was heard in a term in which it was cut off")
			}
		}
		if took := min(old.silence(rest[0]), old.silence(rest[1])); took < 5*time.Second {
			t.Errorf("one that is cut off heard another %v ago", took)
		}
		network.Heal()
		old.barrier(t)
	})
}
