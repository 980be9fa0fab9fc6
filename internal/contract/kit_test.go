package contract_test

import (
	"context"
	"errors"
	"iter"
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

var (
	longTTL   = testkit.LongTTL
	quiet     = testkit.Quiet
	until     = testkit.Until
	within    = testkit.Within
	authority = testkit.Authority
	others    = testkit.Others
	follower  = testkit.Follower
	stateOf   = testkit.StateOf

	fleet    = testkit.Fleet
	allReady = testkit.AllReady
	serves   = testkit.Serves
	closed   = testkit.Closed

	get        = testkit.Get
	acquire    = testkit.Acquire
	release    = testkit.Release
	settles    = testkit.Settles
	eventually = testkit.Eventually
	polled     = testkit.Polled
)

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
