package proposer

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/consensus/report"
	"github.com/holdfast-go/holdfast/internal/retry"
	"github.com/holdfast-go/holdfast/internal/seam"
)

// Group is this node's replica of the group. Its errors are those of internal/consensus.
type Group interface {
	comparable
	Propose(ctx context.Context, cmd []byte) (fsm.Outcome, error)
	Barrier(ctx context.Context) error
	Answer(q fsm.Question) fsm.Answer
	Fork() *fsm.Machine
}

// Far is the way to the group through the replica of another node (internal/client). It is used while
// this node has no replica.
type Far interface {
	// Reached reports whether a replica of another node serves this one.
	Reached() bool
	// Try proposes a command once. An outcome with an error says that an earlier attempt of that replica
	// may have been carried out, too.
	Try(ctx context.Context, class seam.Class, cmd []byte) (out fsm.Outcome, result retry.Result, err error)
	// AskOnce and PagesOnce are Ask and Pages of seam.Group that fail with seam.ErrNoGroup where the
	// replica is gone, whatever the view.
	AskOnce(ctx context.Context, at seam.View, q fsm.Question) (fsm.Answer, error)
	PagesOnce(ctx context.Context, at seam.View, q fsm.QueryLocks) iter.Seq2[fsm.LocksPage, error]
	// Watch is that of seam.Group. While no replica is reached it returns at once.
	Watch(ctx context.Context, name string, exact bool) (end func())
}

// Proposer is made by New. Callers propose from their own goroutines.
type Proposer[G Group] struct {
	requests, holders *Admission // by class of the commands

	far Far // nil: there is none

	closed  <-chan struct{}
	removed func(G)
	follow  follow

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
	p := &Proposer[G]{requests: newAdmission(good), holders: newAdmission(good), closed: closed, removed: removed}
	p.view.Store(&view[G]{changed: make(chan struct{})})
	return p
}

// Lend gives the Proposer a way through other replicas. It comes before everything else; Wake follows
// when another replica, or none, is reached.
func (p *Proposer[G]) Lend(far Far) { p.far = far }

// farNow is the way through another replica if that is the way to go: this node has none.
func (p *Proposer[G]) farNow(v *view[G]) Far {
	if v.here || p.far == nil || !p.far.Reached() {
		return nil
	}
	return p.far
}

// Start lets proposals through to g.
func (p *Proposer[G]) Start(g G) {
	p.show(func(v *view[G]) { v.group, v.here = g, true })
	p.catchUp(g)
}

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

// Accepted reports whether the group has accepted this process, with a channel that closes when that
// may have changed.
func (p *Proposer[G]) Accepted() (bool, <-chan struct{}) {
	view := p.view.Load()
	return view.greeted, view.changed
}

// GivenUp is how many groups were given up.
func (p *Proposer[G]) GivenUp() int { return p.view.Load().number }

// queue is where commands of a class take turns, nil if they take none.
func (p *Proposer[G]) queue(class seam.Class) *Admission {
	switch class {
	case seam.Request:
		return p.requests
	case seam.Holding:
		return p.holders
	}
	return nil
}

// Enter implements seam.Group.
func (p *Proposer[G]) Enter(ctx context.Context, class seam.Class) error {
	if queue := p.queue(class); queue != nil {
		return queue.enter(ctx, p.closed)
	}
	return nil
}

// Leave implements seam.Group.
func (p *Proposer[G]) Leave(class seam.Class) {
	if queue := p.queue(class); queue != nil {
		queue.leave(time.Now(), false)
	}
}

// Propose implements seam.Group.
func (p *Proposer[G]) Propose(ctx context.Context, class seam.Class, cmd []byte) (out fsm.Outcome, unknown bool, err error) {
	if class == seam.Attempt {
		return p.attempt(ctx, cmd)
	}
	queue, began := p.queue(class), time.Now()
	out, unknown, err = p.insist(ctx, class, cmd)
	if queue != nil {
		queue.leave(began, err == nil)
	}
	return out, unknown, err
}

