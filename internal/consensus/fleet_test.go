package consensus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lni/vfs"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/transport"
)

// patience is for whatever a test insists on: a few elections at the slowest pace of any.
const patience = 2 * time.Minute

// retry insists on f for a while.
func retry(t *testing.T, what string, f func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		err := f(ctx)
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("%s: %v", what, err)
		}
		pause()
	}
}

// basis is what a change is decided on now.
func basis(r *replica) Basis {
	_, term, _ := r.RaftLeader()
	return Basis{r.Members().Change, term}
}

// add brings the nth replica into the group of r, as a standby that has caught up.
func (b *bench) add(t *testing.T, r *replica, n int, fs vfs.FS) *replica {
	t.Helper()
	retry(t, "adding a standby", func(ctx context.Context) error {
		return r.AddStandby(ctx, nodeID(n), ReplicaID(nodeID(n)), basis(r))
	})
	joined := b.open(t, n, fs, StartJoin)
	joined.barrier(t)
	return joined
}

func (r *replica) promote(t *testing.T, other *replica) {
	t.Helper()
	retry(t, "promoting", func(ctx context.Context) error {
		return r.Promote(ctx, other.node, basis(r))
	})
}

// trio is a group of three voters, all of which know that. (A replica goes by the membership that
// it has applied: a raft leader that is lost right after a promotion leaves others that still count
// without it.)
func (b *bench) trio(t *testing.T) []*replica {
	t.Helper()
	first := b.open(t, 1, vfs.NewMem(), StartBootstrap)
	first.propose(t, birth())
	group := []*replica{first}
	for n := 2; n <= 3; n++ {
		joined := b.add(t, first, n, vfs.NewMem())
		first.promote(t, joined)
		group = append(group, joined)
	}
	for _, r := range group {
		r.barrier(t)
	}
	return group
}

func closeAll(t *testing.T, group []*replica) {
	t.Helper()
	for _, r := range group {
		r.close(t)
	}
}

func (r *replica) level() (level uint64) {
	r.Read(func(m *fsm.Machine) { level = m.Info().Level })
	return level
}

// leaderOf waits until the replicas agree on a raft leader among them.
func leaderOf(t *testing.T, group []*replica) *replica {
	t.Helper()
	var leader *replica
	retry(t, "electing", func(context.Context) error {
		leader = nil
		for _, r := range group {
			node, _, ok := r.RaftLeader()
			if !ok || leader != nil && leader.node != node {
				return errors.New("no raft leader")
			}
			for _, other := range group {
				if other.node == node {
					leader = other
				}
			}
			if leader == nil {
				return errors.New("raft leader is elsewhere")
			}
		}
		return nil
	})
	return leader
}

func TestEveryReplicaProposesAndReadsWhatOthersProposed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		group := b.trio(t)
		defer func() { closeAll(t, group) }()
		group = append(group, b.add(t, group[0], 4, vfs.NewMem())) // a standby
		for level, r := range group {
			r.propose(t, fsm.Level{Level: uint64(level + 1)})
			for _, other := range group {
				other.barrier(t)
				if got := other.level(); got != uint64(level+1) {
					t.Errorf("%s reads level %d after %s proposed %d", other.node, got, r.node, level+1)
				}
			}
		}
		for _, r := range group {
			m := r.Members()
			if len(m.Voters) != 3 || len(m.Standbys) != 1 || m.Standbys[ReplicaID(nodeID(4))] != nodeID(4) {
				t.Errorf("%s sees members %+v", r.node, m)
			}
		}
	})
}

func TestGroupGoesOnWhenRaftLeaderIsCutOffAndItCatchesUpAfterwards(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		network := b.network.(*transport.Memory)
		group := b.trio(t)
		defer func() { closeAll(t, group) }()
		old := leaderOf(t, group)
		var rest []*replica
		for _, r := range group {
			if r != old {
				rest = append(rest, r)
			}
		}
		network.Isolate(old.endpoint.Addr())
		lost := time.Now()
		rest[0].propose(t, fsm.Level{Level: 7})
		if took := time.Since(lost); took > 2*time.Second {
			t.Errorf("fail-over took %v", took)
		}
		if _, err := old.Propose(context.Background(), fsm.Encode(fsm.Level{Level: 9})); !errors.Is(err, ErrUnknown) && !errors.Is(err, ErrNotProposed) {
			t.Errorf("cut-off raft leader answers %v", err)
		}
		network.Heal(old.endpoint.Addr(), "")
		healed := time.Now()
		old.barrier(t)
		if took := time.Since(healed); took > 15*time.Second {
			t.Errorf("after the partition it took %v to serve again", took)
		}
		if old.level() < 7 {
			t.Error("what the others proposed is missing after the partition")
		}
	})
}

