package contract_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/sim"
)

// campaigns has every node stand for the election, and returns when one of them leads.
func campaigns(t *testing.T, s *sim.Sim, name string) map[*sim.Node]*holdfast.Campaign {
	t.Helper()
	all := make(map[*sim.Node]*holdfast.Campaign)
	for _, n := range s.Nodes() {
		k, err := n.Cluster().Campaign(context.Background(), name)
		if err != nil {
			t.Fatal(err)
		}
		all[n] = k
	}
	leads(t, all, nil)
	return all
}

// leads waits until exactly one leads, and another one than before.
func leads(t *testing.T, all map[*sim.Node]*holdfast.Campaign, before *sim.Node) (leader *sim.Node) {
	t.Helper()
	settles(t, time.Minute, "one leader", func() bool {
		leader = nil
		for n, k := range all {
			if !k.IsLeader() {
				continue
			}
			if leader != nil {
				t.Fatal("two lead")
			}
			leader = n
		}
		return leader != nil && leader != before
	})
	return leader
}

func TestOneCampaignLeadsAndAnotherFollowsWhenItResignsClosesOrDies(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
		all := campaigns(t, s, "boss")
		first := leads(t, all, nil)
		token := all[first].Lease().Token()
		if err := all[first].Resign(until(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if all[first].IsLeader() || all[first].Lease() != nil {
			t.Error("who has resigned leads")
		}
		second := leads(t, all, first)
		if l := all[second].Lease(); l.Token() <= token {
			t.Errorf("token %d after %d", l.Token(), token)
		}
		if err := all[first].Resign(until(time.Minute)); err != nil {
			t.Errorf("resigning without leading: %v", err)
		}
		for range 2 { // everything twice
			if err := all[second].Close(until(time.Minute)); err != nil {
				t.Error(err)
			}
		}
		if all[second].IsLeader() || all[second].Err() != nil {
			t.Errorf("after Close: leads %v, %v", all[second].IsLeader(), all[second].Err())
		}
		third := leads(t, all, second)
		third.Kill()
		delete(all, third)
		if last := leads(t, all, third); last == second {
			t.Error("a campaign that was closed leads")
		}
	})
}

func TestACampaignStandsAgainAfterALoss(t *testing.T) {
	t.Parallel()
	virtual(t, func(c *holdfast.Cluster) {
		k, err := c.Campaign(context.Background(), "boss")
		if err != nil {
			t.Fatal(err)
		}
		var first *holdfast.Lease
		settles(t, time.Minute, "leadership", func() bool { first = k.Lease(); return first != nil })
		if err := c.ForceRelease(until(time.Minute), "boss", first.Token(), "to see it stand again"); err != nil {
			t.Fatal(err)
		}
		settles(t, time.Minute, "leadership again", func() bool { l := k.Lease(); return l != nil && l.Token() > first.Token() })
		if !errors.Is(first.Err(), holdfast.ErrForced) {
			t.Errorf("the former tenure ended with %v", first.Err())
		}
	})
}

func TestACampaignEndsWithItsContextItsNodeAndARefusal(t *testing.T) {
	t.Parallel()
	virtual(t, func(c *holdfast.Cluster) {
		ctx, cancel := context.WithCancel(context.Background())
		cancelled, err := c.Campaign(ctx, "one")
		if err != nil {
			t.Fatal(err)
		}
		settles(t, time.Minute, "leadership", cancelled.IsLeader)
		cancel()
		<-cancelled.Done()
		if err := cancelled.Err(); err != nil || cancelled.IsLeader() {
			t.Errorf("after the end of its context: %v, leads %v", err, cancelled.IsLeader())
		}
		get(t, c, "permits", holdfast.WithLimit(3))
		refused, err := c.Campaign(context.Background(), "permits", holdfast.WithTTL(time.Second))
		if err != nil {
			t.Fatal(err)
		}
		<-refused.Done()
		if err := refused.Err(); refused.IsLeader() || !errors.Is(err, holdfast.ErrLimitMismatch) {
			t.Errorf("a semaphore as an election: %v, leads %v", err, refused.IsLeader())
		}
		get(t, c, "held")
		waits, err := c.Campaign(context.Background(), "held", holdfast.WithTTL(time.Second))
		if err != nil {
			t.Fatal(err)
		}
		stopped, err := c.Campaign(context.Background(), "two")
		if err != nil {
			t.Fatal(err)
		}
		settles(t, time.Minute, "leadership", stopped.IsLeader)
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		for name, k := range map[string]*holdfast.Campaign{"two": stopped, "held": waits} {
			<-k.Done()
			if err := k.Err(); k.IsLeader() || !errors.Is(err, holdfast.ErrClosed) {
				t.Errorf("%s, after the end of its node: %v, leads %v", name, err, k.IsLeader())
			}
		}
		if _, err := c.Campaign(context.Background(), "three"); !errors.Is(err, holdfast.ErrClosed) {
			t.Errorf("a campaign of a node that is closed: %v", err)
		}
	})
}