// attempt proposes a command once.
func (p *Proposer[G]) attempt(ctx context.Context, cmd []byte) (out fsm.Outcome, unknown bool, err error) {
	view := p.view.Load()
	if far := p.farNow(view); far != nil {
		out, result, err := far.Try(ctx, seam.Attempt, cmd)
		if result == retry.Answered {
			return out, err != nil, nil
		}
		return out, result == retry.Unknown, err
	}
	if !view.here {
		return fsm.Outcome{}, false, seam.ErrNoGroup
	}
	out, err = view.group.Propose(ctx, cmd)
	return out, errors.Is(err, report.ErrUnknown), err
}

// Waiting is how many calls wait for their turn.
func (p *Proposer[G]) Waiting() int { return p.requests.waiting() + p.holders.waiting() }

// Drain lets no call in any more, and waits until those under way have their answers, or ctx ends.
func (p *Proposer[G]) Drain(ctx context.Context) {
	p.requests.drain(ctx)
	p.holders.drain(ctx)
}

// Insist proposes a command until its outcome is known, without admission.
func (p *Proposer[G]) Insist(ctx context.Context, cmd []byte) (out fsm.Outcome, unknown bool, err error) {
	return p.insist(ctx, seam.Urgent, cmd)
}

func (p *Proposer[G]) insist(ctx context.Context, class seam.Class, cmd []byte) (out fsm.Outcome, unknown bool, err error) {
	var course retry.Course
	number := p.view.Load().number
	for {
		if ctx.Err() != nil {
			return fsm.Outcome{}, course.Unknown(), open(course.Unknown(), &seam.UnreachedError{Ended: ctx.Err()})
		}
		view := p.view.Load()
		if view.number != number {
			return fsm.Outcome{}, course.Unknown(), seam.ErrSuperseded
		}
		result := retry.NotSent
		if far := p.farNow(view); far != nil {
			if out, result, err = far.Try(ctx, class, cmd); result == retry.Answered && err != nil {
				course.After(retry.Unknown, 0)
				err = nil
			}
		} else if view.here {
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
	case errors.Is(err, report.ErrUnknown):
		return retry.Unknown
	case errors.Is(err, report.ErrNotProposed), p.over(view, err):
		return retry.NotSent
	}
	return retry.Failed
}

// Pause waits a little, longer after more attempts, and less if changed is closed.
func (p *Proposer[G]) Pause(ctx context.Context, attempts int, changed <-chan struct{}) error {
	return p.pause(ctx, retry.Pause(attempts, rand.Float64()), changed)
}

func (p *Proposer[G]) pause(ctx context.Context, d time.Duration, changed <-chan struct{}) error {
	select {
	case <-changed:
	case <-time.After(d):
	case <-ctx.Done():
		return &seam.UnreachedError{Ended: ctx.Err()}
	case <-p.closed:
		return seam.ErrClosed
	}
	return nil
}

// Barrier returns the group when the local replica has applied everything that was committed before
// the call. It is seam.ErrNoGroup while the replica of another node serves this one.
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
		} else if p.farNow(view) != nil {
			return none, seam.ErrNoGroup
		}
		if err := p.Pause(ctx, n, view.changed); err != nil {
			return none, err
		}
	}
}

// over reports whether the replica of a view has answered err because there is to be another one:
// the group was given up since, or has removed the replica.
func (p *Proposer[G]) over(v *view[G], err error) bool {
	if errors.Is(err, report.ErrRemoved) {
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
		return seam.ErrClosed
	default:
	}
	if errors.Is(err, report.ErrClosed) {
		return seam.ErrClosed
	}
	return err
}

// open adds to an error that an attempt may have been carried out.
func open(unknown bool, err error) error {
	if !unknown {
		return err
	}
	return &seam.UnknownError{Cause: err}
}
