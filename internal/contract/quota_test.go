package contract_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/simenv"
	"github.com/holdfast-go/holdfast/sim"
)

// bounded runs three nodes and a client, whose group has level 2. log, if not nil, hears all of them.
func bounded(t *testing.T, log *slog.Logger, f func(s *sim.Sim, client *holdfast.Cluster)) {
	t.Helper()
	config := func(i int, cfg *holdfast.Config) { cfg.ClientOnly, cfg.Logger = i >= 3, cmp.Or(log, cfg.Logger) }
	sim.Run(t, sim.Options{Nodes: 4, Config: config, Env: func(_ int, env *simenv.Env) { env.LevelPause = time.Second }}, func(s *sim.Sim) {
		for _, n := range s.Nodes() {
			settles(t, time.Minute, "level 2", func() bool { return n.Cluster().Status().Level == 2 })
		}
		f(s, s.Node(3).Cluster())
	})
}

// over checks that a call was refused by a quota.
func over(t *testing.T, err error, whose, what string) {
	t.Helper()
	var full *holdfast.ExhaustedError
	if !errors.Is(err, holdfast.ErrExhausted) || !errors.As(err, &full) || full.Whose != whose || !strings.HasPrefix(full.What, what) || full.Limit == 0 {
		t.Errorf("%v (%+v), want %s of %s", err, full, what, whose)
	}
}

func setQuota(t *testing.T, c *holdfast.Cluster, q holdfast.Quota) {
	t.Helper()
	if err := c.SetQuota(until(time.Minute), q, "it leaks"); err != nil {
		t.Fatal(err)
	}
}

// A node that leaks locks fills its quota, and the others and the client go on.
func TestANodeTakesNoMoreThanItsQuota(t *testing.T) {
	t.Parallel()
	bounded(t, nil, func(s *sim.Sim, client *holdfast.Cluster) {
		leaks, other := s.Node(0).Cluster(), s.Node(1).Cluster()
		held := get(t, leaks, "first")
		setQuota(t, client, holdfast.Quota{Node: holdfast.EachNode, Locks: 3, Sessions: 2})
		setQuota(t, other, holdfast.Quota{Node: leaks.ID(), Locks: 2, Waiters: 1, Sessions: 1, ValueBytes: 4})
		whose := "node " + leaks.ID()
		_, err := leaks.Acquire(until(time.Minute), "second", holdfast.WithTTL(time.Minute))
		over(t, err, whose, "sessions")
		_, err = leaks.Acquire(until(time.Minute), "second", holdfast.WithValue([]byte("12345")))
		over(t, err, whose, "bytes of a value")
		over(t, held.Set(until(time.Minute), []byte("12345")), whose, "bytes of a value")
		if err := held.Set(until(time.Minute), []byte("1234")); err != nil {
			t.Errorf("a value that fits: %v", err)
		}
		get(t, leaks, "second")
		_, err = leaks.Acquire(until(time.Minute), "third")
		over(t, err, whose, "locks")
		for _, c := range []*holdfast.Cluster{other, client} {
			for i := range 3 {
				get(t, c, fmt.Sprint(c.ID(), i))
			}
			_, err := c.Acquire(until(time.Minute), "more")
			over(t, err, "node "+c.ID(), "locks")
		}
		all, err := client.Quotas(until(time.Minute))
		if err != nil || len(all) != 2 || all[0].Node != holdfast.EachNode || all[1].Node != leaks.ID() || all[1].UsedLocks != 2 || all[1].UsedSessions != 1 {
			t.Errorf("the quotas are %+v: %v", all, err)
		}
		setQuota(t, other, holdfast.Quota{Node: leaks.ID(), Locks: 1}) // which ends nothing
		if !held.Valid() {
			t.Error("a lower quota ended a lease")
		}
		_, err = leaks.Acquire(until(time.Minute), "third")
		over(t, err, whose, "locks")
		setQuota(t, leaks, holdfast.Quota{Node: leaks.ID()})
		get(t, leaks, "third") // under that of each again
		setQuota(t, other, holdfast.Quota{Node: leaks.ID(), Bytes: 3 << 10})
		if err := held.Set(until(time.Minute), make([]byte, 2000)); err != nil {
			t.Errorf("values that fit: %v", err)
		}
		_, err = leaks.Acquire(until(time.Minute), "fourth", holdfast.WithValue(make([]byte, 1025)))
		over(t, err, whose, "bytes of all values")
		if all, err := client.Quotas(until(time.Minute)); err != nil || len(all) != 2 || all[1].UsedBytes != 2<<10 {
			t.Errorf("the quotas are %+v: %v", all, err)
		}
	})
}

