package consensus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"
)

const (
	// startMax bounds how long a start of the engine stands still, not how long it takes: a state of millions
	// of locks takes a whole processor for a minute, and some containers have a fifth of one.
	startMax = time.Minute
	// startLook is the time between two looks. Looks are counted and not time, since a process that was
	// stopped for a minute has stood still no longer than its disk.
	startLook = startMax / 12
)

// errSlowStart is no ErrDamaged: what is slow may be whole, and a directory that is called damaged is
// deleted. It was seen on a damaged directory, too, when the machine was very busy.
var errSlowStart = fmt.Errorf("holdfast: the start of the raft engine has stood still for %v: the disk hangs, or this machine is very busy: try again", startMax)

// errStopped is no ErrDamaged, either.
var errStopped = errors.New("holdfast: the start of the raft engine was given up")

// pulse tells a start that goes on from one whose disk hangs.
type pulse struct {
	steps  atomic.Uint64 // reads of a snapshot, entries of the log and batches of commands
	checks atomic.Bool   // what was read is decoded or checked: that waits for no disk, so it comes to its end
}

func (p *pulse) step() { p.steps.Add(1) }

// reading has f read a state from r.
func (p *pulse) reading(r io.Reader, f func(io.Reader) error) error {
	p.checks.Store(true)
	defer p.checks.Store(false)
	return f(beating{r, p})
}

// beating is a reader of which each read is a step.
type beating struct {
	io.Reader
	pulse *pulse
}

func (b beating) Read(to []byte) (int, error) {
	b.pulse.checks.Store(false)
	defer b.pulse.checks.Store(true)
	defer b.pulse.step()
	return b.Reader.Read(to)
}

// awaiting returns what waits for the end of one step of the start after the other, all of them within one
// bound. Each goroutine of an engine whose start is given up may be parked, so one that is slow has time for
// its end when ctx has ended.
func (g *Group) awaiting(ctx context.Context) func(step <-chan error) error {
	p := &g.machine.pulse
	began, seen, looks, still := time.Now(), p.steps.Load(), 0, 0
	look, late, ended := time.After(startLook), (<-chan time.Time)(nil), ctx.Done()
	return func(step <-chan error) error {
		for {
			select {
			case err := <-step:
				return err
			case <-g.failed: // the starting goroutine may be parked
				return g.Failure()
			case <-ended:
				late, look, ended = time.After(closeWithin-closeFailed), nil, nil
			case <-late:
				g.fail(errStopped)
				return g.Failure()
			case <-look:
				look = time.After(startLook)
				if now := p.steps.Load(); now != seen || p.checks.Load() {
					seen, still = now, 0
				} else if still++; still == int(startMax/startLook) {
					g.fail(errSlowStart)
					return g.Failure()
				}
				if looks++; looks%int(startMax/startLook) == 0 {
					g.cfg.Logger.Info("this node still reads its state", "component", "raft", "for", time.Since(began).Round(time.Second).String())
				}
			}
		}
	}
}
