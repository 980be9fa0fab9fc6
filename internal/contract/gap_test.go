package contract_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fsm"
)

// A node that misses events, because its replica has caught up by a snapshot or because it has none,
// learns from the state what has become of its leases and waiting calls. Else a call would wait
// forever for a lock that it was granted, and a holder would act on one that was taken from it.
func TestNothingIsLostWithTheEventsThatANodeMisses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, group := onGroup(t, fsm.Limits{})
		ctx := until(time.Hour)
		do := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		held, forced, kept := get(t, c, "lock"), get(t, c, "forced"), get(t, c, "kept", holdfast.WithTTL(2*time.Second))
		granted, behind := waiting(ctx, c, "lock"), waiting(ctx, c, "kept")
		synctest.Wait()
		campaign, err := c.Campaign(ctx, "seat")
		do(err)
		synctest.Wait()
		leaders, stopLeaders := iter.Pull2(c.Observe(ctx, "seat"))
		defer stopLeaders()
		first, err, _ := leaders()
		do(err)
		changes, stopChanges := iter.Pull2(c.Watch(ctx, ""))
		defer stopChanges()

		group.Miss(func() {
			do(held.Release(ctx))
			do(c.ForceRelease(ctx, "forced", forced.Token(), "stuck"))
			do(c.ForceRelease(ctx, "seat", campaign.Lease().Token(), "another term"))
			do(kept.Set(ctx, []byte("new")))
			do(get(t, c, "unseen").Release(ctx))
			synctest.Wait()
			if len(granted) > 0 || forced.Err() != nil {
				t.Error("the node has missed nothing")
			}
		})
		synctest.Wait()
		next := <-granted
		if next == nil || next.Token() <= held.Token() || !next.Valid() {
			t.Fatalf("the waiting call was granted %v after %v", next, held)
		}
		if !errors.Is(forced.Err(), holdfast.ErrForced) {
			t.Errorf("the holder of a lock that was taken was told %v", forced.Err())
		}
		if text := string(kept.Value()); !kept.Valid() || text != "new" || len(behind) > 0 {
			t.Errorf("a lease of which nothing was missed: %v, value %q, next holder: %d", kept, text, len(behind))
		}
		if e, err, _ := changes(); err != nil || e.Kind != holdfast.EventResync {
			t.Errorf("a watch goes on with %+v, %v", e, err)
		}
		time.Sleep(time.Minute) // renewals, and the next term
		for second := (holdfast.Leader{}); second.Token <= first.Token; {
			if second, err, _ = leaders(); err != nil {
				t.Fatal(err)
			}
		}
		if !kept.Valid() || !next.Valid() || campaign.Lease().Token() <= first.Token {
			t.Error("a lease or a candidate did not outlive the gap")
		}
		do(next.Release(ctx))
		do(kept.Release(ctx))
		if l := <-behind; l == nil || string(l.Value()) != "new" {
			t.Errorf("the next call was granted %v", l)
		}
		for e, err, ok := changes(); e.Kind != holdfast.EventGranted || e.Name != "kept"; e, err, ok = changes() {
			if err != nil || !ok {
				t.Fatal("the watch ended", err)
			}
		}
	})
}

// A node that gets another replica learns of a gap before it can ask the state that came with it.
// Observe took the failure for the sign of another gap, which did not come: a former leader was
// observed for as long as the node lived (seen in a run of real processes).
func TestAnObserverWithNothingToAskInAGapLearnsOfTheLeaderThereafter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, group := onGroup(t, fsm.Limits{})
		ctx := until(time.Hour)
		former, latest := get(t, c, "seat"), (*holdfast.Lease)(nil)
		seen := make(chan holdfast.Leader, 10)
		go func() {
			defer close(seen)
			for l, err := range c.Observe(ctx, "seat") {
				if err == nil {
					seen <- l
				}
			}
		}()
		if first := <-seen; first.Token != former.Token() {
			t.Fatalf("observed %+v", first)
		}
		back := group.Absent()
		group.Miss(func() {
			if err := former.Release(ctx); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait() // the observer has asked
		latest = get(t, c, "seat")
		synctest.Wait()
		back()
		synctest.Wait()
		var last holdfast.Leader
		for len(seen) > 0 {
			last = <-seen
		}
		if last.Token != latest.Token() {
			t.Errorf("observed %+v, while the leader has token %d", last, latest.Token())
		}
	})
}

// A holder that counts in the value of its lock would begin anew where it took "not known now" for "there
// is none": a client whose replica was replaced did.
func TestAHolderBetweenTwoReplicasWaitsForTheValue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, group := onGroup(t, fsm.Limits{})
		l := get(t, c, "count", holdfast.WithValue([]byte("41")))
		read := make(chan string, 2)
		back := group.Absent()
		go func() { read <- string(l.Value()) }()
		synctest.Wait()
		back()
		if v := <-read; v != "41" {
			t.Errorf("the value is %q", v)
		}
		back = group.Absent()
		defer back()
		go func() { read <- string(l.Value()) }()
		synctest.Wait()
		release(t, l)
		if v := <-read; v != "" {
			t.Errorf("a lease that is over has the value %q", v)
		}
	})
}

// waiting is the lease of a call that waits for a lock, nil if it fails.
func waiting(ctx context.Context, c *holdfast.Cluster, name string) <-chan *holdfast.Lease {
	granted := make(chan *holdfast.Lease, 1)
	go func() {
		l, _ := c.Acquire(ctx, name)
		granted <- l
	}()
	return granted
}
