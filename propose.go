package holdfast

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/consensus"
)

// proposer brings commands to the group: it waits for the group and its raft leader, repeats a command
// until its outcome is known, and turns what stands in the way into errors. Callers propose
// from their own goroutines.
type proposer struct {
	entries *admission             // of those who want a lock
	holders *admission             // of those who have one: they are not held up by the others, which would gain nothing by it
	closing <-chan struct{}        // the node is being closed or has failed
	cause   func() error           // why, once closing is closed
	removed func(*consensus.Group) // called when a group turns out to have removed this node's replica

	rooms sync.Pool // of *[]byte: for the commands of those who acquire and release

	mu   sync.Mutex // of who replaces view
	view atomic.Pointer[groupView]
}

// groupView is what calls propose to.
type groupView struct {
	group   *consensus.Group // nil before there is one
	number  int              // of the group: one that is given up makes place for the next
	greeted bool             // the group has accepted this process
	changed chan struct{}    // closed when there is another view: the group, or its raft leader, has changed
}

func newProposer(good time.Duration, closing <-chan struct{}, cause func() error, removed func(*consensus.Group)) *proposer {
	p := &proposer{
		entries: newAdmission(good),
		holders: newAdmission(good),
		closing: closing,
		cause:   cause,
		removed: removed,
	}
	p.view.Store(&groupView{changed: make(chan struct{})})
	return p
}

// start lets proposals through to g.
func (p *proposer) start(g *consensus.Group) { p.show(func(v *groupView) { v.group = g }) }

// greet lets calls through that need a group which has accepted this process.
func (p *proposer) greet() { p.show(func(v *groupView) { v.greeted = true }) }

// giveUp lets no proposals through until there is another group. What is under way to this one never goes to the next.
func (p *proposer) giveUp() {
	p.show(func(v *groupView) { v.group, v.greeted, v.number = nil, false, v.number+1 })
}

// retire lets no proposals through until there is another replica of this node in the same group. What is under way
// waits for that, and goes on there: the group is the same, and recognises a command that it has carried out.
func (p *proposer) retire() { p.show(func(v *groupView) { v.group, v.greeted = nil, false }) }

// wake makes everybody who waits for a change of the group look again.
func (p *proposer) wake() { p.show(func(*groupView) {}) }

// show replaces the view by one that is changed.
func (p *proposer) show(change func(*groupView)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := p.view.Load()
	next := *old
	change(&next)
	next.changed = make(chan struct{})
	p.view.Store(&next)
	close(old.changed)
}

// current returns the group, nil before there is one, and a channel that closes when that may have changed.
func (p *proposer) current() (*consensus.Group, <-chan struct{}) {
	view := p.view.Load()
	return view.group, view.changed
}

// attempts is what became of a command so far.
type attempts struct{ unknown bool }

