package consensus

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lni/vfs"

	"github.com/holdfast-go/holdfast/fsm"
)

// Each step of a start that was given up had the time for its end anew: Open returned after nine seconds.
func TestAllStepsOfAStartAreWithinOneBound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := unopened()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		began, await := time.Now(), g.awaiting(ctx)
		first := make(chan error, 1)
		time.AfterFunc(closeWithin-closeFailed-time.Second, func() { first <- nil })
		if err := await(first); err != nil {
			t.Fatal(err)
		}
		err := await(make(chan error))
		if took := time.Since(began); took != closeWithin-closeFailed || !errors.Is(err, errStopped) {
			t.Errorf("after %v: %v", took, err)
		}
	})
}

func unopened() *Group {
	return newGroup(Config{Logger: slog.New(slog.DiscardHandler), Observer: &counting{}}.withDefaults(), fsm.Process{})
}

// sluggish is a reader that takes its time for each read, and hangs for good after so many.
type sluggish struct {
	io.Reader
	pause time.Duration
	reads int
	hangs chan struct{}
}

// Read waits in virtual time.
func (s *sluggish) Read(b []byte) (int, error) {
	if s.reads--; s.reads < 0 {
		<-s.hangs
		return 0, io.ErrUnexpectedEOF
	}
	time.Sleep(s.pause)
	return s.Reader.Read(b)
}

// A minute was the bound of all: a state that took longer to read was read from its beginning at each start,
// and the fleet never came back. What hangs still ends the start, after a minute without a step.
func TestAStartIsBoundedWhereItStandsStillAndNotInAll(t *testing.T) {
	t.Parallel()
	saved := new(bytes.Buffer)
	if err := fsm.New().WriteSnapshot(saved, nil); err != nil {
		t.Fatal(err)
	}
	// A start is of so many reads, and goes on to the end unless the next one hangs.
	start := func(t *testing.T, pause time.Duration, reads int, read func(*Group, io.Reader) error) (took time.Duration, err error) {
		g, step, hangs, over := unopened(), make(chan error, 1), make(chan struct{}), make(chan struct{})
		began, await := time.Now(), g.awaiting(t.Context())
		go func() {
			defer close(over)
			step <- read(g, &sluggish{bytes.NewReader(saved.Bytes()), pause, reads, hangs})
		}()
		defer func() {
			close(hangs)
			<-over
		}()
		err = await(step)
		return time.Since(began), err
	}
	const all = 100 // reads: more than there are
	recovers := func(g *Group, r io.Reader) error { return g.machine.RecoverFromSnapshot(r, nil, nil) }
	const bound = startMax + startLook
	synctest.Test(t, func(t *testing.T) {
		// An engine whose read has failed is parked, so a read that hangs is seen without one.
		checks := func(takes time.Duration) func(*Group, io.Reader) error {
			return func(g *Group, r io.Reader) error {
				return g.machine.pulse.reading(r, func(r io.Reader) error {
					_, err := fsm.ReadSnapshot(r)
					time.Sleep(takes)
					return err
				})
			}
		}
		if took, err := start(t, startMax-startLook, all, recovers); err != nil || took < 3*startMax {
			t.Errorf("slow reads: after %v: %v", took, err)
		}
		if took, err := start(t, 0, all, checks(10*startMax)); err != nil || took < 10*startMax {
			t.Errorf("a long check of what was read: after %v: %v", took, err)
		}
		if took, err := start(t, 0, 0, checks(0)); !errors.Is(err, errSlowStart) || took > bound {
			t.Errorf("the first read hangs: after %v: %v", took, err)
		}
		if took, err := start(t, startMax-startLook, 2, checks(0)); !errors.Is(err, errSlowStart) || took > 2*(startMax-startLook)+bound {
			t.Errorf("the third read hangs: after %v: %v", took, err)
		}
	})
}

// The log is read before, and may be long.
func TestEachEntryOfTheLogIsAStepOfAStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, disk := newBench(), vfs.NewMem()
		r := b.open(t, 1, disk, StartBootstrap)
		const entries = 20
		for level := range uint64(entries) {
			r.propose(t, fsm.Level{Level: level + 1})
		}
		r.close(t)
		r = b.open(t, 1, disk, StartRestart)
		if read := r.machine.pulse.steps.Load(); read < entries {
			t.Errorf("%d steps for %d entries", read, entries)
		}
		r.barrier(t)
		r.close(t)
	})
}
