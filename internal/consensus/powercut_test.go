package consensus

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/lni/vfs"

	"github.com/holdfast-go/holdfast/fsm"
)

// history lets replicas live for a while on disks that record: bursts of commands by any of them,
// snapshots, a restart. What was acknowledged is noted with each step.
func (b *bench) history(t *testing.T, random *rand.Rand, group []*replica, reel *reel, rounds int) {
	t.Helper()
	level := uint64(0)
	for round := range rounds {
		var burst sync.WaitGroup
		for range 1 + random.IntN(3) {
			level++
			next, r := fsm.Level{Level: level}, group[random.IntN(len(group))]
			burst.Go(func() {
				r.propose(t, next)
				reel.say(next.Level)
			})
		}
		burst.Wait()
		if round == rounds/2 {
			i := random.IntN(len(group))
			group[i].close(t)
			group[i] = b.open(t, i+1, group[i].fs, StartRestart)
		}
	}
}

// tapes are n disks that record on one reel.
func tapes(t *testing.T, n int) ([]*tape, *reel) {
	t.Helper()
	shared, disks := &reel{}, make([]*tape, n)
	for i := range disks {
		disks[i] = &tape{FS: vfs.NewMem(), reel: shared, disk: i}
		prepareStrict(t, disks[i])
	}
	return disks, shared
}

// survives opens all replicas on their disks as the power cut left them, and wants all that was
// acknowledged, and a group that goes on.
func (b *bench) survives(t *testing.T, reel *reel, replicas, steps int, torn *rand.Rand) {
	t.Helper()
	acknowledged := reel.steps[steps].note
	var group []*replica
	for i := range replicas {
		group = append(group, b.open(t, i+1, reel.cut(t, i, steps, torn), StartRestart))
	}
	for _, r := range group {
		r.barrier(t)
		if got := r.level(); got < acknowledged {
			t.Errorf("cut before step %d of %d: level %d, %d was acknowledged", steps, len(reel.steps), got, acknowledged)
		}
	}
	group[0].propose(t, fsm.Level{Level: 1000})
	closeAll(t, group)
}

func TestNothingAcknowledgedIsForgottenWhereverThePowerIsCut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(3, 4))
		b := newBench()
		b.tune = func(c *Config) { c.SnapshotEntries, c.SnapshotKeep = 12, 4 }
		disks, reel := tapes(t, 1)
		group := []*replica{b.open(t, 1, disks[0], StartBootstrap)}
		group[0].propose(t, birth())
		from := reel.length()
		b.history(t, random, group, reel, 14)
		closeAll(t, group)
		t.Logf("%d steps, cut before each from step %d on", len(reel.steps), from)
		for steps := from; steps < len(reel.steps); steps++ {
			b.survives(t, reel, 1, steps, nil)
			b.survives(t, reel, 1, steps, random)
		}
	})
}

func TestNothingThatAGroupAcknowledgedIsForgottenWhereverThePowerOfAllIsCut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(5, 6))
		b := newBench()
		b.tune = func(c *Config) { c.SnapshotEntries, c.SnapshotKeep = 12, 4 }
		disks, reel := tapes(t, 3)
		group := []*replica{b.open(t, 1, disks[0], StartBootstrap)}
		group[0].propose(t, birth())
		for n := 2; n <= 3; n++ {
			joined := b.add(t, group[0], n, disks[n-1])
			group[0].promote(t, joined)
			group = append(group, joined)
		}
		for _, r := range group {
			r.barrier(t)
		}
		from := reel.length()
		b.history(t, random, group, reel, 25)
		closeAll(t, group)
		const cuts = 60
		t.Logf("%d steps, %d cuts from step %d on", len(reel.steps), cuts, from)
		for i := range cuts {
			torn := random
			if i%2 == 0 {
				torn = nil
			}
			b.survives(t, reel, 3, from+random.IntN(len(reel.steps)-from), torn)
		}
	})
}
