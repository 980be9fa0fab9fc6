package contract_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testlog"
	"github.com/holdfast-go/holdfast/sim"
)

func TestANodeWithoutAGroupSaysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	var log testlog.Lines
	joins := func(i int, cfg *holdfast.Config) {
		if i == 2 {
			cfg.Bootstrap, cfg.Join = -1, []string{"127.0.9.9:7643", "127.0.9.8:7643"}
		}
	}
	sim.Run(t, sim.Options{Nodes: 3, Late: true, Logger: log.Logger(slog.LevelWarn), Config: joins}, func(s *sim.Sim) {
		s.Partition([]int{0, 1}, []int{2})
		for _, n := range s.Nodes() {
			n.Open()
		}
		for i, want := range map[int][]string{
			0: {"2 of the 3 nodes that Bootstrap waits for have met"},
			2: {"no group to join is in sight", "127.0.9.9:7643", "127.0.9.8:7643"},
		} {
			c := s.Node(i).Cluster()
			_, acquire := c.Acquire(until(time.Minute), "lock")
			for what, err := range map[string]error{"Ready": c.Ready(until(time.Minute)), "Acquire": acquire} {
				if !errors.Is(err, holdfast.ErrNoQuorum) || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("node %d: %s: %v", i, what, err)
					continue
				}
				for _, text := range want {
					if !strings.Contains(err.Error(), text) {
						t.Errorf("node %d: %s does not say %q: %v", i, what, text, err)
					}
				}
			}
		}
		time.Sleep(4 * time.Minute) // virtual
		if told := log.Count("belongs to no group yet"); told < 60 || told > 150 {
			t.Errorf("three nodes say %d times in some eight minutes that they wait", told)
		}
	})
}

func TestANodeThatFindsNobodySaysWhatEachAddressAnswered(t *testing.T) {
	t.Parallel()
	sealed := single(t, func(cfg *holdfast.Config) { cfg.Secrets = []string{"a secret of this fleet"} })
	plain := single(t)
	for want, cfg := range map[string]holdfast.Config{
		"peer does not know the cluster's secret": {Secrets: []string{"a secret of another"}, Join: []string{sealed.Addr()}},
		"its secrets may differ":                  {Join: []string{sealed.Addr()}},
		"its cluster name or":                     {Cluster: "other", Join: []string{plain.Addr()}},
		"connection refused":                      {Join: []string{"127.0.0.1:1"}},
		"no such file":                            {Join: []string{"file+" + t.TempDir() + "/peers"}},
	} {
		cfg.Logger = quiet()
		c, err := holdfast.Open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		polled(t, want, func() bool {
			err := c.Ready(within(t, 100*time.Millisecond))
			return errors.Is(err, holdfast.ErrNoQuorum) && strings.Contains(err.Error(), want) && !strings.Contains(err.Error(), "\n")
		})
		c.Close()
	}
}

// A node with Bootstrap 1 and a wrong secret was refused by the node that its Join names, and founded a group of
// its own beside that one's.
func TestANodeThatIsRefusedByItsJoinFoundsNoGroup(t *testing.T) {
	t.Parallel()
	sealed := single(t, func(cfg *holdfast.Config) { cfg.Secrets = []string{"a secret of this fleet"} })
	cfg := holdfast.Config{Bootstrap: 1, Secrets: []string{"a secret of another"}, Join: []string{sealed.Addr()}, Logger: quiet()}
	c, err := holdfast.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Ready(within(t, time.Second)); !errors.Is(err, holdfast.ErrNoQuorum) || c.Status().ClusterID != "" {
		t.Fatalf("it is ready in group %q: %v", c.Status().ClusterID, err)
	}
	closed(t, sealed)
	if err := c.Ready(within(t, time.Minute)); err != nil {
		t.Errorf("nothing answers any more: %v", err)
	}
}
