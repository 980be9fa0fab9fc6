package proposer

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/consensus"
	"github.com/holdfast-go/holdfast/internal/retry"
)

// Group is what commands are proposed to. Its errors are those of internal/consensus.
type Group interface {
	comparable
	Propose(ctx context.Context, cmd []byte) (fsm.Outcome, error)
	Barrier(ctx context.Context) error
}

// Proposer is made by New. Callers propose from their own goroutines.
type Proposer[G Group] struct {
	Entries *Admission // of those who want a lock
	Holders *Admission // of those who have one: they are not held up by the others, which would gain nothing by it

	closed  <-chan struct{}
	removed func(G)

	buffers sync.Pool // of *[]byte: for the commands of those who acquire and release

	mu   sync.Mutex // of who replaces view
	view atomic.Pointer[view[G]]
}

// view is what calls propose to.
type view[G Group] struct {
	group   G             // the zero value before there is one
	here    bool          // there is one
	number  int           // of the group: one that is given up makes place for the next
	greeted bool          // the group has accepted this process
	changed chan struct{} // closed when there is another view: the group, or its raft leader, has changed
}

// New returns a proposer without a group. Calls take as many places as are answered within good;
// closed ends all waiting; removed is told when a group turns out to have removed this node's
// replica, from any goroutine, and must not block.
func New[G Group](good time.Duration, closed <-chan struct{}, removed func(G)) *Proposer[G] {
	p := &Proposer[G]{Entries: newAdmission(good), Holders: newAdmission(good), closed: closed, removed: removed}
	p.view.Store(&view[G]{changed: make(chan struct{})})
	return p
}

// Start lets proposals through to g.
func (p *Proposer[G]) Start(g G) { p.show(func(v *view[G]) { v.group, v.here = g, true }) }

// Greet lets calls through that need a group which has accepted this process.
func (p *Proposer[G]) Greet() { p.show(func(v *view[G]) { v.greeted = true }) }

// GiveUp lets no proposals through until there is another group. What is under way to this one
// never goes to the next.
func (p *Proposer[G]) GiveUp() {
	p.show(func(v *view[G]) { *v = view[G]{number: v.number + 1} })
}

// Retire lets no proposals through until there is another replica of this node in the same group.
// What is under way waits for that, and goes on there: the group is the same, and recognises a
// command that it has carried out.
func (p *Proposer[G]) Retire() { p.show(func(v *view[G]) { *v = view[G]{number: v.number} }) }

// Wake makes everybody who waits for a change of the group look again.
func (p *Proposer[G]) Wake() { p.show(func(*view[G]) {}) }

// show replaces the view by one that is changed.
func (p *Proposer[G]) show(change func(*view[G])) {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := p.view.Load()
	next := *old
	change(&next)
	next.changed = make(chan struct{})
	p.view.Store(&next)
	close(old.changed)
}

// Current returns the group, the zero value before there is one, and a channel that closes when
// that may have changed.
func (p *Proposer[G]) Current() (G, <-chan struct{}) {
	view := p.view.Load()
	return view.group, view.changed
}

// Greeted reports whether the group has accepted this process, with a channel that closes when that
// may have changed.
func (p *Proposer[G]) Greeted() (bool, <-chan struct{}) {
	view := p.view.Load()
	return view.greeted, view.changed
}

// GivenUp is how many groups were given up.
func (p *Proposer[G]) GivenUp() int { return p.view.Load().number }

// Propose brings a command of somebody who has a lock to the group and returns its outcome. It
// repeats the very same command, which the state machine recognises, until there is an outcome or
// ctx ends. unknown says whether an attempt without an answer may have been carried out, or may
// still be.
func (p *Proposer[G]) Propose(ctx context.Context, cmd fsm.Command) (out fsm.Outcome, unknown bool, err error) {
	if err := p.Enter(ctx, p.Holders); err != nil {
		return fsm.Outcome{}, false, err
	}
	return p.Admitted(ctx, p.Holders, fsm.Encode(cmd))
}

// Buffer returns a buffer to encode a command in. Give it to Free when the command has its outcome.
func (p *Proposer[G]) Buffer() *[]byte {
	if buf, ok := p.buffers.Get().(*[]byte); ok {
		return buf
	}
	buf := make([]byte, 0, 256)
	return &buf
}

