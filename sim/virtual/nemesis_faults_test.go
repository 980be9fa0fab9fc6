package virtual_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/sim/internal/history"
	"github.com/holdfast-go/holdfast/sim/internal/workload"
)

// inject injects faults for d, and ends when all of them have ended.
func (x *nemesis) inject(r *rand.Rand, d time.Duration) {
	var doing sync.WaitGroup
	time.AfterFunc(d, func() { close(x.stop) })
	if workload.Chance(r, 50) {
		own := rand.New(rand.NewPCG(r.Uint64(), 5))
		doing.Go(func() { x.siege(own) })
	}
	if workload.Chance(r, 50) {
		own := rand.New(rand.NewPCG(r.Uint64(), 6))
		doing.Go(func() { x.restorer(own) })
	}
	for x.wait(workload.UpTo(r, x.pace.faultPause)) {
		if x.running.Load() >= x.pace.faults {
			continue
		}
		x.running.Add(1)
		own := rand.New(rand.NewPCG(r.Uint64(), 4))
		doing.Go(func() {
			defer x.running.Add(-1)
			x.one(own)
		})
	}
	doing.Wait()
}

// wait waits for d, or returns false when the faults are to end.
func (x *nemesis) wait(d time.Duration) bool {
	select {
	case <-x.stop:
		return false
	case <-time.After(d):
		return true
	}
}

// replaced is how long a node must be away at least to be replaced.
const replaced = 40 * time.Second

// siege cuts a holder of a lock with a long TTL off, or its gossip or its Raft connections alone,
// for so long that the group replaces its node.
func (x *nemesis) siege(r *rand.Rand) {
	for x.wait(time.Second) {
		holders := x.work.Keepers()
		if len(holders) == 0 {
			continue
		}
		n := x.s.Node(holders[r.IntN(len(holders))])
		cut := []func(){n.Isolate, n.Isolate, n.CutRaft, n.CutGossip}[r.IntN(4)]
		if x.breakNetwork([]int{n.Index()}, cut, replaced+workload.UpTo(r, time.Minute)) {
			return
		}
	}
}

// victim is a node, more often than not the raft leader.
func (x *nemesis) victim(r *rand.Rand) int {
	if workload.Chance(r, 50) {
		for _, n := range x.s.Nodes() {
			if c := n.Cluster(); c != nil && c.Status().RaftLeader == c.ID() {
				return n.Index()
			}
		}
	}
	return r.IntN(len(x.s.Nodes()))
}

// one does one fault from its beginning to its end.
func (x *nemesis) one(r *rand.Rand) {
	i := x.victim(r)
	what := r.IntN(100)
	if workload.Chance(r, x.pace.moves) {
		what = 86 + r.IntN(8) // a disk moves, or nodes leave
	}
	switch {
	case what < 45:
		x.onNetwork(r, i)
	case what < 70:
		x.onNode(i, func() { x.dies(r, i) })
	case what < 74:
		x.onNode(i, func() { x.restarts(r, i) })
	case what < 77:
		x.allDie(r)
	case what < 86:
		x.onNode(i, func() { x.pauses(r, i) })
	case what < 91 && !x.client(i):
		x.onNode(i, func() { x.moves(r, i) })
	case what < 94:
		x.leaves(r, i)
	case what < 97:
		x.onNode(i, func() { x.slowDisk(r, i) })
	default:
		x.faults.Add(1)
		x.drift(r, i)
	}
}

// onNode does f if no other fault has the node's life in its hands.
func (x *nemesis) onNode(i int, f func()) {
	if x.claim(i) {
		x.faults.Add(1)
		f()
		x.unclaim(i)
		x.recover(i)
	}
}

// claim makes a node ill and busy, unless it is busy already, or none is there.
func (x *nemesis) claim(i int) (ok bool) {
	x.change(func() {
		if ok = !x.busy[i] && !x.vacant[i] && !x.awaited.Load(); ok {
			x.busy[i] = true
			x.ill[i]++
		}
	})
	return ok
}

func (x *nemesis) unclaim(i int) { x.change(func() { x.busy[i] = false }) }

// recover ends one illness of a node when it serves again, as far as it knows.
func (x *nemesis) recover(i int) {
	x.healing.Go(func() {
		for {
			c := x.s.Node(i).Cluster()
			if c == nil || c.Ready(testkit.Until(time.Second)) == nil || x.resting() {
				break
			}
			x.sleep(20 * time.Millisecond)
		}
		x.change(func() { x.ill[i]-- })
	})
}

// change edits what is known of the fleet's health and records what that changes.
func (x *nemesis) change(edit func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	edit()
	for i, n := range x.ill {
		far := x.far(i)
		if bound := far && !x.client(i); bound != x.bound[i] {
			if x.bound[i] = bound; bound {
				x.became.Add(1)
			}
		}
		if well := n == 0 && (!far || x.servesWell()); well != x.well[i] {
			x.well[i] = well
			kind := history.Ill
			if well {
				kind = history.Well
			}
			x.rec.Add(history.Event{Kind: kind, Node: i})
		}
	}
	if q := x.majority(); q != x.quorum {
		x.quorum = q
		x.rec.Add(history.Event{Kind: history.Quorum, OK: q})
	}
}

