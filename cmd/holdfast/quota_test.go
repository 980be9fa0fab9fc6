package main

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/simenv"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

func TestAnOperatorBoundsANodeAndAPrefix(t *testing.T) {
	t.Parallel()
	ctx := simenv.With(t.Context(), simenv.Env{LevelPause: time.Millisecond})
	c, err := holdfast.Open(ctx, holdfast.Config{Cluster: "cli", Secrets: []string{secret}, Logger: testkit.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	f := &fleet{nodes: []*holdfast.Cluster{c}, env: []string{"HOLDFAST_JOIN=" + c.Addr(), "HOLDFAST_SECRETS=" + secret, "HOLDFAST_CLUSTER=cli"}}
	testkit.Polled(t, "level 2", func() bool { return c.Status().Level == 2 })
	f.refused(t, 2, "--reason", "quota", "--node", "each", "--locks", "5")
	f.refused(t, 2, "a node, EachNode, or a prefix", "quota", "--locks", "5", "--reason", "a test")
	watch := f.start(t, "watch", "jobs/", "--count", "2")
	if said := <-watch.said; !strings.Contains(said, "watching") {
		t.Fatal(said)
	}
	f.ok(t, "quota", "--prefix", "jobs/", "--locks", "1", "--reason", "a test")
	if line := watch.line(t); !strings.Contains(line, "act ") || !strings.Contains(line, "jobs/ SetQuota by node ") || !strings.Contains(line, "(a test)") {
		t.Errorf("the watch says %q", line)
	}
	f.ok(t, "quota", "--node", "each", "--locks", "5", "--sessions", "2", "--reason", "a test")
	f.hold(t, "jobs/1")
	f.refused(t, 75, `prefix "jobs/"`, "run", "jobs/2", "--", "true")
	table := f.ok(t, "quotas")
	if !strings.Contains(table, "each") || !strings.Contains(table, "1 of 1") {
		t.Errorf("the quotas are\n%s", table)
	}
	if list := f.ok(t, "quotas", "-o", "jsonl"); !strings.Contains(list, `"prefix":"jobs/","locks":1`) || !strings.Contains(list, `"used_locks":1`) {
		t.Errorf("the quotas are\n%s", list)
	}
	f.ok(t, "quota", "--prefix", "jobs/", "--reason", "it is mended")
	f.ok(t, "run", "jobs/2", "--", "true")
}
