package expiry

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/loop"
)

// Group is the local replica.
type Group interface {
	Read(look func(*fsm.Machine))
	IsRaftLeader() bool
	Propose(ctx context.Context, cmd []byte) (fsm.Outcome, error)
}

// Timekeeper proposes the ends that are due by the clock of this node. Every voter times everything
// all along: the raft leader proposes at once, the others a little later, in case its clock began
// late. Its steps are those of Run; Wake it when the Table says so, and when the raft leader
// changes.
type Timekeeper struct {
	loop.Loop
	table   *Table
	now     func() lease.Instant
	voter   func() Group
	spawn   func(func(context.Context)) bool
	flights chan struct{} // proposals under way
}

// NewTimekeeper returns one for a table. now reads the node's clock. voter is the local replica
// while that votes, else nil. spawn runs a function on a goroutine of its own, whose end the caller
// waits for when the node stops.
func NewTimekeeper(table *Table, now func() lease.Instant, voter func() Group, spawn func(func(context.Context)) bool) *Timekeeper {
	k := &Timekeeper{table: table, now: now, voter: voter, spawn: spawn, flights: make(chan struct{}, FlightsMax)}
	k.Loop = loop.New(k.step)
	return k
}

// step proposes what is due.
func (k *Timekeeper) step(ctx context.Context) time.Duration {
	group := k.voter()
	if group == nil {
		return PauseMax
	}
	now := k.now()
	due, next := k.table.Step(group.Read, now, group.IsRaftLeader())
	for _, cmd := range due {
		k.propose(ctx, group, cmd)
	}
	return time.Duration(next - now)
}

// propose makes one attempt in the background: what is lost on the way is due again soon.
func (k *Timekeeper) propose(ctx context.Context, group Group, cmd fsm.Command) {
	select {
	case k.flights <- struct{}{}:
	case <-ctx.Done():
		return
	}
	k.spawn(func(ctx context.Context) {
		defer func() { <-k.flights }()
		_, _ = group.Propose(ctx, fsm.Encode(cmd))
		k.Wake()
	})
}
