package consensus

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lni/dragonboat/v4"
	"github.com/lni/dragonboat/v4/client"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/consensus/engine"
	"github.com/holdfast-go/holdfast/internal/consensus/store"
	"github.com/holdfast-go/holdfast/internal/consensus/wire"
	"github.com/holdfast-go/holdfast/internal/fdreserve"
	"github.com/holdfast-go/holdfast/internal/tally"
)

// Group is this node's replica of the group. It is safe for concurrent use.
type Group struct {
	cfg     Config
	nodes   *wire.Registry
	machine *machine
	carrier *wire.Carrier
	store   store.Factory
	leaders *leaders
	clocks  *clocks
	opening *opening
	leave   func()         // unregisters the group from the engine's logger
	spares  *fdreserve.Set // descriptors for files
	session *client.Session
	self    fsm.Process // the author of its commands
	entries sync.Pool   // of *[]byte: buffers of proposals
	timers  sync.Pool   // of *time.Timer, stopped

	snapshots, renewal, greetings chore

	introduced time.Time // when Introduce last looked, or the group was made

	together together
	failover failover
	yield    atomic.Bool               // see Yield
	shunned  atomic.Pointer[time.Time] // when a node that leaves asked first for a vote, since a raft leader was known; nil: none has

	succeeding atomic.Bool // a raft leader that transfers the leadership

	gate               gate
	host               atomic.Pointer[dragonboat.NodeHost] // nil before the engine runs
	expelling, failing sync.Once
	failure            atomic.Pointer[FailedError]
	failed             chan struct{} // closed after failure is set
	broken             chan struct{} // closed when no file may be written any more, either
	halting            sync.Once
	reached            store.Depth
	turns              store.Turns
	writing            *tally.Waiting // for a write of the log
	answers            *tally.Waiting // for the first answer to what the engine was given

	closing sync.Once
	closed  chan struct{} // closed when Close is done
	outcome error         // of Close
}

// Replica is this replica's id.
func (g *Group) Replica() uint64 { return g.cfg.Replica }

// Failure is a *FailedError when the replica has stopped for good, or nil.
func (g *Group) Failure() error {
	if failure := g.failure.Load(); failure != nil {
		return failure
	}
	return nil
}

// Done is closed when the replica has failed.
func (g *Group) Done() <-chan struct{} { return g.failed }

// Read calls fn with the local state, which does not change meanwhile. fn must be quick, because
// commands wait for it; it must not call Read or Fork, nor keep the Machine. Read works before,
// during and after failure and Close.
func (g *Group) Read(fn func(*fsm.Machine)) { g.machine.read(fn) }

// Answer answers a question from the local state.
func (g *Group) Answer(q fsm.Question) fsm.Answer { return g.machine.answer(q) }

// Fork is a copy of the local state, in O(1), for longer reading.
func (g *Group) Fork() *fsm.Machine { return g.machine.fork() }

// fail stops the replica for good, and all that the engine does on the disk. It may be called from
// any goroutine, and returns at once.
func (g *Group) fail(cause error) {
	g.halting.Do(func() { close(g.broken) })
	g.carrier.Mute()
	g.stopped(cause)
}

// expel stops the replica for good because another one refuses to hear it. The engine may still
// close in good order. The withdrawal has arrived before the observer is called, because the
// process may end then.
func (g *Group) expel(cause error) {
	g.expelling.Do(func() {
		g.carrier.Mute()
		go func() {
			g.carrier.Withdraw()
			g.stopped(cause)
		}()
	})
}

func (g *Group) stopped(cause error) {
	g.failing.Do(func() {
		failure := &FailedError{Cause: cause}
		g.failure.Store(failure)
		close(g.failed)
		g.cfg.Logger.Error("replica has stopped for good", "component", "raft", "error", cause)
		go func() {
			g.carrier.Withdraw()
			g.cfg.Observer.Failed(failure)
		}()
	})
}

// call runs a brief call of the engine. A panic of it fails the group.
func (g *Group) call(f func(*dragonboat.NodeHost) error) error {
	if err := g.Failure(); err != nil {
		return err
	}
	ok, err := g.gate.pass(func() error {
		host := g.host.Load()
		if host == nil {
			return ErrClosed
		}
		return f(host)
	})
	if !ok {
		return ErrClosed
	}
	if errors.Is(err, ErrInvariant) {
		g.fail(err)
		return g.Failure()
	}
	return err
}

// gate keeps calls of the engine apart from its Close, which drops parts of the engine that calls
// still use. A call is brief: its result comes by a channel, and its caller waits outside the gate.
type gate struct {
	mu     sync.RWMutex
	shut   bool
	closed chan struct{} // closed with it
}

// pass runs call, with a panic as an error, and returns false if the gate is shut.
func (g *gate) pass(call func() error) (ok bool, err error) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if g.shut {
		return false, nil
	}
	return true, engine.Guard(call)
}

// close shuts the gate and waits for the calls inside.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = true
	close(g.closed)
}

const (
	closeWithin = 5 * time.Second // Close, all in all
	closeFailed = time.Second     // of it, for an engine that is parked
)

// Close transfers raft leadership to another voter if it can, stops the replica and returns when no
// part of it runs any more, after five seconds at most. Calls under way are answered. Concurrent
// and later calls wait for the first and return the same.
//
// After a failure, or when the disk hangs, parts of the engine stay parked forever, and Close
// returns ErrAbandoned. They write no more, but the system may still complete a write: this process
// should not open the directory again.
func (g *Group) Close() error {
	g.closing.Do(func() { go g.close() }) // a goroutine: a wait for a Once would stop a simulation's time
	<-g.closed
	return g.outcome
}

func (g *Group) close() {
	defer close(g.closed)
	deadline := time.After(closeWithin)
	g.handOver()
	g.outcome = g.stop(deadline)
	g.spares.Close()
	g.leave()
}

// stop stops the engine, and abandons it when that takes too long.
func (g *Group) stop(deadline <-chan time.Time) error {
	stopped := make(chan error, 1)
	go func() {
		g.gate.close()
		stopped <- engine.Guard(func() error {
			if host := g.host.Load(); host != nil {
				host.Close()
			}
			return g.carrier.Close()
		})
	}()
	failed := g.failed
	var patience <-chan time.Time
	for {
		select {
		case err := <-stopped:
			if failure := g.Failure(); err != nil && failure != nil {
				return fmt.Errorf("%w: %w", ErrAbandoned, failure)
			}
			return err
		case <-failed:
			failed = nil
			patience = time.After(closeFailed)
		case <-patience:
			return fmt.Errorf("%w: %w", ErrAbandoned, g.Failure())
		case <-deadline:
			g.fail(ErrAbandoned) // or it might write to a directory that another process has opened
			return ErrAbandoned
		}
	}
}
