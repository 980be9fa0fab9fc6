package contract_test

import (
	"context"
	"crypto/tls"
	"errors"
	"iter"
	"log/slog"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/sim"
)

// The tests of this package call what they share with the tiers by short names.

const (
	lateMax    = testkit.LateMax
	closeBound = testkit.CloseBound
)

type tally = testkit.Tally

func longTTL(i int, cfg *holdfast.Config)                         { testkit.LongTTL(i, cfg) }
func quiet() *slog.Logger                                         { return testkit.Quiet() }
func until(d time.Duration) context.Context                       { return testkit.Until(d) }
func authority(t testing.TB) *tls.Config                          { return testkit.Authority(t) }
func others(s *sim.Sim, but ...*sim.Node) []*sim.Node             { return testkit.Others(s, but...) }
func follower(s *sim.Sim, role holdfast.Role) *sim.Node           { return testkit.Follower(s, role) }
func stateOf(c *holdfast.Cluster, id string) holdfast.MemberState { return testkit.StateOf(c, id) }

// single is a node alone, or another for which the same holds (elsewhere_test.go).
func single(t testing.TB, change ...func(*holdfast.Config)) *holdfast.Cluster {
	t.Helper()
	if c := elsewhere(t, fsm.Limits{}, change...); c != nil {
		return c
	}
	return testkit.Single(t, change...)
}

// virtual is single under virtual time.
func virtual(t *testing.T, f func(c *holdfast.Cluster)) {
	t.Helper()
	if virtualElsewhere(t, f) {
		return
	}
	sim.Run(t, sim.Options{}, func(s *sim.Sim) { f(s.Node(0).Cluster()) })
}

func fleet(t testing.TB, n int, change ...func(i int, cfg *holdfast.Config)) []*holdfast.Cluster {
	t.Helper()
	return testkit.Fleet(t, n, change...)
}

func allReady(t testing.TB, list []*holdfast.Cluster) {
	t.Helper()
	testkit.AllReady(t, list)
}

func serves(t testing.TB, ctx context.Context, c *holdfast.Cluster) {
	t.Helper()
	testkit.Serves(t, ctx, c)
}

func closed(t testing.TB, c *holdfast.Cluster) {
	t.Helper()
	testkit.Closed(t, c)
}

func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	return testkit.Within(t, d)
}

// deadlined makes a call that waits for a lock end by its deadline. A deadline that left the group no
// time to answer, which the call says with ErrNoQuorum, is doubled.
func deadlined(t testing.TB, call func(ctx context.Context) error) error {
	t.Helper()
	for patience := 50 * time.Millisecond; ; patience *= 2 {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		err := call(ctx)
		cancel()
		if !errors.Is(err, holdfast.ErrNoQuorum) || patience > closeBound {
			return err
		}
	}
}

func get(t testing.TB, c *holdfast.Cluster, name string, opts ...holdfast.Option) *holdfast.Lease {
	t.Helper()
	return testkit.Get(t, c, name, opts...)
}

func acquire(t testing.TB, c *holdfast.Cluster, name string, opts ...holdfast.Option) *holdfast.Lease {
	t.Helper()
	return testkit.Acquire(t, c, name, opts...)
}

func release(t testing.TB, l *holdfast.Lease) {
	t.Helper()
	testkit.Release(t, l)
}

func settles(t testing.TB, limit time.Duration, what string, ok func() bool) time.Duration {
	t.Helper()
	return testkit.Settles(t, limit, what, ok)
}

func eventually(t testing.TB, c *holdfast.Cluster, what string, ok func() bool) {
	t.Helper()
	testkit.Eventually(t, c, what, ok)
}

func polled(t testing.TB, what string, ok func() bool) {
	t.Helper()
	testkit.Polled(t, what, ok)
}

// whole reads a list to its end. A replica that is killed takes the state along that it was read from: the
// list ends with ErrNoQuorum, and is read anew.
func whole[T any](t testing.TB, list func() iter.Seq2[T, error]) []T {
	t.Helper()
	for {
		var all []T
		var failed error
		for item, err := range list() {
			if failed = err; err != nil {
				break
			}
			all = append(all, item)
		}
		if failed == nil {
			return all
		}
		if under(t) != onMortal || !errors.Is(failed, holdfast.ErrNoQuorum) {
			t.Fatal(failed)
		}
	}
}
