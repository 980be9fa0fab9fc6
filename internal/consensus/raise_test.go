package consensus

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lni/vfs"

	"github.com/holdfast-go/holdfast/fsm"
)

// clocked is a group of three that serves, all of whose replicas were closed. The bench opens each
// under the wall clock that it has in unix then.
type clocked struct {
	*bench
	unix  map[int]int64
	disks []vfs.FS
	calls sync.WaitGroup
}

func newClocked(t *testing.T) *clocked {
	t.Helper()
	b := &clocked{bench: newBench(), unix: make(map[int]int64)}
	b.tune = func(c *Config) {
		for n := range 4 {
			if c.Node == nodeID(n) {
				began := time.Now()
				c.Wall = func() time.Time { return time.Unix(b.unix[n], 0).Add(time.Since(began)) }
			}
		}
	}
	group := b.trio(t)
	group[0].propose(t, fsm.Serve{})
	for _, r := range group {
		b.disks = append(b.disks, r.fs)
	}
	for _, r := range group {
		r.barrier(t)
	}
	closeAll(t, group)
	return b
}

// restart opens the nth replica, which asks for locks at once and does not stop before it has one.
func (b *clocked) restart(t *testing.T, n int) *replica {
	t.Helper()
	r := b.open(t, n, b.disks[n-1], StartRestart)
	b.calls.Go(func() {
		r.propose(t, fsm.Hello{Node: r.self.Node, Incarnation: r.self.Incarnation})
		out := r.propose(t, fsm.Acquire{
			Session: fsm.SessionID{Node: r.self.Node, Incarnation: r.self.Incarnation, Number: 1}, TTL: time.Hour,
			Request: 1, Name: fmt.Sprint("lock", n),
		})
		if out.Code != fsm.CodeGranted {
			t.Errorf("replica %d: %v", n, out.Code)
		}
	})
	return r
}

// granted wants every grant of r's state to have a token of the times from first to last.
func (r *replica) granted(t *testing.T, count int, first, last int64) {
	t.Helper()
	r.barrier(t)
	r.Read(func(m *fsm.Machine) {
		for l := range m.Locks("") {
			for _, h := range l.Holders {
				count--
				if at := int64(h.Token >> fsm.TokenBits); at < first || at > last {
					t.Errorf("%s was granted under a token of the time %d, not from %d to %d", l.Name, at, first, last)
				}
			}
		}
	})
	if count != 0 {
		t.Errorf("%d grants are missing", count)
	}
}

const rightTime, years = 1 << 30, 20 * 365 * 24 * 3600

// A replica that asks from its first moment on stands for all that a process may do before its
// Hello.
func TestNothingGetsIntoTheLogBeforeTheTokensAreRaised(t *testing.T) {
	t.Parallel()
	for name, unix := range map[string][3]int64{
		"right clocks":   {rightTime, rightTime + 1, rightTime + 2},
		"one far behind": {rightTime, rightTime + 1, 0},
		"one far ahead":  {rightTime + years, rightTime, rightTime},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newClocked(t)
				var group []*replica
				for n := 1; n <= 3; n++ {
					b.unix[n] = unix[n-1]
					group = append(group, b.restart(t, n))
				}
				began := time.Now()
				b.calls.Wait()
				if took := time.Since(began); took > clocksPatience {
					t.Errorf("the group served after %v", took)
				}
				group[0].granted(t, 3, rightTime, rightTime+60)
				closeAll(t, group)
			})
		})
	}
}

func TestTwoVotersThatDisagreeWaitAMomentForTheThird(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newClocked(t)
		b.unix = map[int]int64{1: rightTime, 2: 0, 3: rightTime}
		group := []*replica{b.restart(t, 1), b.restart(t, 2)}
		leaderOf(t, group)
		time.Sleep(clocksPatience / 4) // the third says its clock when it campaigns, after up to two elections
		group = append(group, b.restart(t, 3))
		b.calls.Wait()
		group[0].granted(t, 3, rightTime, rightTime+60)
		closeAll(t, group)
	})
}

func TestTwoVotersThatDisagreeServeByTheLowerClockUntilTheThirdComes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newClocked(t)
		b.unix = map[int]int64{1: rightTime, 2: rightTime + years, 3: rightTime + 500}
		group := []*replica{b.restart(t, 1), b.restart(t, 2)}
		leaderOf(t, group) // two votes may split, again and again
		began := time.Now()
		b.calls.Wait()
		if took := time.Since(began); took > clocksPatience+clocksPatience/4 {
			t.Errorf("two of three served %v after they had a raft leader", took)
		}
		group[0].granted(t, 2, rightTime, rightTime+60)
		time.Sleep(time.Minute)
		group = append(group, b.open(t, 3, b.disks[2], StartRestart))
		group[2].barrier(t)
		time.Sleep(time.Second)
		counter := uint64(0)
		group[0].Read(func(m *fsm.Machine) { counter = m.Info().Counter })
		if at := int64(counter >> fsm.TokenBits); at < rightTime+500 || at > rightTime+600 {
			t.Errorf("with the clock of the third the tokens are of the time %d", at)
		}
		closeAll(t, group)
	})
}

func TestARaftLeaderRaisesTheTokensOnceForAProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newClocked(t)
		b.unix = map[int]int64{1: rightTime, 2: rightTime, 3: rightTime}
		var group []*replica
		for n := 1; n <= 3; n++ {
			group = append(group, b.restart(t, n))
		}
		b.calls.Wait()
		time.Sleep(time.Minute)
		var was uint64
		first := leaderOf(t, group)
		for round := range 6 {
			old := leaderOf(t, group)
			next := group[(round+1)%3]
			if next == old {
				continue
			}
			retry(t, "transfer", func(ctx context.Context) error { return old.Transfer(ctx, next.node) })
			time.Sleep(time.Second)
			next.Read(func(m *fsm.Machine) {
				counter := m.Info().Counter
				if round > 3 && counter != was {
					t.Errorf("round %d: raft leader for the second time, %s raised the tokens", round, next.node)
				}
				was = counter
			})
		}
		for _, r := range group {
			if !r.opening.is.Load() {
				t.Errorf("%s was raft leader, and its log is not open (the first was %s)", r.node, first.node)
			}
		}
		closeAll(t, group)
	})
}
