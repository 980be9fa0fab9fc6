package consensus

import (
	"context"
	"fmt"
	"runtime"
	"sync"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/batch"
)

// together proposes the commands of this node's callers, several in one entry where they arrive
// while other entries are under way. A command that arrives alone is proposed by its caller's
// goroutine. The others wait in the queue, and a goroutine for each entry, batch.UnderwayMax at
// most, proposes them.
type together struct {
	mu    sync.Mutex
	queue batch.Queue[chan answered]
	calls sync.Pool // of *call, neither waited for nor to be answered
}

type call = batch.Call[chan answered]

// answered is the outcome of one command.
type answered struct {
	outcome fsm.Outcome
	err     error
}

// entryBatch is an entry under construction, and the calls whose commands are in it.
type entryBatch struct {
	entry *[]byte
	batch.Entry[chan answered]
}

// submit proposes a command that may share an entry.
func (g *Group) submit(ctx context.Context, cmd []byte) (fsm.Outcome, error) {
	t, cost := &g.together, g.machine.cost(cmd)
	t.mu.Lock()
	if t.queue.Begin() {
		t.mu.Unlock()
		outcome, err := g.propose(ctx, cmd)
		g.start(g.alone())
		return outcome, err
	}
	c, ok := t.calls.Get().(*call)
	if !ok {
		c = &call{Of: make(chan answered, 1)}
	}
	c.Cmd, c.Cost = cmd, cost
	room := t.queue.Push(c)
	next := g.next()
	t.mu.Unlock()
	g.start(next)
	if !room {
		return fsm.Outcome{}, fmt.Errorf("%w: too many commands wait", ErrNotProposed)
	}
	select {
	case a := <-c.Of:
		c.Cmd = nil
		t.calls.Put(c)
		return a.outcome, a.err
	case <-ctx.Done():
	}
	t.mu.Lock()
	removed := t.queue.Remove(c)
	t.mu.Unlock()
	if removed {
		return fsm.Outcome{}, fmt.Errorf("%w: %w", ErrNotProposed, ctx.Err())
	}
	return fsm.Outcome{}, fmt.Errorf("%w: %w", ErrUnknown, ctx.Err())
}

// alone ends an entry with the command of one caller and returns the next entry.
func (g *Group) alone() entryBatch {
	t := &g.together
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queue.Alone()
	return g.next()
}

// complete ends an entry and returns the next one. Commands of it that were not carried out (later)
// go before all that arrived after them.
func (g *Group) complete(b entryBatch, later ...*call) entryBatch {
	t := &g.together
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queue.End(b.Entry, later)
	return g.next()
}

// next builds the entry that may start now, without calls if none may. The caller holds
// together.mu: a caller that gives up, which Remove notes under it, reuses the memory of its
// command.
func (g *Group) next() (b entryBatch) {
	b.Entry = g.together.queue.Next()
	if len(b.Calls) == 0 {
		return b
	}
	b.entry = g.newEntry()
	if len(b.Calls) == 1 {
		*b.entry = append(*b.entry, b.Calls[0].Cmd...)
		return b
	}
	*b.entry = fsm.AppendBatch(*b.entry)
	for _, c := range b.Calls {
		*b.entry = fsm.AppendToBatch(*b.entry, c.Cmd)
	}
	return b
}

// start runs a batch on a goroutine of the group's.
func (g *Group) start(b entryBatch) {
	if len(b.Calls) == 0 {
		return
	}
	if !g.carrier.Run(func() { g.run(b) }) {
		g.run(b) // the group is closed: the callers receive that error
	}
}

// run proposes a batch, answers each of its calls, and continues with the next batch until the
// queue is empty. A call that was put off has no answer yet.
func (g *Group) run(b entryBatch) {
	for len(b.Calls) > 0 {
		outcome, err := g.proposeBatch(b.entry)
		var later []*call
		for i, c := range b.Calls {
			a := part(outcome, err, i, len(b.Calls))
			if a.err == nil && a.outcome.Code == fsm.CodeLater {
				later = append(later, c)
				continue
			}
			c.Of <- a // never blocks: a call is answered once
		}
		runtime.Gosched() // most callers propose again at once: those commands share an entry
		b = g.complete(b, later...)
	}
}

// proposeBatch makes one attempt, which a caller that gives up does not wait for. The raft leader
// may have changed since its calls were admitted.
func (g *Group) proposeBatch(entry *[]byte) (fsm.Outcome, error) {
	ctx := context.Background()
	if err := g.admit(ctx); err != nil {
		g.entries.Put(entry)
		return fsm.Outcome{}, err
	}
	return g.proposeEntry(ctx, entry)
}

// part is the answer of command i of a batch of n.
func part(outcome fsm.Outcome, err error, i, n int) answered {
	switch {
	case err != nil || n == 1:
		return answered{outcome, err}
	case len(outcome.Each) != n: // the state machine refused the whole batch
		return answered{outcome: fsm.Outcome{Code: outcome.Code}}
	}
	return answered{outcome: outcome.Each[i]}
}
