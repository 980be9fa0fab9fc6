//go:build unix

package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/sim/cmd/chaos/internal/story"
	"github.com/holdfast-go/holdfast/sim/internal/history"
	"github.com/holdfast-go/holdfast/sim/internal/workload"
)

// What operators do. As long as a majority of the voters lives none of it may lose the group; where
// an act takes data away it waits for a moment at which the group can spare it, or for what the
// node before answered to Ready.

const (
	newcomerWait = 15 * time.Second // and the time after which a node is replaced: for a new node to be ready
	revokeWait   = 3 * time.Second
	lateMachine  = 8 * time.Second // until another machine takes the place of one that died
)

func (x *nemesis) perm() []int {
	all := x.f.inhabited()
	x.r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// claim takes the lives of those processes in hand that are in nobody's.
func (x *nemesis) claim(nodes ...int) (all []*slot) {
	for _, i := range nodes {
		if s := x.f.slots[i]; s.claim() {
			all = append(all, s)
		}
	}
	return all
}

func unclaim(all []*slot) {
	for _, s := range all {
		s.unclaim()
	}
}

func numbers(all []*slot) (nodes []int) {
	for _, s := range all {
		nodes = append(nodes, s.i)
	}
	return nodes
}

// vacancy takes a machine on which nothing runs; nil if there is none.
func (f *fleet) vacancy() *slot {
	for _, s := range f.slots {
		f.mu.Lock()
		vacant := s.vacant
		f.mu.Unlock()
		if vacant && s.claim() {
			return s
		}
	}
	return nil
}

func (s *slot) vacate() {
	s.kill()
	s.wipe()
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	s.vacant = true
}

// readily waits until all of some processes have said since then that they are ready, or one that
// its node has failed: it was removed while it was away, perhaps, and is started again.
func (x *nemesis) readily(ctx context.Context, since time.Duration, all ...*slot) (ready bool) {
	waiting, cancel := context.WithTimeout(ctx, newcomerWait+x.f.replaced())
	defer cancel()
	x.f.until(waiting, func() bool {
		ready = !slices.ContainsFunc(all, func(s *slot) bool { return !s.ready(since) })
		return ready || slices.ContainsFunc(all, func(s *slot) bool { return s.failed })
	})
	return ready
}

func together(all []*slot, order string) {
	var ending sync.WaitGroup
	for _, s := range all {
		ending.Go(func() { s.stop(order) })
	}
	ending.Wait()
}

// calm takes the network in hand, so that nothing is done to it meanwhile: several new nodes among
// themselves could found a group of their own, and those without disks that cannot leave would take
// the group with them.
func (x *nemesis) calm(ctx context.Context) bool {
	taking, cancel := context.WithTimeout(ctx, spareWait)
	defer cancel()
	return x.f.takeNetwork(taking)
}

// replace ends a machine for good. Somewhat later another takes its place, at another address and
// with an empty disk.
func (x *nemesis) replace(ctx context.Context) {
	host := x.f.vacancy()
	if host == nil {
		return
	}
	defer host.unclaim()
	all := x.claim(x.any())
	defer unclaim(all)
	if len(all) == 0 || !x.spared(ctx) {
		return
	}
	s, late := all[0], workload.UpTo(x.r, lateMachine)
	x.f.fault("replace", fmt.Sprint(s.i, " by ", host.i), []int{s.i, host.i}, func() {
		s.vacate()
		wait(ctx, late)
		since := x.f.now()
		x.begin(host)
		x.readily(ctx, since, host)
	})
}

// reimage makes machines anew one by one, at their own addresses: each as soon as that before it
// says that it is ready.
func (x *nemesis) reimage(ctx context.Context) {
	all := x.claim(x.perm()[:2+x.r.IntN(2)]...)
	defer unclaim(all)
	if len(all) == 0 || !x.spared(ctx) {
		return
	}
	for _, s := range all {
		ready := false
		x.f.fault("reimage", "", []int{s.i}, func() {
			s.kill()
			s.wipe()
			since := x.f.now()
			x.begin(s)
			ready = x.readily(ctx, since, s)
		})
		if !ready {
			return
		}
	}
}

// batch rolls the fleet in batches: each leaves, or closes if it has disks, is started again, and
// must be ready.
func (x *nemesis) batch(ctx context.Context) {
	order := orderLeave
	if !x.f.run.Diskless && workload.Chance(x.r, 50) {
		order = orderClose
	}
	size, rest := 2+x.r.IntN(2), x.perm()
	for len(rest) > 0 && ctx.Err() == nil {
		now := rest[:min(size, len(rest))]
		rest = rest[len(now):]
		if !x.anew(ctx, "batch", order, now...) {
			return
		}
	}
}

// leaveSeveral has several nodes leave at one moment. New ones take their places.
func (x *nemesis) leaveSeveral(ctx context.Context) {
	all := x.perm()
	x.anew(ctx, "leave several", orderLeave, all[:2+x.r.IntN(len(all)-2)]...)
}

func (x *nemesis) down(ctx context.Context) {
	x.anew(ctx, "down", []string{orderLeave, orderClose}[x.r.IntN(2)], x.f.inhabited()...)
}

// anew gives an order to end to several processes at one moment and starts them again; true: all
// have said that they are ready.
func (x *nemesis) anew(ctx context.Context, name, order string, nodes ...int) (ready bool) {
	if !x.calm(ctx) {
		return false
	}
	defer x.f.giveNetwork()
	all := x.claim(nodes...)
	defer unclaim(all)
	if x.f.run.Diskless && !x.spared(ctx) {
		return false
	}
	d := x.lasts() / 4
	x.f.fault(name, order, numbers(all), func() {
		together(all, order)
		wait(ctx, d)
		since := x.f.now()
		for _, s := range all {
			x.begin(s)
		}
		ready = x.readily(ctx, since, all...)
	})
	return ready
}

// scale lets all nodes but one leave, one after the other, and then starts as many again.
func (x *nemesis) scale(ctx context.Context) {
	if !x.calm(ctx) {
		return
	}
	defer x.f.giveNetwork()
	all := x.claim(x.perm()...)
	defer unclaim(all)
	if len(all) < 2 || x.f.run.Diskless && !x.spared(ctx) {
		return
	}
	var gone []*slot
	for _, s := range all[1:] {
		if ctx.Err() != nil {
			break
		}
		x.f.fault("scale", orderLeave, []int{s.i}, func() { s.stop(orderLeave) })
		gone = append(gone, s)
	}
	since := x.f.now()
	for _, s := range gone {
		x.begin(s)
	}
	x.readily(ctx, since, gone...)
}

func (x *nemesis) revokeDead(ctx context.Context) {
	x.one(ctx, "revoke", x.any(), func(ctx context.Context, s *slot) {
		x.f.mu.Lock()
		id := s.status.ID
		x.f.mu.Unlock()
		d := x.lasts()
		s.kill()
		x.revoke(ctx, id, s.i)
		wait(ctx, d)
		x.begin(s)
	})
}

// revokeLiving has an operator take a node for dead that lives: two may believe that they hold, and
// tokens alone keep the former one out.
func (x *nemesis) revokeLiving(ctx context.Context) {
	s := x.f.slots[x.any()]
	x.f.mu.Lock()
	id := s.status.ID
	x.f.mu.Unlock()
	x.f.fault("revoke living", "", []int{s.i}, func() { x.revoke(ctx, id, s.i) })
}

// revoke has an operator on any other node revoke a node, and waits for the answer for a while.
func (x *nemesis) revoke(ctx context.Context, id string, but int) {
	for _, j := range x.perm() {
		x.f.mu.Lock()
		ready := j != but && x.f.slots[j].ready(x.f.now()-5*statusEvery)
		x.f.mu.Unlock()
		if id == "" || !ready {
			continue
		}
		mark := x.f.mark()
		x.f.slots[j].order(orderRevoke + " " + id)
		answer, cancel := context.WithTimeout(ctx, revokeWait)
		defer cancel()
		x.f.seen(answer, mark, func(l story.Line) bool {
			return l.Event != nil && l.Event.Kind == history.Revoked && l.Event.Value == id
		})
		return
	}
}
