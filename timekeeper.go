package holdfast

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/consensus"
	"github.com/holdfast-go/holdfast/internal/lease"
)

const (
	// flightsMax is how many commands the timekeeper has under way at a time.
	flightsMax = 64
	// expirePause is the longest sleep of the timekeeper: timers stand still while a machine is suspended.
	expirePause = time.Second
	// expireRetry is when an end that did not happen is proposed again.
	expireRetry = 200 * time.Millisecond
)

// timekeeper tells the group what has come to its end on this node's clock: sessions, rests, the time of Once keys. Every
// voter times everything all along: the raft leader proposes at once, the others a little later, in case its clock began late.
type timekeeper struct {
	loop
	c       *Cluster
	tables  []timetable
	flights chan struct{} // proposals under way
}

// timetable answers what is due, and when to look again.
type timetable func(group *consensus.Group, now lease.Instant, leads bool) (due []fsm.Command, next lease.Instant)

func newTimekeeper(c *Cluster) *timekeeper {
	k := &timekeeper{c: c, flights: make(chan struct{}, flightsMax)}
	k.loop = newLoop(k.step)
	return k
}

// step proposes what is due.
func (k *timekeeper) step(ctx context.Context) time.Duration {
	group, _ := k.c.proposer.current()
	if group == nil || !k.c.votes(group) {
		return expirePause
	}
	now, leads := k.c.clock.Now(), group.IsRaftLeader()
	pause := expirePause
	for _, table := range k.tables {
		due, next := table(group, now, leads)
		for _, cmd := range due {
			k.propose(ctx, group, cmd)
		}
		pause = min(pause, time.Duration(next-now))
	}
	return pause
}

// propose makes one attempt in the background: what is lost on the way is due again soon.
func (k *timekeeper) propose(ctx context.Context, group *consensus.Group, cmd fsm.Command) {
	select {
	case k.flights <- struct{}{}:
	case <-ctx.Done():
		return
	}
	k.c.goRun(func(ctx context.Context) {
		defer func() { <-k.flights }()
		_, _ = group.Propose(ctx, fsm.Encode(cmd))
		k.wake()
	})
}
