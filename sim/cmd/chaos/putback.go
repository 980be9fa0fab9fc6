//go:build unix

package main

import (
	"bufio"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/sim/cmd/chaos/internal/story"
	"github.com/holdfast-go/holdfast/sim/internal/workload"
)

// The operator who puts volumes back comes after that: each volume was copied while its node ran, at
// a moment of its own, and all are put back at once. What the older copies lack may be lost, as
// docs/guarantees.md says. What must hold: tokens go on above all that were given, the fleet serves,
// and a node that it does not serve has ended, or says that it waits.

const (
	putBackDir   = "put back" // with ledgers of their own: those of the run have the tokens of a recovered group
	putBackPause = time.Second
	putBackLimit = 20 * time.Second // until a node serves, or what it waits for counts
)

// putBack kills the fleet, and starts it on copies of its disks.
func (f *fleet) putBack(ctx context.Context) {
	if f.run.Diskless || len(f.run.Faults) > 0 || ctx.Err() != nil {
		return
	}
	r := rand.New(rand.NewPCG(f.run.Seed, 5))
	replicas, highest, err := f.copyApart(ctx, r)
	for _, s := range f.slots {
		s.kill()
	}
	for _, s := range replicas {
		if err == nil {
			err = errors.Join(os.RemoveAll(s.disk()), os.CopyFS(s.disk(), os.DirFS(s.copied())))
		}
	}
	if err == nil {
		err = os.MkdirAll(filepath.Join(f.dir, putBackDir), 0o700)
	}
	if err != nil {
		f.wrong(-1, "putting the disks back: %v", err)
		return
	}
	for _, s := range replicas { // the oldest first
		f.mu.Lock()
		s.putBack = true
		f.mu.Unlock()
		if err := s.start(); err != nil {
			f.wrong(s.i, "starting on a disk that was put back: %v", err)
			return
		}
		wait(ctx, workload.UpTo(r, putBackPause))
	}
	f.servesAgain(ctx, replicas, highest)
}

// copyApart copies the disks of the replicas one after the other, with commits between them, and returns
// those in this order, and the highest token that was given before.
func (f *fleet) copyApart(ctx context.Context, r *rand.Rand) (replicas []*slot, highest uint64, err error) {
	highest = f.highest()
	all := f.inhabited()
	for _, k := range r.Perm(len(all)) {
		s := f.slots[all[k]]
		err = errors.Join(err, s.copyTo(s.copied()))
		replicas = append(replicas, s)
		for range 1 + r.IntN(20) {
			highest = max(highest, f.demand(ctx, s.i, s.order, story.LateStale))
		}
	}
	return replicas, highest, err
}

func (s *slot) disk() string   { return filepath.Join(s.data, "node") }
func (s *slot) copied() string { return filepath.Join(s.data, "copy") }

// copyTo copies the disk of a process that stands still meanwhile.
func (s *slot) copyTo(dir string) error {
	s.signal(syscall.SIGSTOP)
	defer s.signal(syscall.SIGCONT)
	return os.CopyFS(dir, os.DirFS(s.disk()))
}

// servesAgain demands of each node that it serves, has ended, or says that it waits, and of one at least
// that it serves.
func (f *fleet) servesAgain(ctx context.Context, replicas []*slot, highest uint64) {
	ctx, cancel := context.WithTimeout(ctx, 2*story.HealMax)
	defer cancel()
	served := 0
	for began := f.now(); len(replicas) > 0 && ctx.Err() == nil; {
		counts, last := f.now() > began+putBackLimit, f.now() > began+story.HealMax
		replicas = slices.DeleteFunc(replicas, func(s *slot) bool {
			text, token := f.write(ctx, s.i, s.order)
			switch {
			case text == story.LateWritten && token > highest:
				highest, served = token, served+1
			case text == story.LateEnded:
			case counts && text == story.LateWaits:
			case last || text != story.LateWaits && text != story.LateSilent:
				f.wrong(s.i, "on a disk that was put back: %q, token %d after %d", text, token, highest)
			default:
				return false
			}
			return true
		})
		wait(ctx, putBackPause)
	}
	if served == 0 {
		f.wrong(-1, "no node serves on the disks that were put back")
	}
}

// putBack is the life of a process on a disk that was put back: it obeys orderWrite.
func (p *process) putBack() (err error) {
	if p.c, err = p.open(); err == nil {
		defer p.c.Close()
		if p.resource, err = openResource(filepath.Join(filepath.Dir(p.plan.Resource), putBackDir)); err != nil {
			return err
		}
		defer p.resource.close()
	} else if !errors.Is(err, holdfast.ErrIncompatible) {
		return err
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan() && lines.Text() == orderWrite; {
		if err == nil {
			err = p.c.Err()
		}
		switch {
		case errors.Is(err, holdfast.ErrIncompatible), errors.Is(err, holdfast.ErrRemoved):
			p.note(story.LateEnded)
		case err != nil:
			p.note(story.LateWrite + err.Error())
		case p.c.Ready(workload.Within(story.ServeMax)) == nil:
			p.writeLate()
		case p.c.Status().Waits != "":
			p.note(story.LateWaits)
		default:
			p.note(story.LateSilent)
		}
	}
	return nil
}