// majority reports whether the well nodes have a majority of the voters, as each of them sees it, and a
// raft leader whose network is not lossy and slow: a cut makes them elect another, and that must be
// quick, but such a one may stay in office and serve badly.
func (x *nemesis) majority() bool {
	views := 0
	for i, n := range x.s.Nodes() {
		c := n.Cluster()
		if !x.well[i] || c == nil || x.far(i) {
			continue
		}
		views++
		st := c.Status()
		if leader := slices.Index(x.ids, st.RaftLeader); leader >= 0 && x.stormy[leader] {
			return false
		}
		voters := testkit.IDs(st.Voters)
		count := 0
		for j, id := range x.ids {
			if x.well[j] && slices.Contains(voters, id) {
				count++
			}
		}
		if 2*count <= len(voters) {
			return false
		}
	}
	return views > 0
}

// open starts a node, and again when the group has removed it, as a new one when its disk runs
// elsewhere.
func (x *nemesis) open(i int) {
	x.mu.Lock()
	proof := x.proof[i] && !x.client(i)
	x.proof[i] = false
	x.mu.Unlock()
	x.rec.Add(history.Event{Kind: history.Opens, Node: i, OK: proof})
	c, err := x.s.Node(i).TryOpen()
	if err != nil && x.stopped(i, err) {
		x.wipe(i)
		x.open(i)
		return
	}
	if err != nil {
		x.t.Errorf("opening node %d: %v", i, err)
		return
	}
	x.rec.Add(history.Event{Kind: history.Opened, Node: i, Value: c.ID()})
	x.mu.Lock()
	x.ids[i] = c.ID()
	x.mu.Unlock()
	x.watching.Go(func() {
		select {
		case <-c.Done():
		case <-x.work.Resting():
			return
		}
		err := c.Err()
		if errors.Is(err, holdfast.ErrClosed) {
			return
		}
		x.rec.Add(history.Event{Kind: history.Closes, Node: i})
		if !x.stopped(i, err) {
			x.t.Errorf("node %d has failed: %v", i, err)
		}
		for !x.claim(i) {
			if x.s.Node(i).Cluster() != c {
				return
			}
			x.sleep(100 * time.Millisecond)
		}
		if x.s.Node(i).Cluster() == c {
			x.closes(i)
			if errors.Is(err, holdfast.ErrIncompatible) {
				x.wipe(i)
			}
			x.open(i)
		}
		x.unclaim(i)
		x.recover(i)
	})
}

// dies ends the node's process or cuts its power, and sometimes takes its disk away.
func (x *nemesis) dies(r *rand.Rand, i int) {
	n := x.s.Node(i)
	wipe := workload.Chance(r, 25) && !x.client(i) && x.spare(i)
	if workload.Chance(r, 50) {
		x.kill(i)
	} else {
		x.died(i, false)
		n.Crash()
	}
	if wipe {
		x.wipe(i)
	}
	x.wait(x.lasts(r))
	x.open(i)
}

// died says that the process of a node is dead from now on. The next one proves that if it runs on
// the same disk in the same boot.
func (x *nemesis) died(i int, proof bool) {
	x.rec.Add(history.Event{Kind: history.Dies, Node: i})
	x.mu.Lock()
	defer x.mu.Unlock()
	x.proof[i] = proof
}

// kill ends the process of a node.
func (x *nemesis) kill(i int) {
	x.died(i, true)
	x.s.Node(i).Kill()
}

// closes ends the process of a node in good order.
func (x *nemesis) closes(i int) {
	x.rec.Add(history.Event{Kind: history.Closes, Node: i})
	x.s.Node(i).Close()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.proof[i] = true
}

// wipe takes the disk of a node away.
func (x *nemesis) wipe(i int) {
	x.s.Node(i).Wipe()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.proof[i], x.former[i] = false, ""
}

func (x *nemesis) restarts(r *rand.Rand, i int) {
	x.closes(i)
	x.wait(x.lasts(r) / 4)
	x.open(i)
}

// spare reports whether the group can lose the data of node i: all its voters have theirs. True
// takes it away.
func (x *nemesis) spare(i int) bool {
	for j, n := range x.s.Nodes() {
		c := n.Cluster()
		if j == i || c == nil || x.far(j) || c.Ready(testkit.Until(time.Second)) != nil {
			continue
		}
		voters := testkit.IDs(c.Status().Voters)
		x.mu.Lock()
		defer x.mu.Unlock()
		if x.leaving > 0 || len(voters) < 3 {
			return false
		}
		for _, id := range voters {
			if !slices.Contains(x.ids, id) {
				return false
			}
		}
		x.ids[i] = "" // decided
		return true
	}
	return false
}

// allDie cuts the power of the whole fleet.
func (x *nemesis) allDie(r *rand.Rand) {
	var all []int
	for i := range x.s.Nodes() {
		if x.claim(i) {
			all = append(all, i)
		}
	}
	x.faults.Add(1)
	var dying sync.WaitGroup
	for _, i := range all {
		x.died(i, false)
		dying.Go(x.s.Node(i).Crash)
	}
	dying.Wait()
	x.wait(x.lasts(r))
	for _, i := range all {
		x.open(i)
		x.unclaim(i)
		x.recover(i)
	}
}

func (x *nemesis) pauses(r *rand.Rand, i int) {
	x.s.Node(i).Pause()
	x.wait(x.lasts(r))
	x.s.Node(i).Resume()
}

func (x *nemesis) slowDisk(r *rand.Rand, i int) {
	if workload.Chance(r, 50) {
		x.s.Node(i).HangDisk(true)
		x.wait(x.lasts(r))
		x.s.Node(i).HangDisk(false)
		return
	}
	x.s.Node(i).SlowDisk(time.Duration(r.IntN(500)) * time.Millisecond)
	x.wait(x.lasts(r))
	x.s.Node(i).SlowDisk(0)
}
