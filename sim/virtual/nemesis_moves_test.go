package virtual_test

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

// rivalTime is how long two processes of one node may live when nothing is between them.
const rivalTime = 30 * time.Second

// moves copies the disk of node i to the machine where nothing runs and opens it there, while the
// process here is cut off, stopped, dead, or alive. One of the two goes on. A voter with two
// processes has two votes: while both may live nothing else happens to the network, in two parts of
// which each could be of a majority, and the only voter is dead.
func (x *nemesis) moves(r *rand.Rand, i int) {
	how := r.IntN(4)
	if x.alone(i) {
		how = 2
	}
	if how != 2 && !x.takeNetwork() {
		return
	}
	if to := x.vacancy(); to >= 0 {
		x.movesTo(r, i, to, how)
	}
	if how != 2 {
		x.giveNetwork()
	}
}

func (x *nemesis) movesTo(r *rand.Rand, i, to, how int) {
	from, host := x.s.Node(i), x.s.Node(to)
	id := x.idOf(i)
	end := func() {}
	if how == 3 && (id == "" || !x.spare(i)) { // what it has promised since the copy is lost
		how = 0
	}
	switch how {
	case 0:
		from.Isolate()
		end = x.calm
	case 1:
		from.Pause()
		end = from.Resume
	case 2:
		x.kill(i)
	}
	x.wait(x.lasts(r))
	if x.alone(i) {
		x.kill(i)
	}
	x.change(func() { x.doubled++ })
	defer x.change(func() { x.doubled-- })
	if err := host.CopyDisk(from); err != nil {
		x.t.Errorf("copying the disk of node %d: %v", i, err)
	}
	x.change(func() { x.ids[i], x.former[i], x.former[to] = "", id, id })
	x.open(to)
	former, later := from.Cluster(), host.Cluster()
	x.unclaim(to)
	x.recover(to)
	x.wait(x.lasts(r))
	end()
	if former != nil && later != nil && x.goesOn(former, later) == former {
		x.change(func() { x.ids[i], x.former[i] = id, id })
		return
	}
	x.kill(i)
	x.wipe(i)
	x.change(func() { x.ill[i]++ })
	x.leaveVacant(i)
}

// alone reports whether node i is the only voter, or may become so as others leave.
func (x *nemesis) alone(i int) bool {
	c := x.s.Node(i).Cluster()
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.leaving > 0 || c != nil && len(c.Status().Voters) < 2
}

// goesOn is which of two processes of a node goes on: the later one, unless others had heard more
// of the former. One stops, as soon as the group serves: before, neither can know.
func (x *nemesis) goesOn(former, later *holdfast.Cluster) *holdfast.Cluster {
	for end := time.Now().Add(rivalTime); time.Now().Before(end); x.sleep(100 * time.Millisecond) {
		switch {
		case former.Err() != nil:
			return later
		case later.Err() != nil && !errors.Is(later.Err(), holdfast.ErrClosed):
			return former
		}
	}
	if former.Ready(testkit.Until(time.Second)) == nil && later.Ready(testkit.Until(time.Second)) == nil && former.Err() == nil {
		x.t.Errorf("two processes of node %s live for %v beside each other", former.ID(), rivalTime)
	}
	return later
}

// stopped reports whether a node may have ended so: the group has removed it, or its disk runs
// elsewhere.
func (x *nemesis) stopped(i int, err error) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return errors.Is(err, holdfast.ErrRemoved) || errors.Is(err, holdfast.ErrIncompatible) && x.former[i] != ""
}

func (x *nemesis) idOf(i int) string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.ids[i]
}

// vacancy takes a machine on which nothing runs; -1 if there is none.
func (x *nemesis) vacancy() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	for i, v := range x.vacant {
		if v && !x.busy[i] {
			x.vacant[i], x.busy[i] = false, true
			return i
		}
	}
	return -1
}

// leaveVacant says that nothing runs on a machine. It is ill until something does, and has been.
func (x *nemesis) leaveVacant(i int) {
	x.change(func() { x.vacant[i], x.busy[i], x.proof[i], x.ids[i] = true, false, false, "" })
}

// settleIn starts new nodes where nothing runs.
func (x *nemesis) settleIn() {
	for i := x.vacancy(); i >= 0; i = x.vacancy() {
		x.open(i)
		x.unclaim(i)
		x.recover(i)
	}
}
