package holdfast

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/consensus"
	"github.com/holdfast-go/holdfast/internal/lease"
)

const (
	// flightsMax is how many commands a timekeeper has under way at a time.
	flightsMax = 64
	// expirePause is the longest sleep of a timekeeper: timers stand still while a machine is suspended.
	expirePause = time.Second
	// expireRetry is when an end that did not happen is proposed again.
	expireRetry = 200 * time.Millisecond
)

// timekeeper tells the group what has come to its end on this node's clock. Every voter times everything all along:
// the raft leader proposes at once, the others a little later, in case its clock began late.
type timekeeper struct {
	loop
	c       *Cluster
	due     func(group *consensus.Group, now lease.Instant, leads bool) (due []fsm.Command, next lease.Instant)
	flights chan struct{} // proposals under way
}

func (k *timekeeper) init(c *Cluster, due func(*consensus.Group, lease.Instant, bool) ([]fsm.Command, lease.Instant)) {
	k.loop, k.c, k.due, k.flights = newLoop(k.step), c, due, make(chan struct{}, flightsMax)
}

// step proposes what is due.
func (k *timekeeper) step(ctx context.Context) time.Duration {
	group, _ := k.c.proposer.current()
	if group == nil || !k.c.votes(group) {
		return expirePause
	}
	now := k.c.clock.Now()
	due, next := k.due(group, now, group.IsRaftLeader())
	for _, cmd := range due {
		k.propose(ctx, group, cmd)
	}
	return min(expirePause, time.Duration(next-now))
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
