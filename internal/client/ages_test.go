package client_test

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/client/clienttest"
)

// held is for how long a client says that a lock is held.
func held(t *testing.T, c *holdfast.Cluster, name string) time.Duration {
	t.Helper()
	info, err := c.Inspect(t.Context(), name)
	if err != nil || len(info.Holders) != 1 {
		t.Fatalf("%+v: %v", info, err)
	}
	return info.Held
}

func about(t *testing.T, what string, got, want time.Duration) {
	t.Helper()
	if got > want || got < want-time.Second {
		t.Errorf("%s: held for %v, not for %v", what, got, want)
	}
}

// The command holdfast is always a client that has just come: it said "?" of every lock.
func TestAClientKnowsForHowLongALockWasHeldBeforeItCame(t *testing.T) {
	t.Parallel()
	world(t, func(t *testing.T, r *clienttest.Replica, a, b *holdfast.Cluster) {
		acquire := func(name string) {
			t.Helper()
			if _, err := a.Acquire(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
		acquire("x")
		began := time.Now()
		time.Sleep(10 * time.Minute)
		acquire("y")
		yBegan := time.Now()
		time.Sleep(time.Minute)
		check := func(what string, c *holdfast.Cluster) {
			t.Helper()
			about(t, what, held(t, c, "x"), time.Since(began))
			about(t, what, held(t, c, "y"), time.Since(yBegan))
		}
		late := open(t, r, "late")
		defer late.Close()
		time.Sleep(time.Second) // the news go beside the answers
		check("a client that has just come", late)

		// At the next replica there is a gap, of what was applied meanwhile.
		r.Stop()
		time.Sleep(100 * time.Millisecond)
		if err := r.Start("10.0.0.2:1"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		acquire("z")
		check("at another replica", late)

		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		late.Watch(ctx, "") // where something is watched the gap comes with the first pong
		r.Stop()
		time.Sleep(100 * time.Millisecond)
		if err := r.Start("10.0.0.1:1"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		check("of a client that watches", late)
	})
}

// A replica of before says nothing of ages, and one that has just started knows none.
func TestAClientOfAReplicaThatTellsNoAgesDoesNotKnowThem(t *testing.T) {
	t.Parallel()
	world(t, func(t *testing.T, r *clienttest.Replica, a, b *holdfast.Cluster) {
		if _, err := a.Acquire(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		r.Times.Forget()
		late := open(t, r, "late")
		defer late.Close()
		time.Sleep(time.Second)
		if d := held(t, late, "x"); d != 0 {
			t.Errorf("held for %v", d)
		}
		about(t, "a client that saw it", held(t, a, "x"), time.Minute+time.Second)
	})
}
