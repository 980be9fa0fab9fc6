package testkit

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// Eventually waits until ok, which is asked again after every change of a lock that node c applies.
func Eventually(t testing.TB, c *holdfast.Cluster, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	changes := c.Watch(ctx, "") // from here on
	if ok() {
		return
	}
	for _, err := range changes {
		if err == nil && ok() {
			return
		}
	}
	t.Fatalf("no %s within 30 s", what)
}

// Polled waits until ok, for what no event tells of: gossip and the membership, Once keys, the
// inside of a node.
func Polled(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(30 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("no %s within 30 s", what)
		}
	}
}
