package consensus

import (
	"fmt"
	"time"
)

const (
	closeWithin = 5 * time.Second // Close, all in all
	closeFailed = time.Second     // of it, for an engine that is parked
)

// Close hands raft leadership to another voter when it can, stops the replica and returns when
// nothing of it runs any more, after five seconds at most. Calls under way are answered. Further
// calls, also concurrent ones, wait for the first and answer the same.
//
// After a failure, or where the disk hangs, parts of the engine are left as they are, parked for
// ever: Close answers ErrAbandoned. They write nothing any more, but for what is under way in the
// system: the directory is better not opened again by this process.
func (g *Group) Close() error {
	g.closing.Do(func() { go g.close() }) // a goroutine: who waits for a Once is not idle in the simulation, whose time stands still
	<-g.closed
	return g.outcome
}

func (g *Group) close() {
	defer close(g.closed)
	deadline := time.NewTimer(closeWithin)
	defer deadline.Stop()
	g.handOver()
	g.outcome = g.stop(deadline.C)
	g.spares.Close()
	process.leave(g.cfg.Replica, g.entry)
}

// stop stops the engine, and leaves it to itself when that takes too long.
func (g *Group) stop(deadline <-chan time.Time) error {
	stopped := make(chan error, 1)
	go func() {
		g.gate.close()
		stopped <- guard(func() error {
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
			timer := time.NewTimer(closeFailed)
			defer timer.Stop()
			patience = timer.C
		case <-patience:
			return fmt.Errorf("%w: %w", ErrAbandoned, g.Failure())
		case <-deadline:
			g.fail(ErrAbandoned) // or it would write to a directory that others have opened meanwhile
			return ErrAbandoned
		}
	}
}
