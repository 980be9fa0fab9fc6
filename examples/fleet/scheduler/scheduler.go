// Package scheduler is the service of examples/fleet: of all its processes, the one that holds a
// lock ticks. Its test runs it in package sim under faults.
package scheduler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
)

// LockName is the lock that the processes compete for.
const LockName = "scheduler/leader"

// Every is the time between two ticks.
const Every = 100 * time.Millisecond

// Tick is one entry of the ledger. N counts from 1 in each tenure; 0 is a write after the lease was
// lost.
type Tick struct {
	Token fence.Token
	Node  string
	N     int
}

// Ledger is the protected resource. Append writes t unless its token is stale, which answers
// fence.ErrStale. It gives up when ctx ends.
type Ledger interface {
	Append(ctx context.Context, t Tick) error
}

// Event is what a service tells: leading, tick, lost, rejected, accepted.
type Event struct {
	Kind  string
	Token fence.Token
	N     int
	Text  string
}

// Service is one process of the scheduler.
type Service struct {
	Name   string
	Ledger Ledger
	Tell   func(Event) // what happens. Default: nobody is told
}

// Run ticks whenever this process holds the lock, until ctx ends, which is no error.
func (s Service) Run(ctx context.Context, c *holdfast.Cluster) error {
	if s.Tell == nil {
		s.Tell = func(Event) {}
	}
	for ctx.Err() == nil {
		if err := s.lead(ctx, c); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// lead waits for the lock and ticks for as long as it is held.
func (s Service) lead(ctx context.Context, c *holdfast.Cluster) error {
	lease, err := c.Acquire(ctx, LockName, holdfast.WithLabel("tick every "+Every.String()))
	if err != nil {
		return err
	}
	defer release(ctx, lease)
	s.Tell(Event{Kind: "leading", Token: lease.Token()})

	for n := 1; ; n++ {
		if !lease.Valid() {
			return s.lost(ctx, lease)
		}
		// Under the lease's context: a write that takes long ends with the lease.
		switch err := s.Ledger.Append(lease.Context(), Tick{lease.Token(), s.Name, n}); {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, fence.ErrStale) || lease.Err() != nil:
			return s.lost(ctx, lease)
		case err != nil:
			return err
		}
		s.Tell(Event{Kind: "tick", Token: lease.Token(), N: n})
		select {
		case <-time.After(Every):
		case <-ctx.Done():
			return nil
		}
	}
}

// release gives the lock back also when ctx has ended; without a group to give it to, it ends with
// its TTL.
func release(ctx context.Context, lease *holdfast.Lease) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = lease.Release(ctx)
}

// lost is what a careless service does after the loss of its lease: it writes once more. The guard
// of the resource is what stops it.
func (s Service) lost(ctx context.Context, lease *holdfast.Lease) error {
	s.Tell(Event{Kind: "lost", Token: lease.Token(), Text: fmt.Sprint(lease.Err())})
	err := s.Ledger.Append(ctx, Tick{lease.Token(), s.Name, 0})
	switch {
	case errors.Is(err, fence.ErrStale):
		s.Tell(Event{Kind: "rejected", Token: lease.Token(), Text: err.Error()})
		return nil
	case err == nil:
		s.Tell(Event{Kind: "accepted", Token: lease.Token()})
	}
	return err
}
