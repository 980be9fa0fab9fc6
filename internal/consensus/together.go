package consensus

import (
	"context"
	"fmt"
	"runtime"
	"sync"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/batch"
)

// together brings the commands of this node's callers to the log, several in one entry where they
// come while others are under way. Who comes alone waits for nobody, and proposes from its own
// goroutine. Others wait in line, and a goroutine for each entry under way, batch.UnderwayMax at
// most, proposes for them.
type together struct {
	mu    sync.Mutex
	line  batch.Line[chan answered]
	calls sync.Pool // of *call, which nobody waits for and nobody answers
}

type call = batch.Call[chan answered]

// answered is what became of one command.
type answered struct {
	outcome fsm.Outcome
	err     error
}

// flight is an entry that is to be proposed, and whose commands are in it.
type flight struct {
	entry *[]byte
	calls []*call
}

// join proposes a command that may travel with others.
func (g *Group) join(ctx context.Context, cmd []byte) (fsm.Outcome, error) {
	t := &g.together
	t.mu.Lock()
	if t.line.Begin() {
		t.mu.Unlock()
		outcome, err := g.propose(ctx, cmd)
		g.launch(g.land(1))
		return outcome, err
	}
	c, ok := t.calls.Get().(*call)
	if !ok {
		c = &call{Of: make(chan answered, 1)}
	}
	c.Cmd = cmd
	room := t.line.Wait(c)
	next := g.next()
	t.mu.Unlock()
	g.launch(next)
	if !room {
		return fsm.Outcome{}, fmt.Errorf("%w: too many wait", ErrNotProposed)
	}
	select {
	case a := <-c.Of:
		t.calls.Put(c)
		return a.outcome, a.err
	case <-ctx.Done():
	}
	t.mu.Lock()
	left := t.line.Leave(c)
	t.mu.Unlock()
	if left {
		return fsm.Outcome{}, fmt.Errorf("%w: %w", ErrNotProposed, ctx.Err())
	}
	return fsm.Outcome{}, fmt.Errorf("%w: %w", ErrUnknown, ctx.Err())
}

// land says that an entry of so many commands is not under way any more, and returns the next one.
func (g *Group) land(commands int) flight {
	t := &g.together
	t.mu.Lock()
	defer t.mu.Unlock()
	t.line.End(commands)
	return g.next()
}

// next is the entry that may go now, without calls if none may. Its commands are put together
// before anybody can leave: who has left uses the memory of its command for another. The caller
// holds together.mu.
func (g *Group) next() (f flight) {
	f.calls = g.together.line.Next()
	if len(f.calls) == 0 {
		return f
	}
	f.entry = g.newEntry()
	if len(f.calls) > 1 {
		*f.entry = fsm.AppendBatch(*f.entry)
	}
	for _, c := range f.calls {
		if len(f.calls) > 1 {
			*f.entry = fsm.AppendToBatch(*f.entry, c.Cmd)
		} else {
			*f.entry = append(*f.entry, c.Cmd...)
		}
		c.Cmd = nil
	}
	return f
}

// launch carries what waited to the log, on a goroutine of the group's.
func (g *Group) launch(f flight) {
	if len(f.calls) == 0 {
		return
	}
	if !g.carrier.run(func() { g.carry(f) }) {
		g.carry(f) // nothing runs any more: they are told so
	}
}

// carry proposes a flight, gives each of its calls the answer, and goes on with what has come
// meanwhile, until there is nothing.
func (g *Group) carry(f flight) {
	for len(f.calls) > 0 {
		outcome, err := g.fly(f.entry)
		for i, c := range f.calls {
			c.Of <- part(outcome, err, i, len(f.calls)) // there is room: it is answered once
		}
		runtime.Gosched() // who has its answer has more to ask, mostly: that travels together
		f = g.land(len(f.calls))
	}
}

// fly proposes a flight, in one attempt. The raft leader may be another one than when its calls
// came.
func (g *Group) fly(entry *[]byte) (fsm.Outcome, error) {
	ctx := context.Background() // the attempt ends soon enough, and who gives up does not wait for it
	if err := g.admit(ctx); err != nil {
		g.entries.Put(entry)
		return fsm.Outcome{}, err
	}
	return g.proposeEntry(ctx, entry)
}

// part is the answer of one of n commands that travelled together.
func part(outcome fsm.Outcome, err error, i, n int) answered {
	switch {
	case err != nil || n == 1:
		return answered{outcome, err}
	case len(outcome.Each) != n: // the machine refused all of it
		return answered{outcome: fsm.Outcome{Code: outcome.Code}}
	}
	if one := outcome.Each[i]; one.Code != fsm.CodeLater {
		return answered{outcome: one}
	}
	return answered{err: fmt.Errorf("%w: there was too much to do in its entry", ErrNotProposed)}
}
