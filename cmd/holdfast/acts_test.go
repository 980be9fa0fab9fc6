package main

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

func TestAGrantIsEndedOnlyWithForceAndAReasonAndAfterAQuestion(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	l := f.hold(t, "job")
	f.refused(t, 2, "--force", "release", "job", "--reason", "a test", "--yes")
	f.refused(t, 2, "--reason", "release", "job", "--force", "--yes")
	f.refused(t, 2, "--yes", "release", "job", "--force", "--reason", "a test") // nobody can be asked
	f.refused(t, 1, "holdfast lock", "release", "job", "--force", "--reason", "a test", "--yes", "--token", "1")
	f.refused(t, 1, "holdfast lock", "release", "job", "--force", "--reason", "a test", "--yes", "--token", "0") // a script's empty variable
	f.refused(t, 1, "nobody holds", "release", "free", "--force", "--reason", "a test", "--yes")
	f.refused(t, 2, "accepts 1 arg", "release", "--force")
	if !l.Valid() {
		t.Fatal("the lease is over")
	}
	f.ok(t, "request-release", "job", "--reason", "please")
	<-l.Wanted()
	testkit.Settles(t, patience, "reason", func() bool { return l.WantedReason() == "please" })
	f.ok(t, "release", "job", "--force", "--reason", "a test", "--yes")
	<-l.Done()
	if !errors.Is(l.Err(), holdfast.ErrForced) {
		t.Errorf("the lease is over with %v", l.Err())
	}
}

func TestOfSeveralHoldersTheTokenSaysWhichOne(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	first, second := f.hold(t, "job", holdfast.WithShared()), f.hold(t, "job", holdfast.WithShared())
	f.refused(t, 2, "--token", "release", "job", "--force", "--reason", "a test", "--yes")
	f.ok(t, "release", "job", "--force", "--reason", "a test", "--yes", "--token", first.Token().String())
	<-first.Done()
	if !second.Valid() {
		t.Error("the other one has lost it, too")
	}
}

// The advice was that for a lock: `holdfast why` and request-release know nothing of keys.
func TestAKeyThatRunsIsNotForgottenAndTheCommandThatShowsItIsNamed(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	run, _, err := f.nodes[0].BeginOnce(testkit.Within(t, patience), "k", holdfast.WithLabel("nightly"))
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"forget-once", "k", "--yes"}, {"run", "--once", "k", "--wait", "3s", "--", "true"}} {
		r := f.run(t, args...)
		if r.code != 75 || !strings.Contains(r.err, `the key "k" is run by n0 (nightly) now`) || !strings.Contains(r.err, "`holdfast once KEY`") || strings.Contains(r.err, "lock") {
			t.Errorf("%v: code %d: %s", args, r.code, r.err)
		}
	}
	f.ok(t, "once", "k")
	if err := run.Finish(testkit.Within(t, patience)); err != nil {
		t.Fatal(err)
	}
	f.ok(t, "forget-once", "k", "--yes")
}

func TestAnOperatorChangesKeysSemaphoresAndNodes(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	c, ctx := f.nodes[0], testkit.Within(t, patience)
	if _, err := c.Once(ctx, "k", func(context.Context, *holdfast.Lease) error { return nil }); err != nil {
		t.Fatal(err)
	}
	f.refused(t, 2, "--yes", "forget-once", "k")
	f.ok(t, "forget-once", "k", "--yes")
	if r, err := c.InspectOnce(ctx, "k"); err != nil || r.Finished {
		t.Errorf("the key is %+v, %v", r, err)
	}
	permit := f.hold(t, "permits", holdfast.WithLimit(1))
	f.refused(t, 2, "no number", "resize", "permits", "two")
	f.refused(t, 2, "1 to", "resize", "permits", "0")
	f.ok(t, "resize", "permits", "2")
	f.ok(t, "run", "--nonblock", "--permits", "2", "permits", "--", "true")
	f.refused(t, 2, "--reason", "revoke-node", c.ID(), "--yes")
	f.refused(t, 2, "not the id", "revoke-node", "nobody", "--reason", "a test", "--yes")
	f.ok(t, "revoke-node", c.ID(), "--reason", "a test", "--yes")
	<-permit.Done()
}