// open adds to the error of an operation that an attempt may have been, or may still be, carried out.
func (a attempts) open(err error) error {
	if !a.unknown {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
}

// propose brings a command of somebody who has a lock to the group and returns its outcome. It repeats the
// very same command, which the state machine recognises, until there is an outcome or ctx ends. The error
// then says whether the command may have been applied.
func (p *proposer) propose(ctx context.Context, cmd fsm.Command) (fsm.Outcome, attempts, error) {
	if err := p.enter(ctx, p.holders); err != nil {
		return fsm.Outcome{}, attempts{}, err
	}
	return p.admitted(ctx, p.holders, fsm.Encode(cmd))
}

// room is where a command can be encoded. It can be given back to rooms when the command has its outcome.
func (p *proposer) room() *[]byte {
	if room, ok := p.rooms.Get().(*[]byte); ok {
		return room
	}
	room := make([]byte, 0, 256)
	return &room
}

// enter waits for a turn.
func (p *proposer) enter(ctx context.Context, queue *admission) error {
	err := queue.enter(ctx, p.closing)
	if errors.Is(err, ErrClosed) {
		return p.cause()
	}
	return err
}

// admitted is propose after enter.
func (p *proposer) admitted(ctx context.Context, queue *admission, cmd []byte) (fsm.Outcome, attempts, error) {
	began := time.Now()
	out, tried, err := p.insist(ctx, cmd)
	queue.leave(began, err == nil)
	return out, tried, err
}

// drain lets no call in any more, and waits until those under way have their answers, or ctx ends.
func (p *proposer) drain(ctx context.Context) {
	p.entries.drain(ctx)
	p.holders.drain(ctx)
}

// insist is propose without admission, for what must not wait behind callers: a birth, a hello, clean-up.
func (p *proposer) insist(ctx context.Context, cmd []byte) (fsm.Outcome, attempts, error) {
	var tried attempts
	number := p.view.Load().number
	for n := 0; ; n++ {
		if ctx.Err() != nil {
			return fsm.Outcome{}, tried, unreached(ctx, tried)
		}
		view := p.view.Load()
		if view.number != number {
			return fsm.Outcome{}, tried, lost(ErrYielded)
		}
		if group := view.group; group != nil {
			out, err := group.Propose(ctx, cmd)
			switch {
			case err == nil && out.Code != fsm.CodeNotServing:
				return out, tried, nil
			case err == nil: // the group still gathers its first voters
			case errors.Is(err, consensus.ErrUnknown):
				tried.unknown = true
			case errors.Is(err, consensus.ErrNotProposed), p.over(view, err):
			default:
				return fsm.Outcome{}, tried, tried.open(p.stopped(err))
			}
		}
		if err := p.pause(ctx, n, view.changed, tried); err != nil {
			return fsm.Outcome{}, tried, err
		}
	}
}

// pause waits a little, longer after more attempts, and less if something changes. It returns the error of the
// operation if there is to be no further attempt.
func (p *proposer) pause(ctx context.Context, attempt int, changed <-chan struct{}, tried attempts) error {
	d := min(5*time.Millisecond<<min(attempt, 8), 500*time.Millisecond)
	t := time.NewTimer(d/2 + rand.N(d/2))
	defer t.Stop()
	select {
	case <-changed:
	case <-t.C:
	case <-ctx.Done():
		return unreached(ctx, tried)
	case <-p.closing:
		return tried.open(p.cause())
	}
	return nil
}

// barrier returns when the local replica has applied everything that was committed before the call.
func (p *proposer) barrier(ctx context.Context) (*consensus.Group, error) {
	for n := 0; ; n++ {
		view := p.view.Load()
		if group := view.group; group != nil {
			err := group.Barrier(ctx)
			switch {
			case err == nil:
				return group, nil
			case errors.Is(err, consensus.ErrNotProposed), errors.Is(err, consensus.ErrUnknown):
			case ctx.Err() != nil, p.over(view, err):
			default:
				return nil, p.stopped(err)
			}
		}
		if err := p.pause(ctx, n, view.changed, attempts{}); err != nil {
			return nil, err
		}
	}
}

// over reports whether the replica of a view has answered err because there is to be another one: the group was given up
// since, or has removed the replica.
func (p *proposer) over(v *groupView, err error) bool {
	if errors.Is(err, consensus.ErrRemoved) {
		p.removed(v.group)
		return true
	}
	now := p.view.Load()
	return now.number != v.number || now.group != v.group
}

// stopped is the error of a group that answers no more.
func (p *proposer) stopped(err error) error {
	select {
	case <-p.closing:
		return p.cause()
	default:
	}
	if errors.Is(err, consensus.ErrClosed) {
		return ErrClosed
	}
	return err
}

// unreached is the error of an operation whose context ended before its outcome was known.
func unreached(ctx context.Context, tried attempts) error {
	err := ctx.Err()
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w: %w", ErrNoQuorum, err)
	}
	return tried.open(err)
}
