package contract_test

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/simenv"
	"github.com/holdfast-go/holdfast/sim"
	"github.com/holdfast-go/holdfast/transport"
)

// A seed that was configured without Join, as nobody was there to join, came back without its
// memory and founded a second group within milliseconds, beside the fleet that it had founded
// first.
func TestANodeThatOthersCanReachFoundsAGroupAloneOnlyWhereThatWasSaid(t *testing.T) {
	t.Parallel()
	const template = `{{ GetAllInterfaces | include "flags" "loopback" | include "type" "IPv4" | limit 1 | attr "address" }}`
	secrets := []string{"a secret of this fleet"}
	cases := map[string]struct {
		cfg     holdfast.Config
		refused bool
	}{
		"an address of the machine":        {holdfast.Config{Bind: "10.0.0.1:7643", Secrets: secrets}, true},
		"every address":                    {holdfast.Config{Bind: ":7643", Secrets: secrets}, true},
		"a name":                           {holdfast.Config{Bind: "node1:7643", Secrets: secrets}, true},
		"a template of a private address":  {holdfast.Config{Bind: `{{ "10.0.0.1" }}:7643`, Secrets: secrets}, true},
		"loopback, advertised elsewhere":   {holdfast.Config{Advertise: "10.0.0.1:7643"}, true},
		"loopback, advertised as a name":   {holdfast.Config{Advertise: "node1:7643"}, true},
		"loopback":                         {holdfast.Config{}, false},
		"loopback by a template":           {holdfast.Config{Bind: template + ":0"}, false},
		"loopback, advertised as loopback": {holdfast.Config{Advertise: "127.0.0.1:0"}, false},
		"alone, as was said":               {holdfast.Config{Bind: "10.0.0.1:7643", Secrets: secrets, Bootstrap: 1}, false},
		"a seed that waits for others":     {holdfast.Config{Bind: "10.0.0.1:7643", Secrets: secrets, Bootstrap: 3}, false},
		"a node that only joins":           {holdfast.Config{Bind: "10.0.0.1:7643", Secrets: secrets, Bootstrap: -1}, false},
		"a fleet":                          {holdfast.Config{Bind: "10.0.0.1:7643", Secrets: secrets, Join: []string{"10.0.0.2:7643"}}, false},
	}
	for name, tc := range cases {
		tc.cfg.Logger = quiet()
		c, err := holdfast.Open(simenv.With(t.Context(), simenv.Env{Network: transport.NewMemory(1)}), tc.cfg)
		if err == nil {
			c.Close()
		}
		if !tc.refused {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		wantField(t, err, "Config.Bootstrap")
		for _, remedy := range []string{"Bootstrap: 1", "Join"} {
			if err != nil && !strings.Contains(err.Error(), remedy) {
				t.Errorf("%s: the error does not name the remedy %q: %v", name, remedy, err)
			}
		}
	}
}

// seeded configures node 0 as the seed that the others join, and that joins nobody.
func seeded(seed, others int) func(int, *holdfast.Config) {
	return func(i int, cfg *holdfast.Config) {
		if i == 0 {
			cfg.Join, cfg.Bootstrap = nil, seed
		} else {
			cfg.Join, cfg.Bootstrap = cfg.Join[:1], others
		}
	}
}

func TestASeedThatJoinsNobodyFormsTheGroupWithThoseThatJoinItAndJoinsThemWhenItForgot(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 4, Late: true, Config: seeded(3, 3)}, func(s *sim.Sim) {
		seed := s.Node(0)
		if seed.Open().Ready(until(time.Minute)) == nil {
			t.Error("a seed that waits for three is ready alone")
		}
		for _, n := range s.Nodes()[1:] {
			n.Open()
		}
		for _, n := range s.Nodes() {
			n.Ready()
		}
		first := get(t, s.Node(1).Cluster(), "lock")
		seed.Kill()
		seed.Wipe()
		seed.Open()
		seed.Ready()
		if own, fleet := seed.Cluster().Status().ClusterID, s.Node(1).Cluster().Status().ClusterID; own != fleet {
			t.Errorf("the seed that forgot is in group %s, the fleet in %s", own, fleet)
		}
		if l, err := seed.Cluster().TryAcquire(until(time.Minute), "lock"); err == nil {
			t.Errorf("the lock is held twice, with tokens %d and %d", first.Token(), l.Token())
		}
	})
}
