//go:build unix

package main

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/internal/loop"
	"github.com/holdfast-go/holdfast/sim/cmd/chaos/internal/story"
	"github.com/holdfast-go/holdfast/sim/internal/workload"
)

// nemesis injects faults by seed. One hand has the lives of the processes, the other the network
// between them.
type nemesis struct {
	f     *fleet
	r     *rand.Rand // of the lives
	disks map[int]bool
}

type faultKind[F any] struct {
	name   string
	weight int
	do     F
}

func choose[F any](r *rand.Rand, all []faultKind[F]) faultKind[F] {
	sum := 0
	for _, d := range all {
		sum += d.weight
	}
	n := r.IntN(sum)
	for _, d := range all {
		if n -= d.weight; n < 0 {
			return d
		}
	}
	return all[0]
}

func only[F any](names []string, all []faultKind[F]) []faultKind[F] {
	if len(names) == 0 {
		return all
	}
	return slices.DeleteFunc(all, func(d faultKind[F]) bool { return !slices.Contains(names, d.name) })
}

// inject injects faults for the run's duration. What the run would be vacuous without comes first.
func inject(ctx context.Context, f *fleet, disks map[int]bool) {
	x := &nemesis{f: f, r: rand.New(rand.NewPCG(f.run.Seed, 1)), disks: disks}
	w := &networkNemesis{f: f, r: rand.New(rand.NewPCG(f.run.Seed, 2))}
	x.essentials(ctx)
	ctx, end := context.WithTimeout(ctx, f.run.Duration)
	defer end()
	var hands sync.WaitGroup
	hands.Go(func() { x.lives(ctx) })
	hands.Go(func() { w.change(ctx) })
	hands.Wait()
}

const (
	proofWait   = time.Minute     // for the twin of the ledger to lose an update
	spareWait   = 5 * time.Second // to look for a moment at which a node may lose its data
	leaderLooks = 15              // for a raft leader
	deposeTime  = time.Second     // of a stop, at least, after which there is another raft leader
)

func wait(ctx context.Context, d time.Duration) bool { return loop.Sleep(ctx, d) == nil }

func (f *fleet) fault(name, text string, nodes []int, do func()) {
	f.mu.Lock()
	f.faults++
	fault := story.Fault{ID: f.faults, Name: name, Nodes: nodes, Text: text}
	f.mu.Unlock()
	f.add(story.Line{Kind: story.KindFault, Node: -1, Fault: &fault})
	do()
	f.add(story.Line{Kind: story.KindFaultEnd, Node: -1, Fault: &fault})
}

func (s *slot) claim() bool {
	select {
	case s.busy <- struct{}{}:
		return true
	default:
		return false
	}
}

func (s *slot) unclaim() { <-s.busy }

func (x *nemesis) kinds() []faultKind[func(context.Context)] {
	all := []faultKind[func(context.Context)]{
		{"kill", 15, func(ctx context.Context) { x.one(ctx, "kill", x.any(), x.kill) }},
		{"kill", 10, x.killLeader}, // or "stop"
		{"stop", 15, func(ctx context.Context) { x.one(ctx, "stop", x.victim(), x.stop) }},
		{"stop holder", 15, x.stopHolder},
		{"restart", 10, func(ctx context.Context) { x.one(ctx, "restart", x.victim(), x.restart) }},
		{"wipe", 8, func(ctx context.Context) { x.renew(ctx, "wipe") }},
		{"leave", 8, func(ctx context.Context) { x.renew(ctx, "leave") }},
		{"roll", 4, x.roll},
		{"replace", 10, x.replace},
		{"reimage", 8, x.reimage},
		{"batch", 5, x.batch},
		{"leave several", 5, x.leaveSeveral},
		{"scale", 4, x.scale},
		{"revoke", 6, x.revokeDead},
		{"revoke living", 3, x.revokeLiving},
	}
	if x.f.run.Clients > 0 {
		all = append(all, faultKind[func(context.Context)]{"kill client", 5, func(ctx context.Context) { x.one(ctx, "kill client", x.client(), x.kill) }},
			faultKind[func(context.Context)]{"stop client", 5, func(ctx context.Context) { x.one(ctx, "stop client", x.client(), x.stop) }},
			faultKind[func(context.Context)]{"restart client", 3, func(ctx context.Context) { x.one(ctx, "restart client", x.client(), x.restart) }})
	}
	if !x.f.run.Diskless { // what it does ends a group that has no disks, or needs one
		all = append(all, faultKind[func(context.Context)]{"hang", 8, func(ctx context.Context) { x.one(ctx, "hang", x.victim(), x.hang) }},
			faultKind[func(context.Context)]{"kill all", 4, x.killAll},
			faultKind[func(context.Context)]{"down", 4, x.down}, faultKind[func(context.Context)]{"move", 10, x.move})
	}
	if len(x.disks) > 0 {
		all = append(all, faultKind[func(context.Context)]{"full disk", 9, x.fillDisk})
	}
	return only(x.f.run.Faults, all)
}

