package consensus

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/lni/dragonboat/v4"
	"github.com/lni/dragonboat/v4/raftpb"

	"github.com/holdfast-go/holdfast/internal/consensus/engine"
)

// opening keeps commands out of the log of a raft leader until it has raised the token counter: it
// holds the proposals of other replicas, and this replica's wait. Once open, it stays so.
type opening struct {
	is     atomic.Bool
	opened chan struct{} // closed with is

	mu    sync.Mutex
	held  []raftpb.Message // from others, in order
	bytes int
}

const (
	heldMessagesMax = 4096
	heldBytesMax    = 16 << 20
)

func newOpening() *opening { return &opening{opened: make(chan struct{})} }

// hold takes proposals out of messages, and returns the rest. Proposals beyond the bounds are lost,
// as in any other full queue.
func (o *opening) hold(messages []raftpb.Message) (rest []raftpb.Message) {
	if o.is.Load() {
		return messages
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.is.Load() {
		return messages
	}
	rest = messages[:0]
	for _, m := range messages {
		if m.Type != raftpb.Propose {
			rest = append(rest, m)
			continue
		}
		if size := m.SizeUpperLimit(); len(o.held) < heldMessagesMax && o.bytes+size <= heldBytesMax {
			o.held, o.bytes = append(o.held, m), o.bytes+size
		}
	}
	return rest
}

// discard drops the proposals held: this replica is not raft leader, and their proposers try
// another.
func (o *opening) discard() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.held, o.bytes = nil, 0
}

// open opens it and returns the proposals held.
func (o *opening) open() []raftpb.Message {
	o.mu.Lock()
	defer o.mu.Unlock()
	held := o.held
	o.held, o.bytes = nil, 0
	if !o.is.Swap(true) {
		close(o.opened)
	}
	return held
}

// open lets commands into the log.
func (g *Group) open() {
	held := g.opening.open()
	if len(held) == 0 {
		return
	}
	if err := g.carrier.Inject(held...); err != nil {
		g.fail(err)
	}
}

// admit waits as long as this replica is raft leader and its log is not open. Any other replica
// passes its proposals on, to a raft leader that does the same.
//
// The raft leader is the engine's, which knows it before an entry of a new term commits: a process
// whose Hello this raft leader committed waits here.
func (g *Group) admit(ctx context.Context) error {
	if g.opening.is.Load() {
		return nil
	}
	patience := g.timer(g.cfg.attempt())
	defer g.dropTimer(patience)
	for {
		_, changed := g.leaders.now()
		var leader uint64
		err := g.call(func(host *dragonboat.NodeHost) (err error) {
			leader, _, _, err = host.GetLeaderID(engine.Shard)
			return err
		})
		switch {
		case err != nil:
			return g.definite(err)
		case leader == 0:
			return fmt.Errorf("%w: no raft leader", ErrNotProposed)
		case leader != g.cfg.Replica:
			return nil
		}
		select {
		case <-g.opening.opened:
			return nil
		case <-changed:
		case <-patience.C:
			return fmt.Errorf("%w: the raft leader has not begun to serve", ErrNotProposed)
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrNotProposed, ctx.Err())
		case <-g.gate.closed:
			return ErrClosed
		case <-g.failed:
			return g.Failure()
		}
	}
}
