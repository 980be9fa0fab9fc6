package contract_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/sim"
)

// Nodes of one group may have different bounds while a longer one is rolled out: each process asks
// for no more than its own, and the group accepts the highest.
func TestATTLAboveMaxTTLIsRefusedAndAGroupAcceptsTheHighestMaxTTL(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 3, Config: func(i int, cfg *holdfast.Config) {
		if i == 2 {
			cfg.MaxTTL = time.Hour
		}
	}}, func(s *sim.Sim) {
		c, longer := s.Node(0).Cluster(), s.Node(2).Cluster()
		_, err := c.Acquire(until(time.Second), "lock", holdfast.WithTTL(5*time.Minute+1))
		if !errors.Is(err, holdfast.ErrInvalid) || !strings.Contains(err.Error(), "WithTTL") || !strings.Contains(err.Error(), "Config.MaxTTL") {
			t.Errorf("above the default: %v", err)
		}
		l := get(t, longer, "lock", holdfast.WithTTL(time.Hour), holdfast.WithManualRenew())
		if left := l.Remaining(); left < 50*time.Minute {
			t.Errorf("%v remain of an hour", left)
		}
		if err := l.RenewFor(until(time.Second), time.Hour+1); !errors.Is(err, holdfast.ErrInvalid) || !strings.Contains(err.Error(), "Config.MaxTTL") {
			t.Errorf("RenewFor above MaxTTL: %v", err)
		}
	})
}

// An operator's tool is a client with a MaxTTL of its own. It could do nothing to a group with a shorter one,
// but ask.
func TestAClientWithALongerMaxTTLOperatesTheFleetAndTakesNoLock(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 4, Config: func(i int, cfg *holdfast.Config) {
		cfg.ClientOnly = i == 3
		if !cfg.ClientOnly {
			cfg.TTL, cfg.MaxTTL = 5*time.Second, 5*time.Second
		}
	}}, func(s *sim.Sim) {
		held := get(t, s.Node(0).Cluster(), "lock") // and so the group has the bound
		s.Node(3).Close()
		c := s.Node(3).Open()
		_, acquired := c.Acquire(until(time.Minute), "other")
		_, once := c.Once(until(time.Minute), "key", func(context.Context, *holdfast.Lease) error { return nil })
		for _, err := range []error{acquired, once} {
			if !errors.Is(err, holdfast.ErrInvalid) || !strings.Contains(err.Error(), "the longest of the group is 5s") {
				t.Errorf("a call that takes a lock: %v", err)
			}
		}
		_, quotas := c.Quotas(until(time.Minute))
		for what, err := range map[string]error{
			"Quotas":             quotas,
			"RequestRelease":     c.RequestRelease(until(time.Minute), "lock", held.Token(), "why"),
			"ForceRelease":       c.ForceRelease(until(time.Minute), "lock", held.Token(), "why"),
			"RevokeNode":         c.RevokeNode(until(time.Minute), s.Node(0).Cluster().ID(), "why"),
			"TransferRaftLeader": c.TransferRaftLeader(until(time.Minute), follower(s, holdfast.RoleVoter).Cluster().ID(), "why"),
		} {
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}