// essentials does what a run is vacuous without, while the network is whole and none of the run's
// duration passes: a stopped holder that finds the ledger written by others is no matter of luck.
// (Three tries in the middle of a siege and a storm once showed none, and the run was refused.)
func (x *nemesis) essentials(ctx context.Context) {
	if len(x.f.run.Faults) > 0 {
		return
	}
	x.killLeader(ctx)
	proving, cancel := context.WithTimeout(ctx, proofWait)
	defer cancel()
	for !x.f.proven() && wait(proving, workload.UpTo(x.r, 1500*time.Millisecond)) {
		x.stopHolder(proving)
	}
}

// proven reports whether the guard has refused a stale holder and the twin has lost an update.
func (f *fleet) proven() bool {
	twin, err := readLedger(filepath.Join(f.dir, resourceDir, unguardedFile))
	f.mu.Lock()
	defer f.mu.Unlock()
	return err == nil && story.Lost(twin) > 0 && slices.ContainsFunc(f.lines, func(l story.Line) bool {
		return l.Kind == story.KindWrite && l.Text == story.Stale
	})
}

// lives does things to the lives of processes.
func (x *nemesis) lives(ctx context.Context) {
	kinds := x.kinds()
	for len(kinds) > 0 && wait(ctx, workload.UpTo(x.r, 3*time.Second)) {
		choose(x.r, kinds).do(ctx)
	}
}

func (x *nemesis) any() int { return x.f.living(x.r) }

// client is a node that is ClientOnly.
func (x *nemesis) client() int {
	return x.f.run.Nodes - 1 - x.r.IntN(x.f.run.Clients)
}

// living is a machine on which a node with a disk runs, or ran until a moment ago.
func (f *fleet) living(r *rand.Rand) int {
	all := f.inhabited()
	return all[r.IntN(len(all))]
}

// inhabited are the machines on which a node with a disk runs, or ran until a moment ago.
func (f *fleet) inhabited() (all []int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.slots {
		if !s.vacant && !s.client {
			all = append(all, s.i)
		}
	}
	return all
}

func (x *nemesis) victim() int {
	if leader := x.f.leader(); leader >= 0 && workload.Chance(x.r, 60) {
		return leader
	}
	return x.any()
}

func (x *nemesis) lasts() time.Duration {
	return 100*time.Millisecond + workload.UpTo(x.r, 2*x.f.run.TTL)
}

// one does something to one node, if its life is in nobody's hands. What ends a process without a
// disk takes data away.
func (x *nemesis) one(ctx context.Context, name string, i int, do func(context.Context, *slot)) {
	s := x.f.slots[i]
	if !s.claim() {
		return
	}
	defer s.unclaim()
	if x.f.run.Diskless && name != "stop" && !s.client && !x.spared(ctx) {
		return
	}
	x.f.fault(name, "", []int{i}, func() { do(ctx, s) })
}

// killLeader ends the raft leader as soon as there is one. Where that would take data away it is
// stopped for long enough.
func (x *nemesis) killLeader(ctx context.Context) {
	leader := x.f.leader()
	for range leaderLooks {
		if leader >= 0 || !wait(ctx, statusEvery) {
			break
		}
		leader = x.f.leader()
	}
	switch {
	case leader < 0:
	case x.f.run.Diskless:
		x.one(ctx, "stop", leader, func(ctx context.Context, s *slot) {
			s.signal(syscall.SIGSTOP)
			wait(ctx, deposeTime+x.lasts())
			s.signal(syscall.SIGCONT)
		})
	default:
		x.one(ctx, "kill", leader, x.kill)
	}
}

func (x *nemesis) kill(ctx context.Context, s *slot) {
	d := x.lasts()
	s.kill()
	wait(ctx, d)
	x.begin(s)
}

