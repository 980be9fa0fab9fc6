package consensus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lni/dragonboat/v4"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/batch"
	"github.com/holdfast-go/holdfast/internal/consensus/engine"
)

// CommandMax is the size in bytes of the largest command that Propose takes.
const CommandMax = 8 << 20

// Propose proposes a command in one attempt, which ends with ctx or after one and a half of the
// longest election timeout, and returns its outcome. The caller may reuse cmd at once. Commands of
// callers (see fsm.Travels) may share an entry: each has its own outcome, and their attempts
// succeed or fail together.
//
// Errors: ErrLevel, ErrNotProposed, ErrUnknown, ErrClosed, ErrRemoved, a *FailedError. The end of ctx does
// not take back a command that is under way: the error is ErrUnknown, wrapping the context's error.
func (g *Group) Propose(ctx context.Context, cmd []byte) (fsm.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return fsm.Outcome{}, fmt.Errorf("%w: %w", ErrNotProposed, err)
	}
	if len(cmd) == 0 || len(cmd) > CommandMax {
		return fsm.Outcome{}, fmt.Errorf("%w: %w: command of %d bytes", ErrNotProposed, ErrInvalid, len(cmd))
	}
	if needs := fsm.Needs(cmd); needs > 1 {
		if level := g.machine.level(); needs > level {
			return fsm.Outcome{}, fmt.Errorf("%w: the call needs %d, the group is at %d", ErrLevel, needs, level)
		}
	}
	if err := g.admit(ctx); err != nil {
		return fsm.Outcome{}, err
	}
	if fsm.Travels(cmd) && len(cmd) < batch.BytesMax {
		return g.submit(ctx, cmd)
	}
	return g.propose(ctx, cmd)
}

// propose is Propose in an entry of its own, whether the log is open or not.
func (g *Group) propose(ctx context.Context, cmd []byte) (fsm.Outcome, error) {
	entry := g.newEntry()
	*entry = append(*entry, cmd...)
	return g.proposeEntry(ctx, entry)
}

// newEntry returns a buffer for an entry, which begins with its author.
func (g *Group) newEntry() *[]byte {
	entry, ok := g.entries.Get().(*[]byte)
	if !ok {
		entry = new([]byte)
	}
	*entry = g.self.AppendTo((*entry)[:0])
	return entry
}

// proposeEntry makes one attempt with an entry, and frees its buffer.
func (g *Group) proposeEntry(ctx context.Context, entry *[]byte) (fsm.Outcome, error) {
	defer g.entries.Put(entry)
	began := time.Now()
	value, data, err := g.request(ctx, func(h *dragonboat.NodeHost, patience time.Duration) (*dragonboat.RequestState, error) {
		return h.Propose(g.session, *entry, patience) // which copies it
	})
	if err != nil {
		return fsm.Outcome{}, err
	}
	g.cfg.Figures.Commit.Observe(time.Since(began))
	return fsm.Unpack(value, data)
}

// Barrier returns when this replica has applied all that was committed before the call. It is one
// attempt, like Propose; ErrNotProposed and ErrUnknown mean that it did not succeed.
func (g *Group) Barrier(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrNotProposed, err)
	}
	if err := g.Failure(); err != nil {
		return err
	}
	if !g.hearsRaftLeader() {
		return fmt.Errorf("%w: the raft leader is no member yet, as far as this replica has applied", ErrNotProposed)
	}
	_, _, err := g.request(ctx, func(h *dragonboat.NodeHost, patience time.Duration) (*dragonboat.RequestState, error) {
		return h.ReadIndex(engine.Shard, patience)
	})
	return err
}

// hearsRaftLeader reports whether the engine accepts answers of the raft leader: it drops those of
// replicas that are no members as applied here. A joining replica would ask after its first
// heartbeat, and wait for a whole attempt.
func (g *Group) hearsRaftLeader() bool {
	now, _ := g.leaders.now()
	return g.nodes.Includes(now.replica)
}

// ask starts a request of the engine, which gives up after patience.
type ask func(host *dragonboat.NodeHost, patience time.Duration) (*dragonboat.RequestState, error)

// request makes one attempt, with a precise timer of its own: the engine's only cleans up. When the
// raft leader changes, a request to the old one is probably lost, and the attempt ends soon after
// there is a new one: the caller asks again, with a command that the state machine recognises.
func (g *Group) request(ctx context.Context, ask ask) (value uint64, data []byte, err error) {
	var state *dragonboat.RequestState
	_, changed := g.leaders.now()
	var settled <-chan struct{}
	err = g.call(func(host *dragonboat.NodeHost) (err error) {
		state, err = ask(host, g.cfg.attempt()+2*g.cfg.Tick)
		return err
	})
	if err != nil {
		return 0, nil, g.definite(err)
	}
	g.answers.Begin()
	timer := g.timer(g.cfg.attempt())
	defer g.dropTimer(timer)
	for {
		select {
		case result := <-state.AppliedC():
			if result.Completed() || result.Rejected() { // by the group
				g.answers.End()
			}
			value, data, err = answer(result)
			state.Release() // only one that was answered may be used again
			return value, data, err
		case <-changed:
			if view := g.leaders.view.Load(); view.replica == 0 {
				changed = view.changed
			} else {
				changed, settled = nil, view.settled
			}
		case <-settled:
			return 0, nil, fmt.Errorf("%w: lost with the raft leader", ErrUnknown)
		case <-timer.C:
			return 0, nil, fmt.Errorf("%w: no answer in time", ErrUnknown)
		case <-ctx.Done():
			return 0, nil, fmt.Errorf("%w: %w", ErrUnknown, ctx.Err())
		case <-g.failed:
			return 0, nil, fmt.Errorf("%w: %w", ErrUnknown, g.Failure())
		}
	}
}

// timer returns a pooled timer.
func (g *Group) timer(d time.Duration) *time.Timer {
	if timer, ok := g.timers.Get().(*time.Timer); ok {
		timer.Reset(d)
		return timer
	}
	return time.NewTimer(d)
}

// dropTimer returns a timer to the pool. A stopped timer never sends what it had sent before.
func (g *Group) dropTimer(timer *time.Timer) {
	timer.Stop()
	g.timers.Put(timer)
}

// definite is the error of a request that the engine refused.
func (g *Group) definite(err error) error {
	var failed *FailedError
	switch {
	case errors.As(err, &failed), errors.Is(err, ErrClosed):
		return err
	case errors.Is(err, dragonboat.ErrClosed):
		return ErrClosed
	case errors.Is(err, dragonboat.ErrShardNotFound), errors.Is(err, dragonboat.ErrShardClosed):
		return ErrRemoved // nothing else ends the replica before the gate shuts
	}
	return fmt.Errorf("%w: %w", ErrNotProposed, err)
}

// answer reads the engine's result. Only a dropped request is known not to be in the log.
func answer(result dragonboat.RequestResult) (value uint64, data []byte, err error) {
	switch {
	case result.Completed():
		r := result.GetResult()
		return r.Value, r.Data, nil
	case result.Dropped():
		return 0, nil, fmt.Errorf("%w: no raft leader", ErrNotProposed)
	case result.Rejected():
		return 0, nil, fmt.Errorf("%w: %w", ErrUnknown, dragonboat.ErrRejected)
	case result.Terminated():
		return 0, nil, fmt.Errorf("%w: the replica was stopped", ErrUnknown)
	}
	return 0, nil, fmt.Errorf("%w: %w", ErrUnknown, dragonboat.ErrTimeout)
}
