package contract_test

import (
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