func TestLeadAndDoWithoutWaitingSayWhoHasTheLock(t *testing.T) {
	t.Parallel()
	c := single(t)
	ctx := within(t, time.Minute)
	l := acquire(t, c, "busy", holdfast.WithLabel("who has it"))
	for what, call := range map[string]func(...holdfast.Option) error{
		"Do":   func(o ...holdfast.Option) error { return c.Do(ctx, "busy", nothing, o...) },
		"Lead": func(o ...holdfast.Option) error { return c.Lead(ctx, "busy", nothing, o...) },
	} {
		var held *holdfast.HeldError
		if err := call(holdfast.WithNoWait()); !errors.As(err, &held) || held.Token != l.Token() || held.Holder.Label != "who has it" {
			t.Errorf("%s: %v", what, err)
		}
		wantField(t, call(holdfast.WithNoWait(), holdfast.WithPriority(1)), "WithPriority")
	}
	if err := l.Release(ctx); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"Do":   c.Do(ctx, "busy", nothing, holdfast.WithNoWait()),
		"Lead": c.Lead(ctx, "busy", nothing, holdfast.WithNoWait()),
	} {
		if err != nil {
			t.Errorf("%s of a free lock: %v", what, err)
		}
	}
}

func TestOptionsThatACallDoesNotHonourAreRefused(t *testing.T) {
	t.Parallel()
	c := single(t)
	ctx := within(t, time.Minute)
	try := func(o holdfast.Option) error { _, err := c.TryAcquire(ctx, "name", o); return err }
	wantField(t, try(holdfast.WithPriority(1)), "WithPriority")
	wantField(t, try(holdfast.WithDeadlockCheck()), "WithDeadlockCheck")
	wantField(t, try(holdfast.WithNoWait()), "WithNoWait")
	wantField(t, try(holdfast.WithWait()), "WithWait")
	_, err := c.Acquire(ctx, "name", holdfast.WithNoWait())
	wantField(t, err, "WithNoWait")
	_, err = c.AcquireAll(ctx, []string{"name"}, holdfast.WithNoWait())
	wantField(t, err, "WithNoWait")
	_, err = c.Campaign(ctx, "name", holdfast.WithNoWait())
	wantField(t, err, "WithNoWait")
	_, err = c.Campaign(ctx, "name", holdfast.WithShared())
	wantField(t, err, "WithShared")
}

// A function that returns the reason why its context has ended tells of the loss once.
func TestALossIsToldOnce(t *testing.T) {
	t.Parallel()
	c := single(t)
	ctx := within(t, time.Minute)
	fn := func(ctx context.Context, l *holdfast.Lease) error {
		if err := c.ForceRelease(ctx, l.Name(), l.Token(), "for the test"); err != nil {
			return err
		}
		<-ctx.Done()
		return context.Cause(ctx)
	}
	err := c.Do(ctx, "lock", fn)
	if !errors.Is(err, holdfast.ErrLost) || !errors.Is(err, holdfast.ErrForced) || strings.Count(err.Error(), "lease lost") != 1 {
		t.Errorf("got %v", err)
	}
}