func TestLaggingReplicaIsRestoredFromSnapshot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.tune = func(c *Config) { c.SnapshotEntries, c.SnapshotKeep = 50, 5 }
		group := b.trio(t)
		defer func() { closeAll(t, group) }()
		late, fs := group[2], group[2].fs
		retry(t, "adding a standby", func(ctx context.Context) error {
			return group[0].AddStandby(ctx, nodeID(4), ReplicaID(nodeID(4)), basis(group[0]))
		})
		late.barrier(t)
		late.close(t)
		group = group[:2]
		retry(t, "removing it", func(ctx context.Context) error {
			return group[0].Remove(ctx, nodeID(4), basis(group[0]))
		})
		for level := range 200 {
			group[0].propose(t, fsm.Level{Level: uint64(level + 1)})
		}
		late = b.open(t, 3, fs, StartRestart)
		group = append(group, late)
		late.barrier(t)
		if late.level() != 200 {
			t.Errorf("level %d after catching up", late.level())
		}
		late.seen.await(t, "restored from a snapshot", func(r *recorder) bool { return r.restored > 0 })
		if m := late.Members(); len(m.Voters) != 3 || len(m.Standbys) != 0 {
			t.Errorf("members after a snapshot: %+v", m)
		}
	})
}

func TestRemovedReplicaSaysSoAndGroupGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		group := b.trio(t)
		defer func() { closeAll(t, group) }()
		gone := group[2]
		retry(t, "removing", func(ctx context.Context) error {
			return group[0].Remove(ctx, gone.node, basis(group[0]))
		})
		retry(t, "hearing of it", func(ctx context.Context) error {
			if _, err := gone.Propose(ctx, fsm.Encode(birth())); !errors.Is(err, ErrRemoved) {
				return fmt.Errorf("removed replica answers %w", err)
			}
			return nil
		})
		group[1].propose(t, fsm.Level{Level: 3})
		if m := group[1].Members(); len(m.Voters) != 2 {
			t.Errorf("members %+v", m)
		}
		if err := group[0].AddStandby(t.Context(), gone.node, ReplicaID(gone.node), basis(group[0])); !errors.Is(err, ErrMembershipChanged) {
			t.Errorf("a removed replica was added again: %v", err)
		}
	})
}

func TestTransferMovesRaftLeadership(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		group := b.trio(t)
		defer func() { closeAll(t, group) }()
		old := leaderOf(t, group)
		for _, r := range group {
			if r != old {
				retry(t, "transfer", func(ctx context.Context) error { return old.Transfer(ctx, r.node) })
				break
			}
		}
		if leader := leaderOf(t, group); leader == old {
			t.Error("raft leadership stayed")
		}
	})
}

func TestANominatedVoterLeadsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		group := b.trio(t)
		defer func() { closeAll(t, group) }()
		old := leaderOf(t, group)
		next := others(group, old)[0]
		for _, wrong := range []struct {
			by   *replica
			node string
		}{{old, old.node}, {old, nodeID(9)}, {next, old.node}} {
			if err := wrong.by.Nominate(t.Context(), wrong.node); !errors.Is(err, ErrNotProposed) {
				t.Errorf("%s nominated %s: %v", wrong.by.node, wrong.node, err)
			}
		}
		for tries := 5; ; tries-- { // the voters may have an election of their own at that moment
			old = leaderOf(t, group)
			next = others(group, old)[0]
			old.greet(t)
			_, term, _ := old.RaftLeader()
			from := time.Now()
			err := old.Nominate(t.Context(), next.node)
			took := time.Since(from)
			leader, now, _ := old.RaftLeader()
			if err == nil && took <= old.cfg.Election && leader == next.node && now == term+1 {
				return
			}
			if tries == 0 {
				t.Fatalf("%q leads in term %d; %q was nominated in term %d, %v ago: %v", leader, now, next.node, term, took, err)
			}
		}
	})
}

// slow is a replica that carries out no commands before a channel is closed, if there is one.
type slow struct {
	Observer
	until atomic.Value
}

func (s *slow) Applied(events []fsm.Event) {
	if until, ok := s.until.Load().(chan struct{}); ok {
		<-until
	}
	s.Observer.Applied(events)
}

// The engine ignores the order to campaign while committed entries are not applied, as under load, and
// the raft leader gives it once: a planned Close stopped service for an election timeout.
func TestATransferToAVoterThatHasNotAppliedItsEntriesWaitsForThoseAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		var slows []*slow
		b.tune = func(c *Config) {
			unhurried(c)
			slows = append(slows, &slow{Observer: c.Observer})
			c.Observer = slows[len(slows)-1]
		}
		group := b.trio(t)
		defer func() { closeAll(t, group) }()
		old := leaderOf(t, group)
		next := others(group, old)[0]
		until := make(chan struct{})
		slows[slices.Index(group, next)].until.Store(until)
		old.greet(t)
		done := make(chan error)
		go func() { done <- old.Transfer(t.Context(), next.node) }()
		time.Sleep(100 * time.Millisecond)
		close(until)
		from := time.Now()
		if err := <-done; err != nil || time.Since(from) > 50*time.Millisecond {
			t.Errorf("after %v: %v", time.Since(from), err)
		}
	})
}

func TestCloseOfRaftLeaderHandsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		group := b.trio(t)
		old := leaderOf(t, group)
		var rest []*replica
		for _, r := range group {
			if r != old {
				rest = append(rest, r)
			}
		}
		defer func() { closeAll(t, rest) }()
		old.close(t)
		closed := time.Now()
		rest[0].propose(t, fsm.Level{Level: 2})
		if took := time.Since(closed); took > 100*time.Millisecond {
			t.Errorf("the group was without a raft leader for %v", took)
		}
	})
}

// It waited for two heartbeats after the transfer, whatever they were, and its engine was abandoned.
func TestCloseOfRaftLeaderEndsInTimeWithSlowHeartbeats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.tune = func(c *Config) { c.Tick, c.Heartbeat, c.Election = time.Second, 3*time.Second, 9*time.Second }
		group := b.trio(t)
		defer func() { closeAll(t, group) }()
		leader, began := leaderOf(t, group), time.Now()
		if err := leader.Group.Close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > closeWithin {
			t.Errorf("it took %v", took)
		}
	})
}

func TestChangeOfMembershipSeenTooLateIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		group := b.trio(t)
		defer func() { closeAll(t, group) }()
		stale := basis(group[0])
		stale.Change--
		if err := group[0].AddStandby(t.Context(), nodeID(4), ReplicaID(nodeID(4)), stale); !errors.Is(err, ErrMembershipChanged) {
			t.Errorf("change under a stale number: %v", err)
		}
		if err := group[1].Promote(t.Context(), group[0].node, Basis{Change: 1}); err != nil {
			t.Errorf("a change that is there already: %v", err)
		}
	})
}

// Fresh seed 9516445 of the model: a raft leader slept, and decided on the removal of a voter that its
// successor heard meanwhile. It proposed the removal when it was raft leader again, and the voter was
// removed two seconds after the log had said that it is heard.
func TestAChangeThatWasDecidedInAnEarlierTermIsNotProposed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		group := b.trio(t)
		defer func() { closeAll(t, group) }()
		decided := basis(group[0])
		for i, old := range group[:2] {
			next := group[1-i]
			retry(t, "transfer", func(ctx context.Context) error { return old.Transfer(ctx, next.node) })
			next.barrier(t)
		}
		if now := basis(group[0]); now.Change != decided.Change || now.Term <= decided.Term {
			t.Fatalf("decided on %+v, now %+v", decided, now)
		}
		for _, r := range group[:2] { // the raft leader again, and one that is none
			if err := r.Remove(t.Context(), group[2].node, decided); !errors.Is(err, ErrNotProposed) {
				t.Errorf("a removal of an earlier term: %v", err)
			}
			r.barrier(t)
			if !r.Members().Has(group[2].node) {
				t.Error("it was carried out")
			}
		}
	})
}

// Seen as a gap of 600 ms after each kill of a raft leader, where the election had taken 250: what
// a follower had passed on to the dead one was waited for until its attempt ended.
func TestWhatWasOnItsWayToADeadRaftLeaderIsGivenUpWhenThereIsANewOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.tune = func(c *Config) { c.Tick, c.Heartbeat, c.Election = 10*time.Millisecond, time.Second, 10*time.Second }
		group := b.trio(t)
		defer func() { closeAll(t, group) }()
		old := leaderOf(t, group)
		survivor := group[0]
		if survivor == old {
			survivor = group[1]
		}
		survivor.propose(t, fsm.Level{Level: 1})
		b.network.(*transport.Memory).Isolate(old.endpoint.Addr())
		answered := make(chan error, 1)
		go func() {
			_, err := survivor.Propose(context.Background(), fsm.Encode(fsm.Level{Level: 2}))
			answered <- err
		}()
		for now, changed := survivor.leaders.now(); now.replica == 0 || now.replica == old.cfg.Replica; {
			<-changed
			now, changed = survivor.leaders.now()
		}
		elected := time.Now()
		if err := <-answered; !errors.Is(err, ErrUnknown) {
			t.Errorf("a proposal to a raft leader that was cut off: %v", err)
		}
		if took := time.Since(elected); took > 2*time.Second {
			t.Errorf("it was waited for until %v after the election", took)
		}
		survivor.propose(t, fsm.Level{Level: 2})
	})
}
