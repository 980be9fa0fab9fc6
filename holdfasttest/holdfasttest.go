// Package holdfasttest opens a fleet for the tests of a service: real nodes in one process, on the
// loopback interface and in real time. It shows that the service works with more than one node.
// What faults and time do to it package sim shows sooner, under virtual time.
package holdfasttest

import (
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// readyMax is how long the fleet may take to serve: a second on an idle machine.
const readyMax = time.Minute

// Option changes a fleet. Make one with Configure.
type Option interface {
	apply(node int, cfg *holdfast.Config)
}

type optionFunc func(node int, cfg *holdfast.Config)

func (f optionFunc) apply(node int, cfg *holdfast.Config) { f(node, cfg) }

// Configure lets change alter the configuration of each node before it is opened; nodes count from
// 0. Cluster, Bind, Join and Bootstrap are the fleet's own to choose. A node may be ClientOnly, but for node 0,
// which the others join.
func Configure(change func(node int, cfg *holdfast.Config)) Option { return optionFunc(change) }

// Fleet opens n nodes, 1 or more, waits until all are ready, and closes them when the test and its
// subtests are over. The nodes keep everything in memory, and their warnings are part of the test's
// output. The test fails at once if a node cannot be opened, or is not ready after a minute. Fleets
// of tests that run at a time have nothing to do with each other.
func Fleet(t testing.TB, n int, opts ...Option) []*holdfast.Cluster {
	t.Helper()
	configs := configure(t, max(n, 1), opts)
	var list []*holdfast.Cluster
	t.Cleanup(func() { closeAll(list) })
	for i, cfg := range configs {
		if i > 0 {
			cfg.Join = []string{list[0].Addr()}
		}
		c, err := holdfast.Open(t.Context(), cfg)
		if err != nil {
			t.Fatalf("holdfasttest: node %d of %d: %v", i, n, err)
		}
		list = append(list, c)
	}
	ctx, cancel := context.WithTimeout(t.Context(), readyMax)
	defer cancel()
	for i, c := range list {
		if err := c.Ready(ctx); err != nil {
			t.Fatalf("holdfasttest: node %d of %d is not ready: %v", i, n, err)
		}
	}
	return list
}

// configure makes the configurations of n nodes, but for the Join of all but the first.
func configure(t testing.TB, n int, opts []Option) []holdfast.Config {
	t.Helper()
	name := fnv.New64a() // the test's own may be too long for a cluster
	_, _ = name.Write([]byte(t.Name()))
	cluster := fmt.Sprintf("holdfasttest %d %x", os.Getpid(), name.Sum64())
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	configs := make([]holdfast.Config, n)
	found := 0 // how many nodes can form the group
	for i := range configs {
		cfg := &configs[i]
		cfg.Logger = log
		for _, o := range opts {
			o.apply(i, cfg)
		}
		cfg.Cluster, cfg.Bind, cfg.Join = cluster, "127.0.0.1:0", nil
		if !cfg.ClientOnly {
			found++
		}
	}
	if configs[0].ClientOnly {
		t.Fatalf("holdfasttest: node 0 of %d is ClientOnly: the others join it, so it must be able to hold a replica", n)
	}
	for i := range configs {
		configs[i].Bootstrap = min(found, 3)
	}
	return configs
}

// closeAll closes nodes at a time: one after the other they would look for a majority.
func closeAll(list []*holdfast.Cluster) {
	var all sync.WaitGroup
	for _, c := range list {
		all.Go(func() { _ = c.Close() })
	}
	all.Wait()
}
