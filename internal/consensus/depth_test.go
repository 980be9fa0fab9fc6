package consensus

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lni/vfs"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/transport"
)

// stuck is a disk whose syncs wait while it is shut. The clock of a simulation goes on meanwhile.
type stuck struct{ gate atomic.Pointer[chan struct{}] }

func (d *stuck) shut() {
	gate := make(chan struct{})
	d.gate.Store(&gate)
}

func (d *stuck) open() { close(*d.gate.Swap(nil)) }

// MaybeError is asked before every operation.
func (d *stuck) MaybeError(op vfs.Op) error {
	if gate := d.gate.Load(); gate != nil && op == vfs.OpSync {
		<-*gate
	}
	return nil
}

// Raft counts the raft leader's own log only when it is on its disk. The engine does not where the
// raft leader is the only voter: a standby answered OK for what was on no voter's disk, and a power
// cut took it back.
func TestAStandbyOfTheOnlyVoterAnswersNothingThatIsNotOnTheVotersDisk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, disk := newBench(), &stuck{}
		voter := b.open(t, 1, vfs.Wrap(vfs.NewMem(), disk), StartBootstrap)
		voter.propose(t, birth())
		standby := b.add(t, voter, 2, vfs.NewMem())
		defer closeAll(t, []*replica{voter, standby})
		standby.propose(t, fsm.Level{Level: 1})
		synctest.Wait()
		disk.shut()
		if _, err := standby.Propose(context.Background(), fsm.Encode(fsm.Level{Level: 2})); !errors.Is(err, ErrUnknown) {
			t.Errorf("a standby was answered %v while the disk of the only voter hung", err)
		}
		if standby.level() != 1 {
			t.Error("a standby has applied what is on no voter's disk")
		}
		disk.open()
		began := time.Now()
		standby.barrier(t)
		if standby.level() != 2 {
			t.Errorf("level %d after the disk came back", standby.level())
		}
		if took := time.Since(began); took > 10*voter.cfg.Election {
			t.Errorf("the standby was served again after %v", took)
		}
	})
}

// fuse is a disk that calls blown before one of its operations. While that is to come, a sync lets
// others run first: what was sent before it arrives.
type fuse struct {
	left  atomic.Int64
	blown func()
}

// MaybeError is asked before every operation.
func (f *fuse) MaybeError(op vfs.Op) error {
	for i := 0; i < 1000 && op == vfs.OpSync && f.left.Load() > 0; i++ {
		runtime.Gosched()
	}
	if f.left.Add(-1) == 0 {
		f.blown()
	}
	return nil
}

// machinery is a replica's: a disk without what was not synced, and a power supply that fails.
type machinery struct {
	disk *vfs.MemFS
	fuse fuse
	fs   vfs.FS
}

func newMachinery(t *testing.T) *machinery {
	m := &machinery{disk: vfs.NewStrictMem()}
	prepareStrict(t, m.disk)
	m.fs = vfs.Wrap(m.disk, &m.fuse)
	return m
}

// What a replica is held to when it comes back must never be more than what its disk had when it
// said so. Otherwise a power cut expels it for ever.
func TestAReplicaThatLostItsPowerAtAnyMomentIsLetInAgain(t *testing.T) {
	t.Parallel()
	for _, voters := range []int{1, 3} {
		synctest.Test(t, func(t *testing.T) {
			b, random := newBench(), rand.New(rand.NewPCG(7, uint64(voters)))
			b.tune = func(c *Config) { c.SnapshotEntries, c.SnapshotKeep = 30, 5 }
			network := b.network.(*transport.Memory)
			works := []*machinery{newMachinery(t), newMachinery(t), newMachinery(t)}
			group := []*replica{b.open(t, 1, works[0].fs, StartBootstrap)}
			group[0].propose(t, birth())
			for n := 2; n <= 3; n++ {
				group = append(group, b.add(t, group[0], n, works[n-1].fs))
				if voters == 3 {
					group[0].promote(t, group[n-1])
				}
			}
			defer func() { closeAll(t, group) }()
			level := uint64(0)
			for range 40 {
				victim := leaderOf(t, group)
				i, dark := number(group, victim)-1, make(chan struct{})
				works[i].fuse.blown = func() {
					// The network goes first: between the two a replica would promise what its disk forgets.
					network.Isolate(victim.endpoint.Addr())
					network.Break(victim.endpoint.Addr(), "*")
					works[i].disk.SetIgnoreSyncs(true)
					close(dark)
				}
				works[i].fuse.left.Store(1 + random.Int64N(60))
				for done := false; !done; {
					level++
					cmd := fsm.Encode(fsm.Level{Level: level})
					ctx, cancel := context.WithTimeout(context.Background(), time.Second)
					for _, r := range group {
						go func() { _, _ = r.Propose(ctx, cmd) }()
					}
					select {
					case <-dark:
						done = true
					case <-time.After(time.Millisecond):
					}
					cancel()
				}
				victim.close(t)
				works[i].disk.ResetToSyncedState()
				works[i].disk.SetIgnoreSyncs(false)
				network.Heal()
				group[i] = b.open(t, i+1, works[i].fs, StartRestart)
				for _, r := range group {
					r.barrier(t)
					if err := r.Failure(); err != nil {
						t.Fatalf("with %d voters: %v", voters, err)
					}
				}
			}
		})
	}
}
