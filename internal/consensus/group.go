package consensus

import (
	"sync"
	"sync/atomic"

	"github.com/lni/dragonboat/v4"
	"github.com/lni/dragonboat/v4/client"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/fdreserve"
)

// Group is this node's replica of the group. It is safe for concurrent use.
type Group struct {
	cfg     Config
	nodes   *registry
	machine *machine
	carrier *carrier
	store   *logStoreFactory
	leaders *leaders
	clocks  *clocks
	opening *opening
	entry   *member        // in the process's router
	spares  *fdreserve.Set // descriptors for files
	session *client.Session
	self    fsm.Process // the author of what is proposed here
	entries sync.Pool   // of *[]byte: where a proposal is put together
	timers  sync.Pool   // of *time.Timer, stopped

	together together

	gate               gate
	host               atomic.Pointer[dragonboat.NodeHost] // nil before the engine runs
	expelling, failing sync.Once
	failure            atomic.Pointer[FailedError]
	failed             chan struct{} // closed after failure is set
	broken             chan struct{} // closed when nothing may be written any more, either
	halting            sync.Once
	reached            depth

	closing sync.Once
	closed  chan struct{} // closed when Close is done
	outcome error         // of Close
}

// Replica is this replica's id.
func (g *Group) Replica() uint64 { return g.cfg.Replica }

// Failure is why the replica has stopped for good: a *FailedError, nil while it has not.
func (g *Group) Failure() error {
	if failure := g.failure.Load(); failure != nil {
		return failure
	}
	return nil
}

// Done is closed when the replica has failed.
func (g *Group) Done() <-chan struct{} { return g.failed }

// Read calls fn with the local state, which does not change meanwhile. fn must be quick: commands
// wait for it. It must not call Read or Fork, nor keep the Machine. Read works before, during and
// after failure and Close.
func (g *Group) Read(fn func(*fsm.Machine)) { g.machine.read(fn) }

// Fork is a copy of the local state, in O(1), for longer reading.
func (g *Group) Fork() *fsm.Machine { return g.machine.fork() }

// fail stops the replica for good, with all that the engine does on the disk. It is called by
// whatever met the failure, from any goroutine, and returns at once.
func (g *Group) fail(cause error) {
	g.halting.Do(func() { close(g.broken) })
	g.carrier.mute()
	g.stopped(cause)
}

// expel stops the replica for good because another one refuses to hear it. The engine is whole: it
// may still be closed in good order. What this process withdraws has arrived before anybody here is
// told, because the process may end then.
func (g *Group) expel(cause error) {
	g.expelling.Do(func() {
		g.carrier.mute()
		go func() {
			g.carrier.withdraw()
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
			g.carrier.withdraw()
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
	if _, panicked := err.(*panicError); panicked {
		g.fail(err)
		return g.Failure()
	}
	return err
}
