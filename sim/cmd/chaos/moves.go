//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/transport"
)

// rivalTime is how long two processes of one node may live when nothing is between them.
const rivalTime = 30 * time.Second

// The states of a process whose disk is copied and opened on another machine.
const (
	movedCut     = "cut off"
	movedStopped = "stopped"
	movedDead    = "dead"
	movedAlive   = "alive"
)

// move copies the disk of a node to the machine where nothing runs and opens it there, while the
// process here is cut off, stopped, dead, or alive. One of the two goes on.
func (x *nemesis) move(ctx context.Context) {
	host := x.f.vacancy()
	if host == nil {
		return
	}
	defer host.unclaim()
	all := x.claim(x.any())
	defer unclaim(all)
	if len(all) == 0 {
		return
	}
	from, how := all[0], []string{movedCut, movedStopped, movedDead, movedAlive}[x.r.IntN(4)]
	if how == movedAlive && !x.spared(ctx) { // what it has promised since the copy is lost
		how = movedCut
	}
	if how == movedCut {
		if !x.calm(ctx) {
			return
		}
		defer x.f.giveNetwork()
	}
	x.f.fault("move", fmt.Sprintf("from %d to %d, the former %s", from.i, host.i, how), []int{from.i, host.i}, func() {
		x.f.mu.Lock()
		from.forked, host.forked = true, true
		x.f.mu.Unlock()
		x.part(from, how)
		wait(ctx, x.lasts())
		x.copyTo(host, from, how)
		x.begin(host)
		wait(ctx, x.lasts())
		if how == movedDead || ctx.Err() != nil { // no time is left for them to find out
			from.vacate()
		}
		x.meet(from, how)
		if how != movedDead {
			x.rivals(ctx, from, host)
		}
	})
}

func (x *nemesis) part(s *slot, how string) {
	switch how {
	case movedCut:
		for j := range x.f.slots {
			if j != s.i {
				x.f.relay.Set(s.i, j, transport.Faults{Cut: true})
				x.f.relay.Set(j, s.i, transport.Faults{Cut: true})
			}
		}
	case movedStopped:
		s.signal(syscall.SIGSTOP)
	case movedDead:
		s.kill()
	}
}

func (x *nemesis) copyTo(host, from *slot, how string) {
	from.signal(syscall.SIGSTOP)
	host.copyDisk(from)
	x.f.mu.Lock()
	host.forked = true
	x.f.mu.Unlock()
	if how != movedStopped {
		from.signal(syscall.SIGCONT)
	}
}

// meet takes away what is between the two.
func (x *nemesis) meet(s *slot, how string) {
	switch how {
	case movedCut:
		x.f.relay.Calm()
	case movedStopped:
		s.signal(syscall.SIGCONT)
	}
}

// rivals waits until one of two processes of a node has ended, and lets the other go on. One must,
// as soon as the group serves: before, neither can know.
func (x *nemesis) rivals(ctx context.Context, former, later *slot) {
	waiting, cancel := context.WithTimeout(ctx, rivalTime)
	defer cancel()
	x.f.until(waiting, func() bool { return former.failed || later.failed || former.vacant })
	recent := x.f.now() - 5*statusEvery
	x.f.mu.Lock()
	first, second := former.failed, later.failed
	both := former.ready(recent) && later.ready(recent) && errors.Is(waiting.Err(), context.DeadlineExceeded) && ctx.Err() == nil
	x.f.mu.Unlock()
	switch {
	case both:
		x.f.wrong(later.i, "two processes of one node live for %v beside each other: the other is node %d", rivalTime, former.i)
	case second && !first:
		// The former one is started again, as people do then: until that it may neither serve nor
		// stop, because gossip and Raft have heard of a later process of its node.
		later.vacate()
		former.kill()
		x.begin(former)
		return
	}
	former.vacate()
}
