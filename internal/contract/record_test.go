package contract_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testlog"
	"github.com/holdfast-go/holdfast/sim"
)

// record is what a watch heard of operators.
type record struct {
	mu   sync.Mutex
	acts []string
}

// listen notes each order that a watch at a node hears of, until ctx ends.
func listen(ctx context.Context, c *holdfast.Cluster, prefix string) *record {
	r := &record{}
	events := c.Watch(ctx, prefix)
	go func() {
		for e := range events {
			if e.Kind != holdfast.EventAct {
				continue
			}
			r.mu.Lock()
			r.acts = append(r.acts, fmt.Sprintf("%s by %s of %q %s token %v limit %d: %s", e.Act, e.By, e.Name, e.Holder.NodeID, e.Holder.Token > 0, e.Limit, e.Reason))
			r.mu.Unlock()
		}
	}()
	return r
}

func (r *record) heard() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.acts)
}

// orders gives each order that there is once, and returns those that there were as a watch hears them.
func orders(t *testing.T, by, target *holdfast.Cluster) (all []string) {
	t.Helper()
	order := func(act, name, node string, token bool, limit int, do func(ctx context.Context, reason string) error) {
		t.Helper()
		reason := "it is " + act
		if err := do(holdfast.ContextWithReason(until(time.Minute), reason), reason); err != nil && !errors.Is(err, holdfast.ErrNotRemoved) {
			t.Errorf("%s: %v", act, err)
		}
		all = append(all, fmt.Sprintf("%s by %s of %q %s token %v limit %d: %s", act, by.ID(), name, node, token, limit, reason))
	}
	held := get(t, target, "jobs/held")
	order("RequestRelease", "jobs/held", "", true, 0, func(ctx context.Context, reason string) error {
		return by.RequestRelease(ctx, "jobs/held", held.Token(), reason)
	})
	order("ForceRelease", "jobs/held", "", true, 0, func(ctx context.Context, reason string) error {
		return by.ForceRelease(ctx, "jobs/held", held.Token(), reason)
	})
	order("RevokeNode", "", target.ID(), false, 0, func(ctx context.Context, reason string) error {
		return by.RevokeNode(ctx, target.ID(), reason)
	})
	order("SetQuota", "jobs/", "", false, 0, func(ctx context.Context, reason string) error {
		return by.SetQuota(ctx, holdfast.Quota{Prefix: "jobs/", Locks: 9}, reason)
	})
	order("RemoveNode", "", target.ID(), false, 0, func(ctx context.Context, reason string) error {
		return by.RemoveNode(ctx, target.ID(), reason) // which is refused: Raft hears the node
	})
	get(t, by, "jobs/permits", holdfast.WithLimit(2))
	order("ResizeLimit", "jobs/permits", "", false, 3, func(ctx context.Context, _ string) error {
		return by.ResizeLimit(ctx, "jobs/permits", 3)
	})
	if _, err := by.Once(until(time.Minute), "jobs/key", func(context.Context, *holdfast.Lease) error { return nil }); err != nil {
		t.Fatal(err)
	}
	order("ForgetOnce", "jobs/key", "", true, 0, func(ctx context.Context, _ string) error { return by.ForgetOnce(ctx, "jobs/key") })
	order("TransferRaftLeader", "", target.ID(), false, 0, func(ctx context.Context, reason string) error {
		return by.TransferRaftLeader(ctx, target.ID(), reason)
	})
	return all
}

// Every order of an operator is on record, in the order in which they were given, with the node at which it
// was given, a client too, what it is about, and why. Every node hears of it.
func TestEveryOrderOfAnOperatorIsOnRecord(t *testing.T) {
	t.Parallel()
	log := &testlog.Lines{}
	bounded(t, log.Logger(slog.LevelWarn), func(s *sim.Sim, client *holdfast.Cluster) {
		ctx, cancel := context.WithCancel(until(time.Hour))
		defer cancel()
		replica, target := s.Node(0).Cluster(), s.Node(1).Cluster()
		at := []*record{listen(ctx, replica, ""), listen(ctx, target, ""), listen(ctx, client, "")}
		jobs := []*record{listen(ctx, replica, "jobs/"), listen(ctx, client, "jobs/")}
		want := append(orders(t, replica, target), orders(t, client, target)...)
		compare := func(records []*record, want []string) {
			t.Helper()
			for i, r := range records {
				settles(t, time.Minute, "news", func() bool { return len(r.heard()) >= len(want) })
				if heard := r.heard(); !slices.Equal(heard, want) {
					t.Errorf("watch %d heard\n%s\nwant\n%s", i, strings.Join(heard, "\n"), strings.Join(want, "\n"))
				}
			}
		}
		compare(at, want)
		compare(jobs, slices.DeleteFunc(slices.Clone(want), func(line string) bool {
			return !strings.Contains(line, `of "jobs/`) || strings.HasPrefix(line, "ForgetOnce") // a key is no lock
		}))
		for i, line := range want {
			name, by, _ := strings.Cut(strings.Split(line, " of ")[0], " by ")
			said := 1 + i/(len(want)/2) // the client's also by its replica
			if n := log.Count(fmt.Sprintf(`act.order=%s act.by=%s act.reason="it is %s`, name, by, name)); n != said {
				t.Errorf("%d lines of %s by %s, want %d", n, name, by, said)
			}
		}
		if n := log.Count(`quota="prefix \"jobs/\": locks 9, waiters 0`); n != 2 {
			t.Errorf("%d lines have the bounds of a quota, want 2", n)
		}
		long := holdfast.ContextWithReason(until(time.Minute), strings.Repeat("x", 1025))
		if err := replica.ResizeLimit(long, "jobs/permits", 4); !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("a long reason: %v", err)
		}
	})
}
