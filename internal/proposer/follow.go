package proposer

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/seam"
)

// follow is how far the follower has been told of what is applied. A replica that begins empty, in
// a later life of the node, applies the log again, from its beginning or from a snapshot that is
// older than what its predecessor had applied: the follower is not told of those commands again. What
// a replica applies before it is open to calls is told when it is, as a whole: until then another
// node's replica may tell, whose answers are waited for under mu, and nothing that applies may wait.
type follow struct {
	mu       sync.Mutex
	follower seam.Follower
	told     atomic.Uint64 // the last command, by whatever replica
	number   atomic.Int64  // of the group: view.number
	skipped  atomic.Bool   // this node's replica has applied what was not told
}

// Follow implements seam.Group.
func (p *Proposer[G]) Follow(after uint64, f seam.Follower) {
	p.follow.mu.Lock()
	defer p.follow.mu.Unlock()
	p.follow.follower = f
	p.follow.told.Store(after)
}

// Watch implements seam.Group: a replica of this node applies everything, one of another node tells
// what is watched.
func (p *Proposer[G]) Watch(ctx context.Context, name string, exact bool) (end func()) {
	if p.far == nil {
		return func() {}
	}
	return p.far.Watch(ctx, name, exact)
}

// known reports whether told is of this group, not of one that was given up.
func (p *Proposer[G]) known() bool { return int(p.follow.number.Load()) == p.GivenUp() }

// Told is the last command of this group of which the follower has been told. It does not wait.
func (p *Proposer[G]) Told() uint64 {
	if p.known() {
		return p.follow.told.Load()
	}
	return 0
}

// Gap takes a gap in what another node's replica tells: Proposer is a seam.Follower of that, too. What
// that tells of another group than the follower's begins with one. A replica of this node may have told
// more before.
func (p *Proposer[G]) Gap(last uint64, ask func(fsm.Question) (fsm.Answer, error)) {
	f := &p.follow
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.follower == nil || p.known() && last < f.told.Load() {
		return
	}
	told, number, failed := f.told.Load(), f.number.Load(), false
	f.told.Store(last) // first: Told must not take that of another group for this one's
	f.number.Store(int64(p.GivenUp()))
	f.follower.Gap(last, func(q fsm.Question) (fsm.Answer, error) {
		answer, err := ask(q)
		failed = failed || err != nil
		return answer, err
	})
	if failed { // the next gap tells it, of a replica that may have come less far; or catchUp of this node's own
		f.skipped.Store(true)
		f.told.Store(told)
		f.number.Store(number)
	}
}

// Ages takes what another node's replica knows of the time before this node was there.
func (p *Proposer[G]) Ages(ages iter.Seq2[uint64, time.Duration]) {
	f := &p.follow
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.follower != nil && p.known() {
		f.follower.Ages(ages)
	}
}

// Applied takes the events of a batch of commands, at least one, as a replica tells them.
func (p *Proposer[G]) Applied(events []fsm.Event) {
	f := &p.follow
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.follower == nil || !p.known() { // catchUp will tell
		return
	}
	last, told := events[len(events)-1].Index, f.told.Load()
	for len(events) > 0 && events[0].Index <= told {
		events = events[1:]
	}
	if len(events) > 0 {
		f.told.Store(last)
		f.follower.Applied(events)
	}
}

// AppliedHere takes the events of a batch of commands, at least one, as this node's replica applies
// them.
func (p *Proposer[G]) AppliedHere(events []fsm.Event) {
	if p.open() {
		p.Applied(events)
	}
}

// Restored takes a state that came as a whole, as this node's replica takes it over. It is good until
// Restored returns.
func (p *Proposer[G]) Restored(m *fsm.Machine) {
	if !p.open() {
		return
	}
	f := &p.follow
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.follower == nil || !p.known() || m.Commands() <= f.told.Load() {
		return
	}
	f.told.Store(m.Commands())
	f.follower.Gap(m.Commands(), func(q fsm.Question) (fsm.Answer, error) { return m.Answer(q), nil })
}

// open reports whether this node's replica is open to calls, and notes what is not told because it is
// not.
func (p *Proposer[G]) open() bool {
	if p.view.Load().here {
		return true
	}
	p.follow.skipped.Store(true)
	return p.view.Load().here // it may just have been opened, by one that did not see the note
}

// catchUp tells what g has applied before it was open to calls, and goes on with another group than the
// one that was given up, which counts its commands for itself.
func (p *Proposer[G]) catchUp(g G) {
	f := &p.follow
	f.mu.Lock()
	defer f.mu.Unlock()
	skipped, same := f.skipped.Swap(false), p.known()
	if f.follower == nil || same && !skipped {
		return
	}
	last := g.Answer(fsm.QueryGroup{}).State()
	if same && last < f.told.Load() {
		return
	}
	f.told.Store(last) // first: Told must not take that of another group for this one's
	f.number.Store(int64(p.GivenUp()))
	f.follower.Gap(last, func(q fsm.Question) (fsm.Answer, error) { return g.Answer(q), nil })
}
