package contract_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// An operator asks which keys are finished, and which process has what, without knowing a name.
func TestListsHaveEveryOnceKeyAndEverySession(t *testing.T) {
	t.Parallel()
	c := single(t)
	ctx := within(t, 10*time.Minute) // for 3,000 commits in a row beside other tests
	const keys = 1500                // more than a page
	for i := range keys {
		if _, err := c.Once(ctx, fmt.Sprintf("jobs/%04d", i), func(context.Context, *holdfast.Lease) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	run, _, err := c.BeginOnce(ctx, "jobs/0007b")
	if err != nil {
		t.Fatal(err)
	}
	list := whole(t, func() iter.Seq2[holdfast.OnceKey, error] { return c.OnceKeys(ctx, "jobs/") })
	if len(list) != keys+1 || list[7].Key != "jobs/0007" || !list[7].Finished || list[8].Key != "jobs/0007b" || list[8].Finished ||
		list[8].Token != run.Lease().Token() || list[keys].Key != fmt.Sprintf("jobs/%04d", keys-1) || list[8].By.NodeID != c.ID() {
		t.Errorf("%d keys, with %+v", len(list), list[min(7, len(list)):min(9, len(list))])
	}
	if others := whole(t, func() iter.Seq2[holdfast.OnceKey, error] { return c.OnceKeys(ctx, "other/") }); len(others) > 0 {
		t.Errorf("keys of another prefix: %+v", others)
	}

	get(t, c, "a")
	get(t, c, "b")
	get(t, c, "brief", holdfast.WithTTL(3*time.Second))
	waiting, stop := context.WithCancel(t.Context())
	defer stop()
	go func() { _, _ = c.Acquire(waiting, "a") }()
	polled(t, "the call to wait", func() bool { // in the queue: Status.Waiting counts it before that
		info, err := c.Inspect(ctx, "a")
		return err == nil && len(info.Waiters) == 1
	})
	byTTL := make(map[time.Duration]holdfast.Session)
	for _, s := range whole(t, func() iter.Seq2[holdfast.Session, error] { return c.Sessions(ctx) }) {
		if s.NodeID != c.ID() {
			t.Fatalf("%+v", s)
		}
		byTTL[s.TTL] = s
	}
	if own := byTTL[15*time.Second]; own.Held != 3 || own.Waiting != 1 { // the run, a and b
		t.Errorf("the session of the default TTL is %+v", own)
	}
	if brief := byTTL[3*time.Second]; brief.Held != 1 || brief.Waiting != 0 || len(byTTL) != 2 {
		t.Errorf("the sessions are %+v", byTTL)
	}

	ended, end := context.WithCancel(t.Context())
	end()
	for _, err := range c.Sessions(ended) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("with a context that has ended: %v", err)
		}
	}
	for _, err := range c.OnceKeys(ctx, "\x00") {
		if !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("a prefix that no key has: %v", err)
		}
	}
}
