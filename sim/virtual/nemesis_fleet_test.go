package virtual_test

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/sim"
	"github.com/holdfast-go/holdfast/sim/internal/history"
	"github.com/holdfast-go/holdfast/sim/internal/workload"
)

// backup is a fleet as it was at one moment.
type backup struct {
	op          uint64
	disks       []*sim.Backup
	ids, former []string
	vacant      []bool
}

// restorer takes the fleet back to a backup, again and again.
func (x *nemesis) restorer(r *rand.Rand) {
	var b *backup
	for x.wait(workload.UpTo(r, x.pace.backup)) {
		switch {
		case !x.quiet():
		case b == nil:
			b = x.copies()
			x.stir()
		default:
			x.goesBack(r, b)
			b = nil
		}
	}
}

// quiet waits for a while until no fault has the life of a node in its hands, lets none begin, and
// is still then.
func (x *nemesis) quiet() bool {
	x.awaited.Store(true)
	defer x.awaited.Store(false)
	for end := time.Now().Add(x.pace.backup / 4); time.Now().Before(end) && x.wait(100*time.Millisecond); {
		if x.still() {
			return true
		}
	}
	return false
}

// still takes the lives of all machines in hand, if no fault has one.
func (x *nemesis) still() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.leaving > 0 || slices.Contains(x.busy, true) {
		return false
	}
	for i := range x.busy {
		x.busy[i] = true
	}
	return true
}

// stir lets other faults have the machines again.
func (x *nemesis) stir() {
	x.mu.Lock()
	defer x.mu.Unlock()
	clear(x.busy)
}

// copies makes a backup of the whole fleet.
func (x *nemesis) copies() *backup {
	x.mu.Lock()
	defer x.mu.Unlock()
	b := &backup{op: x.rec.Op(), ids: slices.Clone(x.ids), former: slices.Clone(x.former), vacant: slices.Clone(x.vacant)}
	x.rec.Observe(func() (history.Event, bool) {
		b.disks = x.s.Backup()
		return history.Event{Kind: history.Copied, Op: b.op}, true
	})
	return b
}

// goesBack ends all processes and opens the fleet as it was at its backup.
func (x *nemesis) goesBack(r *rand.Rand, b *backup) {
	x.faults.Add(1)
	x.restores.Add(1)
	x.change(func() {
		for i := range x.ill {
			if !x.vacant[i] {
				x.ill[i]++
			}
		}
	})
	orderly := workload.Chance(r, 50)
	var ending sync.WaitGroup
	for i, n := range x.s.Nodes() {
		if n.Cluster() == nil {
			continue
		}
		if ending.Go(func() { x.ends(i, orderly) }); orderly {
			ending.Wait() // one after the other
		}
	}
	ending.Wait()
	x.wait(x.lasts(r))
	for i, n := range x.s.Nodes() {
		n.Restore(b.disks[i])
	}
	x.mu.Lock()
	copy(x.ids, b.ids)
	copy(x.former, b.former)
	copy(x.vacant, b.vacant)
	clear(x.proof)
	x.mu.Unlock()
	x.rec.Add(history.Event{Kind: history.Restored, Op: b.op})
	for i, vacant := range b.vacant {
		if !vacant {
			x.open(i)
			x.recover(i)
		}
	}
	x.stir()
}

// ends ends the process of a node, in good order or not.
func (x *nemesis) ends(i int, orderly bool) {
	if orderly {
		x.closes(i)
		return
	}
	x.kill(i)
}

// leaves has a node leave the group, or several at once, or all, and opens them again some time
// later.
func (x *nemesis) leaves(r *rand.Rand, i int) {
	doubled := false
	x.change(func() { x.leaving, doubled = x.leaving+1, x.doubled > 0 })
	var who []int
	if !doubled {
		who = x.some(r, i)
	}
	var going sync.WaitGroup
	for _, j := range who {
		patience := workload.UpTo(r, time.Minute)
		going.Go(func() { x.leave(j, patience) })
	}
	going.Wait()
	x.change(func() { x.leaving-- })
	if len(who) == 0 {
		return
	}
	x.faults.Add(1)
	x.wait(x.lasts(r))
	for _, j := range who {
		x.open(j)
		x.unclaim(j)
		x.recover(j)
	}
}

// some claims node i, or several nodes, or all.
func (x *nemesis) some(r *rand.Rand, i int) (who []int) {
	share := []int{0, 0, 40, 100}[r.IntN(4)]
	for k, j := range append([]int{i}, r.Perm(len(x.ids))...) {
		if k > 0 && (j == i || len(who) > 0 && !workload.Chance(r, share)) {
			continue
		}
		if x.claim(j) {
			who = append(who, j)
		}
	}
	return who
}

// leave has node i leave. Its disk begins as a new node, unless it could not leave in time or
// nobody stayed.
func (x *nemesis) leave(i int, patience time.Duration) {
	x.rec.Add(history.Event{Kind: history.Closes, Node: i})
	if c := x.s.Node(i).Cluster(); c != nil {
		if err := c.Leave(testkit.Until(patience)); err != nil {
			x.users[i].Understand(c, "leaving", err)
		} else {
			x.left.Add(1)
		}
	}
	x.s.Node(i).Close()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.ids[i], x.proof[i] = "", false
}

// servesWell reports whether a client has a replica that is well, whichever that is: for its promises in
// time it is as ill as that. The caller holds x.mu.
func (x *nemesis) servesWell() bool {
	for i, n := range x.ill[:x.machines] {
		if n > 0 && !x.vacant[i] {
			return false
		}
	}
	return true
}