// The locks of a prefix have a quota, whoever takes them, and every watch hears of it.
func TestThePrefixOfOneServiceTakesNoMoreThanItsQuota(t *testing.T) {
	t.Parallel()
	bounded(t, nil, func(s *sim.Sim, client *holdfast.Cluster) {
		a, b := s.Node(0).Cluster(), s.Node(1).Cluster()
		ctx, cancel := context.WithCancel(until(time.Hour))
		defer cancel()
		heard := make(chan holdfast.Event, 1)
		events := b.Watch(ctx, "jobs/")
		go func() {
			for e := range events {
				if e.Kind == holdfast.EventQuota {
					heard <- e
					return
				}
			}
		}()
		setQuota(t, a, holdfast.Quota{Prefix: "jobs/", Locks: 2, Waiters: 1, ValueBytes: 3})
		if e := <-heard; e.Name != "jobs/" || e.Reason != "it leaks" {
			t.Errorf("a watch heard %+v", e)
		}
		get(t, a, "jobs/1")
		get(t, client, "jobs/2")
		const whose = `prefix "jobs/"`
		_, err := b.Acquire(until(time.Minute), "jobs/3")
		over(t, err, whose, "locks")
		if l, err := b.AcquireAll(until(time.Minute), []string{"{jobs}/1", "{jobs}/2"}); err != nil || l == nil {
			t.Errorf("names of another prefix: %v", err)
		}
		waits := make(chan error, 1)
		go func() {
			_, err := b.Acquire(until(20*time.Second), "jobs/1")
			waits <- err
		}()
		settles(t, time.Minute, "waiter", func() bool {
			all, err := b.Quotas(until(time.Minute))
			return err == nil && len(all) == 1 && all[0].UsedWaiters == 1 && all[0].UsedLocks == 2
		})
		_, err = client.Acquire(until(time.Minute), "jobs/2")
		over(t, err, whose, "waiters")
		if err := <-waits; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the one that waited: %v", err)
		}
		if done, err := b.Once(until(time.Minute), "jobs/3", func(context.Context, *holdfast.Lease) error { return nil }); err != nil || !done.Ran {
			t.Errorf("a Once key of that name: %v", err)
		}
	})
}

// A group with nodes of the version before knows no quotas.
func TestAQuotaNeedsLevel2(t *testing.T) {
	t.Parallel()
	mixed(t, 3, map[int]uint64{0: 2, 1: 1, 2: 2}, func(s *sim.Sim) {
		c := s.Node(0).Cluster()
		if err := c.ForceRelease(until(time.Minute), "x", get(t, c, "x").Token(), "it hangs"); err != nil {
			t.Errorf("an order at level 1: %v", err)
		}
		if err := c.SetQuota(until(time.Minute), holdfast.Quota{Prefix: "jobs/", Locks: 1}, "it leaks"); !errors.Is(err, holdfast.ErrLevel) {
			t.Errorf("a quota at level 1: %v", err)
		}
		if all, err := c.Quotas(until(time.Minute)); err != nil || len(all) > 0 {
			t.Errorf("the quotas at level 1: %+v, %v", all, err)
		}
	})
}

func TestAQuotaThatMakesNoSenseIsInvalid(t *testing.T) {
	t.Parallel()
	c := single(t)
	for name, q := range map[string]holdfast.Quota{
		"of nothing":             {Locks: 1},
		"of a node and a prefix": {Node: c.ID(), Prefix: "x", Locks: 1},
		"of no node":             {Node: "nobody", Locks: 1},
		"of sessions by prefix":  {Prefix: "x", Sessions: 1},
		"of too many bytes":      {Prefix: "x", Bytes: 1 << 40},
		"below nothing":          {Prefix: "x", Locks: -1},
		"a long prefix":          {Prefix: strings.Repeat("x", holdfast.NameMax+1), Locks: 1},
	} {
		if err := c.SetQuota(t.Context(), q, "why"); !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := c.SetQuota(t.Context(), holdfast.Quota{Prefix: "x", Locks: 1}, ""); !errors.Is(err, holdfast.ErrInvalid) {
		t.Errorf("without a reason: %v", err)
	}
}
