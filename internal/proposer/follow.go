package proposer

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/seam"
)

// follow is how far the follower has been told of what is applied. A replica that begins empty, in
// a later life of the node, applies the log again, from its beginning or from a snapshot that is
// older than what its predecessor had applied: the follower is not told of those commands again.
type follow struct {
	mu       sync.Mutex
	follower seam.Follower
	told     uint64 // the last command, by whatever replica
	number   int    // of the group: view.number
}

// Follow implements seam.Group.
func (p *Proposer[G]) Follow(after uint64, f seam.Follower) {
	p.follow.mu.Lock()
	defer p.follow.mu.Unlock()
	p.follow.follower, p.follow.told = f, after
}

// Watch implements seam.Group: a replica of this node applies everything, one of another node tells
// what is watched.
func (p *Proposer[G]) Watch(ctx context.Context, name string, exact bool) (end func()) {
	if p.far == nil {
		return func() {}
	}
	return p.far.Watch(ctx, name, exact)
}

// Told is the last command of this group of which the follower has been told.
func (p *Proposer[G]) Told() uint64 {
	f := &p.follow
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.number != p.GivenUp() {
		return 0
	}
	return f.told
}

// Gap takes a gap in what another node's replica tells: Proposer is a seam.Follower of that, too. What
// that tells of another group than the follower's begins with one. A replica of this node that begins
// meanwhile may have told more.
func (p *Proposer[G]) Gap(last uint64, ask func(fsm.Question) (fsm.Answer, error)) {
	f := &p.follow
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.follower == nil || f.number == p.GivenUp() && last < f.told {
		return
	}
	f.number, f.told = p.GivenUp(), last
	f.follower.Gap(last, ask)
}

// Ages takes what another node's replica knows of the time before this node was there.
func (p *Proposer[G]) Ages(ages iter.Seq2[uint64, time.Duration]) {
	f := &p.follow
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.follower != nil && f.number == p.GivenUp() {
		f.follower.Ages(ages)
	}
}

// Applied takes the events of a batch of commands, at least one, as the replica applies them.
func (p *Proposer[G]) Applied(events []fsm.Event) {
	f := &p.follow
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.follower == nil || f.number != p.GivenUp() { // followAnother will tell
		return
	}
	last := events[len(events)-1].Index
	for len(events) > 0 && events[0].Index <= f.told {
		events = events[1:]
	}
	if len(events) > 0 {
		f.told = last
		f.follower.Applied(events)
	}
}

// Restored takes a state that came as a whole, as the replica takes it over. It is good until
// Restored returns.
func (p *Proposer[G]) Restored(m *fsm.Machine) {
	f := &p.follow
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.follower == nil || f.number != p.GivenUp() || m.Commands() <= f.told {
		return
	}
	f.told = m.Commands()
	f.follower.Gap(f.told, func(q fsm.Question) (fsm.Answer, error) { return m.Answer(q), nil })
}

// followAnother goes on with another group than the one that was given up, which counts its
// commands for itself.
func (p *Proposer[G]) followAnother(g G) {
	f := &p.follow
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.follower == nil || f.number == p.GivenUp() {
		return
	}
	f.number = p.GivenUp()
	f.told = g.Answer(fsm.QueryGroup{}).State()
	f.follower.Gap(f.told, func(q fsm.Question) (fsm.Answer, error) { return g.Answer(q), nil })
}
