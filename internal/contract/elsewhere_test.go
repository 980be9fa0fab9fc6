package contract_test

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/client/clienttest"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/seam"
	"github.com/holdfast-go/holdfast/internal/seam/seamtest"
	"github.com/holdfast-go/holdfast/internal/simenv"
	"github.com/holdfast-go/holdfast/sim"
	"github.com/holdfast-go/holdfast/transport"
)

// The nodes on which the tests of this package run beside a voter alone.

// asked are the tests that had such a node, with how many replicas of their clients were killed.
var asked sync.Map

// under is the test that runs t elsewhere than on a voter alone, "" if none does.
func under(t testing.TB) string {
	switch first, _, _ := strings.Cut(t.Name(), "/"); first {
	case anyGroup, onClient, onMortal, onStandby:
		return first
	}
	return ""
}

// killed counts the replicas that were killed in a test.
func killed(t testing.TB) *atomic.Int64 {
	of, _ := asked.LoadOrStore(strings.Join(strings.SplitN(t.Name(), "/", 3)[:2], "/"), new(atomic.Int64))
	return of.(*atomic.Int64)
}

// elsewhere is the node that the running of t is about, nil if that is a voter alone.
func elsewhere(t testing.TB, l fsm.Limits, change ...func(*holdfast.Config)) *holdfast.Cluster {
	t.Helper()
	switch under(t) {
	case "":
		return nil
	case onStandby:
		return standby(t, l, change...)
	}
	c, _ := onGroup(t, l, change...)
	return c
}

// virtualElsewhere runs f with the node of elsewhere under virtual time, and reports whether there is one.
func virtualElsewhere(t *testing.T, f func(*holdfast.Cluster)) bool {
	t.Helper()
	switch under(t) {
	case "":
		return false
	case onStandby:
		killed(t)
		sim.Run(t, sim.Options{Nodes: 2, Config: func(_ int, cfg *holdfast.Config) { cfg.Voters = 1 }}, func(s *sim.Sim) {
			f(follower(s, holdfast.RoleStandby).Cluster())
		})
	default:
		synctest.Test(t, func(t *testing.T) { f(elsewhere(t, fsm.Limits{})) })
	}
	return true
}

// onGroup is a node that is no member of any fleet, or a client of a replica that is none, with its
// group, which is no replica.
func onGroup(t testing.TB, l fsm.Limits, change ...func(*holdfast.Config)) (*holdfast.Cluster, *seamtest.Group) {
	t.Helper()
	cfg := holdfast.Config{Name: "alone", Logger: quiet(), MaxTTL: holdfast.TTLMax}
	for _, f := range change {
		f(&cfg)
	}
	own := clock.System()
	group := seamtest.New(own.Now, l)
	if cfg.TokenFloor != nil {
		floor, err := cfg.TokenFloor(t.Context())
		_, _, err2 := group.Propose(t.Context(), seam.Urgent, fsm.Encode(fsm.Raise{Counter: uint64(floor)}))
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
	}
	return opened(t, simenv.Env{Clock: own, Node: nodeOn(t, group, cfg)}, cfg), group
}

// nodeOn is a node on a group in memory, or a client of a replica that is one.
func nodeOn(t testing.TB, group *seamtest.Group, cfg holdfast.Config) func(seam.Listener) seam.Node {
	t.Helper()
	deaths := killed(t)
	make := clienttest.New
	switch under(t) {
	case onMortal:
		make = clienttest.NewMortal
	case onClient:
	default:
		return seamtest.NewNode(group, cfg.Name, cfg.Logger)
	}
	r, err := make(transport.NewMemory(1), group)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.Close()
		deaths.Add(int64(r.Deaths()))
	})
	return r.Client(cfg.Name, cfg.Logger)
}

// standby is a node that does not vote, in a fleet on a network in memory.
func standby(t testing.TB, l fsm.Limits, change ...func(*holdfast.Config)) *holdfast.Cluster {
	t.Helper()
	killed(t)
	const first, second = "127.0.0.1:1", "127.0.0.1:2"
	cfg := holdfast.Config{
		Name: "standby", Bind: second, Join: []string{first}, Bootstrap: -1, Voters: 1, Logger: quiet(), MaxTTL: holdfast.TTLMax,
	}
	for _, f := range change {
		f(&cfg)
	}
	env := simenv.Env{Network: transport.NewMemory(1), Limits: l}
	opened(t, env, holdfast.Config{
		Name: "voter", Bind: first, Join: []string{second}, Bootstrap: 1, Voters: 1, Logger: quiet(), MaxTTL: cfg.MaxTTL, TokenFloor: cfg.TokenFloor,
	})
	c := opened(t, env, cfg)
	if role := c.Status().Role; role != holdfast.RoleStandby {
		t.Fatalf("a standby is %v", role)
	}
	return c
}

// opened is a node that is ready, until the end of the test.
func opened(t testing.TB, env simenv.Env, cfg holdfast.Config) *holdfast.Cluster {
	t.Helper()
	c, err := holdfast.Open(simenv.With(t.Context(), env), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.Ready(within(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	return c
}