// Free takes a buffer back.
func (p *Proposer[G]) Free(buf *[]byte) { p.buffers.Put(buf) }

// Enter waits for a turn. Whoever has one calls Admitted, or Leave of the queue.
func (p *Proposer[G]) Enter(ctx context.Context, queue *Admission) error {
	return queue.enter(ctx, p.closed)
}

// Admitted is Propose after Enter.
func (p *Proposer[G]) Admitted(ctx context.Context, queue *Admission, cmd []byte) (out fsm.Outcome, unknown bool, err error) {
	began := time.Now()
	out, unknown, err = p.Insist(ctx, cmd)
	queue.Leave(began, err == nil)
	return out, unknown, err
}

// Waiting is how many calls wait for their turn.
func (p *Proposer[G]) Waiting() int { return p.Entries.waiting() + p.Holders.waiting() }

// Drain lets no call in any more, and waits until those under way have their answers, or ctx ends.
func (p *Proposer[G]) Drain(ctx context.Context) {
	p.Entries.drain(ctx)
	p.Holders.drain(ctx)
}

// Insist is Propose without admission, for what must not wait behind callers: a birth, a hello,
// clean-up.
func (p *Proposer[G]) Insist(ctx context.Context, cmd []byte) (out fsm.Outcome, unknown bool, err error) {
	var course retry.Course
	number := p.view.Load().number
	for {
		if ctx.Err() != nil {
			return fsm.Outcome{}, course.Unknown(), open(course.Unknown(), &UnreachedError{ctx.Err()})
		}
		view := p.view.Load()
		if view.number != number {
			return fsm.Outcome{}, course.Unknown(), ErrSuperseded
		}
		result := retry.NotSent
		if view.here {
			out, err = view.group.Propose(ctx, cmd)
			result = p.result(view, err)
		}
		if !course.After(result, out.Code) {
			if err != nil {
				return fsm.Outcome{}, course.Unknown(), open(course.Unknown(), p.Stopped(err))
			}
			return out, course.Unknown(), nil
		}
		if err := p.pause(ctx, course.Pause(rand.Float64()), view.changed); err != nil {
			return fsm.Outcome{}, course.Unknown(), open(course.Unknown(), err)
		}
	}
}

// result says what became of an attempt at the group of a view.
func (p *Proposer[G]) result(view *view[G], err error) retry.Result {
	switch {
	case err == nil:
		return retry.Answered
	case errors.Is(err, consensus.ErrUnknown):
		return retry.Unknown
	case errors.Is(err, consensus.ErrNotProposed), p.over(view, err):
		return retry.NotSent
	}
	return retry.Failed
}

// Pause waits a little, longer after more attempts, and less if changed is closed.
func (p *Proposer[G]) Pause(ctx context.Context, attempts int, changed <-chan struct{}) error {
	return p.pause(ctx, retry.Pause(attempts, rand.Float64()), changed)
}

func (p *Proposer[G]) pause(ctx context.Context, d time.Duration, changed <-chan struct{}) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-changed:
	case <-t.C:
	case <-ctx.Done():
		return &UnreachedError{ctx.Err()}
	case <-p.closed:
		return ErrClosed
	}
	return nil
}

// Barrier returns the group when the local replica has applied everything that was committed before
// the call.
func (p *Proposer[G]) Barrier(ctx context.Context) (G, error) {
	var none G
	for n := 1; ; n++ {
		view := p.view.Load()
		if view.here {
			err := view.group.Barrier(ctx)
			if err == nil {
				return view.group, nil
			}
			if p.result(view, err) == retry.Failed && ctx.Err() == nil {
				return none, p.Stopped(err)
			}
		}
		if err := p.Pause(ctx, n, view.changed); err != nil {
			return none, err
		}
	}
}

// over reports whether the replica of a view has answered err because there is to be another one:
// the group was given up since, or has removed the replica.
func (p *Proposer[G]) over(v *view[G], err error) bool {
	if errors.Is(err, consensus.ErrRemoved) {
		p.removed(v.group)
		return true
	}
	now := p.view.Load()
	return now.number != v.number || now.group != v.group
}

// Stopped is the error of a group that answers no more.
func (p *Proposer[G]) Stopped(err error) error {
	select {
	case <-p.closed:
		return ErrClosed
	default:
	}
	if errors.Is(err, consensus.ErrClosed) {
		return ErrClosed
	}
	return err
}