// begin starts a process; one that cannot be started is told of.
func (x *nemesis) begin(s *slot) { x.f.begins(s) }

func (f *fleet) begins(s *slot) {
	if err := s.start(); err != nil {
		f.wrong(s.i, "starting a process: %v", err)
	}
}

// spared waits for a moment at which the group can lose the data of any one node; false: there was
// none.
func (x *nemesis) spared(ctx context.Context) bool {
	calm, cancel := context.WithTimeout(ctx, spareWait)
	defer cancel()
	return x.f.until(calm, x.f.spare)
}

func (x *nemesis) stop(ctx context.Context, s *slot) {
	s.signal(syscall.SIGSTOP)
	wait(ctx, x.lasts())
	s.signal(syscall.SIGCONT)
}

// hang has the disk of a node stand still, while its process and its connections live.
func (x *nemesis) hang(ctx context.Context, s *slot) {
	s.order(orderHang)
	wait(ctx, 2*x.lasts())
	s.order(orderGoOn)
}

func (x *nemesis) restart(ctx context.Context, s *slot) {
	d := x.lasts() / 4
	s.stop(orderClose)
	wait(ctx, d)
	x.begin(s)
}

// stopHolder stops a holder of the ledger's lock between its reading and its writing, until others
// have written.
func (x *nemesis) stopHolder(ctx context.Context) {
	f, ttl := x.f, x.f.run.TTL
	looking, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	l, ok := f.seen(looking, f.mark(), func(l story.Line) bool { return l.Kind == story.KindRead })
	if !ok || !f.slots[l.Node].claim() {
		return
	}
	s := f.slots[l.Node]
	defer s.unclaim()
	s.signal(syscall.SIGSTOP) // before anything is written about it
	f.fault("stop holder", "of the ledger's lock, between reading and writing", []int{s.i}, func() {
		mark := f.mark()
		writing, cancel := context.WithTimeout(ctx, 3*ttl)
		defer cancel()
		for range 2 {
			f.seen(writing, mark, func(l story.Line) bool { mark++; return l.Kind == story.KindWrite && l.Node != s.i })
		}
		s.signal(syscall.SIGCONT)
	})
}

// renew takes a node away for good: its process leaves the group, or its directory is wiped.
// Another node begins in its place. That is done only while no other voter is missing.
func (x *nemesis) renew(ctx context.Context, how string) {
	s := x.f.slots[x.any()]
	if !s.claim() {
		return
	}
	defer s.unclaim()
	if !x.spared(ctx) {
		return
	}
	x.f.fault(how, "", []int{s.i}, func() {
		if how == "leave" {
			s.stop(orderLeave)
		} else {
			s.kill()
			s.wipe()
		}
		wait(ctx, x.lasts())
		x.begin(s)
	})
}

func (x *nemesis) roll(ctx context.Context) {
	for _, i := range x.perm() {
		x.one(ctx, "roll", i, func(ctx context.Context, s *slot) {
			s.stop(orderClose)
			x.begin(s)
			since := x.f.now()
			serving, cancel := context.WithTimeout(ctx, readyWait)
			defer cancel()
			x.f.until(serving, func() bool { return s.served(since) })
		})
		if ctx.Err() != nil {
			return
		}
	}
}

func (x *nemesis) killAll(ctx context.Context) {
	all := x.claim(x.f.inhabited()...)
	x.f.fault("kill all", "", numbers(all), func() {
		for _, s := range all {
			x.f.mu.Lock()
			s.expected = true
			x.f.mu.Unlock()
			s.signal(syscall.SIGKILL)
		}
		for _, s := range all {
			s.kill()
		}
		wait(ctx, x.lasts()/4)
		for _, s := range all {
			x.begin(s)
		}
	})
	unclaim(all)
}

// spare reports whether the group can lose the data of any one node: every voter has its own, and
// all serve. The caller has the lock.
func (f *fleet) spare() bool {
	recent := f.now() - 5*statusEvery
	var ids, voters []string
	for _, s := range f.slots {
		if s.vacant || s.client {
			continue
		}
		if !s.ready(recent) {
			return false
		}
		ids = append(ids, s.status.ID)
		voters = append(voters, s.status.Voters...)
	}
	return len(voters) > 0 && !slices.ContainsFunc(voters, func(id string) bool { return !slices.Contains(ids, id) })
}
