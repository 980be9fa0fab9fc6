// Package seamtest has a group for tests that is no replica, and a node for it that has no place in
// a fleet: one state machine in memory, behind a mutex, without a log, a network or a disk. What
// holds on them and on internal/node is promised by package seam, and not by a way in which one of
// them works.
package seamtest

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/expiry"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/seam"
)

// Group implements seam.Group. Questions and answers, commands and outcomes cross it encoded.
type Group struct {
	now        func() lease.Instant
	times      *expiry.Table
	timekeeper *expiry.Timekeeper
	expired    func(fsm.SessionID, time.Duration)

	order    sync.Mutex // held from applying a command until the follower has been told
	follower seam.Follower
	after    uint64
	missing  bool // the follower misses what is applied

	mu     sync.RWMutex // of all below. No other is taken under it
	m      *fsm.Machine
	absent chan struct{} // nil while there is a state to ask, else closed when there is one again
}

// New returns a group that serves. now reads the clock that ends sessions.
func New(now func() lease.Instant, l fsm.Limits) *Group { return NewOf([16]byte{1}, now, l) }

// NewOf is New of a group with an id.
func NewOf(cluster [16]byte, now func() lease.Instant, l fsm.Limits) *Group {
	g := &Group{now: now, m: fsm.New()}
	g.m.Limit(l)
	g.times = expiry.New(0, func(id fsm.SessionID, late time.Duration) { g.expired(id, late) })
	g.timekeeper = expiry.NewTimekeeper(g.times, now, func() expiry.Group { return replica{g} },
		func(f func(context.Context)) bool { f(context.Background()); return true })
	g.apply(fsm.Encode(fsm.Birth{Cluster: cluster}))
	g.apply(fsm.Encode(fsm.Serve{}))
	g.apply(fsm.Encode(fsm.RaiseTTL{TTL: fsm.TTLMax}))
	return g
}

// replica is the group as its timekeeper sees it.
type replica struct{ g *Group }

func (r replica) Read(look func(*fsm.Machine)) { r.g.read(look) }
func (r replica) IsRaftLeader() bool           { return true }

func (r replica) Propose(_ context.Context, cmd []byte) (fsm.Outcome, error) {
	return r.g.apply(cmd), nil
}

func (g *Group) read(look func(*fsm.Machine)) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	look(g.m)
}

// apply carries out a command of whoever it is about.
func (g *Group) apply(cmd []byte) fsm.Outcome {
	var by fsm.Process
	if c, err := fsm.Decode(cmd); err == nil {
		by = fsm.ProcessOf(c)
	}
	g.order.Lock()
	defer g.order.Unlock()
	g.mu.Lock()
	out, events := g.m.Apply(g.m.Applied()+1, by, cmd)
	value, data := out.Pack()
	g.mu.Unlock()
	for i := range events { // good until the next command: order is held
		g.times.Note(&events[i], g.now())
	}
	g.timekeeper.Wake()
	if len(events) > 0 && events[0].Index > g.after && g.follower != nil && !g.missing {
		g.follower.Applied(events)
	}
	out, err := fsm.Unpack(value, data)
	if err != nil {
		panic(err)
	}
	return out
}

// Miss keeps what is applied while f runs from the follower, which is then told of a gap.
func (g *Group) Miss(f func()) {
	g.order.Lock()
	g.missing = true
	g.order.Unlock()
	f()
	g.order.Lock()
	defer g.order.Unlock()
	g.missing = false
	var last uint64
	g.read(func(m *fsm.Machine) { last = m.Commands() })
	g.follower.Gap(last, func(q fsm.Question) (fsm.Answer, error) {
		g.mu.RLock()
		defer g.mu.RUnlock()
		return answered(g.m, q)
	})
}

// Absent leaves the node without a state to ask until back is called, as a node is between two
// replicas. What the follower is told goes on.
func (g *Group) Absent() (back func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	absent := make(chan struct{})
	g.absent = absent
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.absent = nil
		close(absent)
	}
}

// there waits until there is a state that answers, if the view is one that waits.
func (g *Group) there(ctx context.Context, view seam.View) error {
	g.mu.RLock()
	absent := g.absent
	g.mu.RUnlock()
	switch {
	case ctx.Err() != nil:
		return &seam.UnreachedError{Ended: ctx.Err()}
	case absent == nil:
		return nil
	case view == seam.Now:
		return seam.ErrNoGroup
	}
	select {
	case <-absent:
		return nil
	case <-ctx.Done():
		return &seam.UnreachedError{Ended: ctx.Err()}
	}
}

// Enter implements seam.Group.
func (g *Group) Enter(ctx context.Context, _ seam.Class) error {
	if err := ctx.Err(); err != nil {
		return &seam.UnreachedError{Ended: err}
	}
	return nil
}

// Leave implements seam.Group.
func (g *Group) Leave(seam.Class) {}

// Propose implements seam.Group.
func (g *Group) Propose(ctx context.Context, _ seam.Class, cmd []byte) (out fsm.Outcome, unknown bool, err error) {
	if err := ctx.Err(); err != nil {
		return fsm.Outcome{}, false, &seam.UnreachedError{Ended: err}
	}
	return g.apply(cmd), false, nil
}

// Ask implements seam.Group.
func (g *Group) Ask(ctx context.Context, view seam.View, q fsm.Question) (fsm.Answer, error) {
	if err := g.there(ctx, view); err != nil {
		return nil, err
	}
	g.mu.RLock()
	defer g.mu.RUnlock()
	return answered(g.m, q)
}

// answered lets a question and its answer travel.
func answered(m *fsm.Machine, q fsm.Question) (fsm.Answer, error) {
	heard, err := fsm.DecodeQuestion(fsm.EncodeQuestion(q))
	if err != nil {
		return nil, err
	}
	return fsm.DecodeAnswer(fsm.EncodeAnswer(m.Answer(heard)))
}

// Pages implements seam.Group.
func (g *Group) Pages(ctx context.Context, _ seam.View, q fsm.QueryLocks) iter.Seq2[fsm.LocksPage, error] {
	return func(yield func(fsm.LocksPage, error) bool) {
		g.mu.Lock()
		m := g.m.Fork()
		g.mu.Unlock()
		for next := &q; next != nil; {
			answer, err := answered(m, *next)
			page, ok := next.Read(answer)
			switch {
			case ctx.Err() != nil:
				err = &seam.UnreachedError{Ended: ctx.Err()}
			case err == nil && !ok:
				err = errors.New("holdfast: no page")
			}
			if !yield(page, err) || err != nil {
				return
			}
			next = page.Next
		}
	}
}

// Follow implements seam.Group.
func (g *Group) Follow(after uint64, f seam.Follower) {
	g.order.Lock()
	defer g.order.Unlock()
	g.follower, g.after = f, after
}

// Watch implements seam.Group.
func (g *Group) Watch(context.Context, string, bool) (end func()) { return func() {} }
