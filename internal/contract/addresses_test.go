package contract_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/simenv"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/internal/testlog"
	"github.com/holdfast-go/holdfast/sim"
	"github.com/holdfast-go/holdfast/transport"
)

// addrs are the addresses under which c sees the members that are there, in order.
func addrs(c *holdfast.Cluster) []string {
	var list []string
	for _, m := range c.Members() {
		if m.State == holdfast.StateAlive {
			list = append(list, m.Addr)
		}
	}
	slices.Sort(list)
	return list
}

// agree waits until all see all under their present addresses.
func agree(t *testing.T, nodes []*holdfast.Cluster) {
	t.Helper()
	var want []string
	for _, c := range nodes {
		want = append(want, c.Addr())
	}
	slices.Sort(want)
	for i, c := range nodes {
		polled(t, fmt.Sprintf("node %d that sees %v", i, want), func() bool { return slices.Equal(addrs(c), want) })
	}
}

// movers are three nodes with directories of their own on an in-process network, under virtual
// time.
type movers struct {
	t       *testing.T
	dir     string
	network *transport.Memory
	nodes   []*holdfast.Cluster
}

func moving(t *testing.T, f func(m *movers)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		m := &movers{t: t, dir: dir, network: transport.NewMemory(1), nodes: make([]*holdfast.Cluster, 3)}
		defer func() {
			for _, c := range m.nodes {
				c.Close()
			}
		}()
		for i := range m.nodes {
			m.open(i, origin(i))
		}
		for _, c := range m.nodes {
			if err := c.Ready(until(time.Minute)); err != nil {
				t.Fatal(err)
			}
		}
		f(m)
	})
}

func origin(i int) string { return fmt.Sprintf("10.0.0.%d:7643", i+1) }

// open starts node i at an address. It knows where the others are, unless they have moved since.
func (m *movers) open(i int, addr string) {
	m.t.Helper()
	cfg := holdfast.Config{
		Bind: addr, Bootstrap: 3, Logger: quiet(),
		DataDir: filepath.Join(m.dir, strconv.Itoa(i)), Secrets: []string{"a secret of this fleet"},
	}
	for j, c := range m.nodes {
		if c == nil {
			cfg.Join = append(cfg.Join, origin(j))
		} else {
			cfg.Join = append(cfg.Join, c.Addr())
		}
	}
	c, err := holdfast.Open(simenv.With(context.Background(), simenv.Env{Network: m.network}), cfg)
	if err != nil {
		m.t.Fatal(err)
	}
	m.nodes[i] = c
}

// served wants every node to serve, which it does only if it and the raft leader reach each other.
func (m *movers) served() {
	m.t.Helper()
	agree(m.t, m.nodes)
	for i, c := range m.nodes {
		if err := c.Ready(until(time.Minute)); err != nil {
			m.t.Fatalf("node %d is not ready: %v", i, err)
		}
		serves(m.t, until(time.Minute), c)
		if voters := testkit.IDs(c.Status().Voters); len(voters) != 3 {
			m.t.Errorf("node %d sees the voters %v", i, voters)
		}
	}
}

func TestANodeThatComesBackAtAnotherAddressKeepsItsPlace(t *testing.T) {
	t.Parallel()
	moving(t, func(m *movers) {
		for i := range m.nodes { // in the end nobody is where the others first knew it
			id := m.nodes[i].ID()
			held, err := m.nodes[(i+1)%3].Acquire(until(time.Minute), "held", holdfast.WithTTL(time.Minute))
			if err != nil {
				t.Fatal(err)
			}
			m.nodes[i].Close()
			m.open(i, fmt.Sprintf("10.0.1.%d:%d", i+1, 9000+i))
			m.served()
			if m.nodes[i].ID() != id {
				t.Error("the node came back as another one")
			}
			if err := held.Release(until(time.Minute)); err != nil {
				t.Errorf("the lease of a node that stayed: %v", err)
			}
		}
	})
}

func TestNodesThatExchangeTheirAddressesAreNotTakenForEachOther(t *testing.T) {
	t.Parallel()
	moving(t, func(m *movers) {
		for range 3 {
			a, b := m.nodes[0].Addr(), m.nodes[1].Addr()
			m.nodes[0].Close()
			m.nodes[1].Close()
			m.open(0, b)
			m.open(1, a)
			m.served()
		}
	})
}

func TestAFleetThatMovesAsAWholeFindsItselfThroughItsNames(t *testing.T) {
	t.Parallel()
	b, dir := testkit.NewPeersFile(t), t.TempDir()
	open := func(i int) *holdfast.Cluster {
		return b.Open(i, func(i int, cfg *holdfast.Config) {
			cfg.DataDir, cfg.Bootstrap = filepath.Join(dir, strconv.Itoa(i)), 3
		})
	}
	nodes := []*holdfast.Cluster{open(0), open(1), open(2)}
	allReady(t, nodes)
	token := acquire(t, nodes[0], "before").Token()
	var before []string
	for i, c := range nodes {
		before = append(before, c.Addr())
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		// Nobody may come back to its old port by chance.
		if l, err := net.Listen("tcp", before[i]); err == nil {
			defer l.Close()
		}
	}
	nodes = []*holdfast.Cluster{open(0), open(1), open(2)}
	allReady(t, nodes)
	agree(t, nodes)
	for i, c := range nodes {
		if c.Addr() == before[i] {
			t.Errorf("node %d did not move", i)
		}
		serves(t, within(t, 30*time.Second), c)
	}
	if l := acquire(t, nodes[1], "before"); l.Token() <= token {
		t.Errorf("token %d after %d", l.Token(), token)
	}
}

// book resolves one name, or none once that is gone.
type book struct {
	gone  atomic.Bool
	hosts []string
}

func (b *book) LookupHost(_ context.Context, host string) ([]string, error) {
	if b.gone.Load() {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return b.hosts, nil
}

func (b *book) LookupSRV(context.Context, string, string, string) (string, []*net.SRV, error) {
	return "", nil, errors.ErrUnsupported
}

// The name server may live on the machines that were restarted.
func TestAFleetThatRestartsAsAWholeFindsItselfAlsoWhenItsNameIsGone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		names := &book{hosts: []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}}
		env := simenv.Env{Network: transport.NewMemory(1), Names: names}
		open := func(i int) *holdfast.Cluster {
			c, err := holdfast.Open(simenv.With(context.Background(), env), holdfast.Config{
				Name: fmt.Sprint("fleet-", i), Bind: origin(i), Bootstrap: 3, Join: []string{"dns+fleet.example"}, Logger: quiet(),
				DataDir: filepath.Join(dir, strconv.Itoa(i)), Secrets: []string{"a secret of this fleet"},
			})
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		nodes := []*holdfast.Cluster{open(0), open(1), open(2)}
		allReady(t, nodes)
		time.Sleep(time.Minute)
		for _, c := range nodes {
			c.Close()
		}
		names.gone.Store(true)
		nodes = []*holdfast.Cluster{open(0), nil, nil}
		time.Sleep(time.Minute)
		for _, v := range nodes[0].Status().Voters { // gossip has not seen the others
			if !strings.HasPrefix(v.Name, "fleet-") || !strings.HasPrefix(v.Addr, "10.0.0.") {
				t.Errorf("a voter is %+v", v)
			}
		}
		nodes[1], nodes[2] = open(1), open(2)
		allReady(t, nodes)
		for _, c := range nodes {
			serves(t, until(time.Minute), c)
		}
		for _, c := range nodes {
			c.Close()
		}
		time.Sleep(time.Minute) // memberlist's goroutines end
	})
}

func TestAFleetServesOverIPv6(t *testing.T) {
	t.Parallel()
	if l, err := net.Listen("tcp", "[::1]:0"); err != nil {
		t.Skip("this machine has no IPv6")
	} else {
		l.Close()
	}
	nodes := fleet(t, 3, func(_ int, cfg *holdfast.Config) {
		cfg.Bind, cfg.Secrets = "[::1]:0", []string{"a secret of this fleet"}
	})
	agree(t, nodes)
	for _, c := range nodes {
		if !strings.HasPrefix(c.Addr(), "[::1]:") {
			t.Errorf("a node is at %s", c.Addr())
		}
		serves(t, within(t, 30*time.Second), c)
	}
}

func TestNodesThatListenEverywhereTellAnAddressThatOthersReach(t *testing.T) {
	t.Parallel()
	const template = `{{ GetAllInterfaces | include "flags" "loopback" | include "type" "IPv4" | limit 1 | attr "address" }}`
	binds := []string{"0.0.0.0:0", ":0", template + ":0"}
	nodes := fleet(t, 3, func(i int, cfg *holdfast.Config) {
		cfg.Bind, cfg.Insecure = binds[i], true
	})
	agree(t, nodes)
	for i, c := range nodes {
		addr, err := netip.ParseAddrPort(c.Addr())
		if err != nil || addr.Addr().IsUnspecified() || addr.Port() == 0 {
			t.Errorf("%s is advertised as %s", binds[i], c.Addr())
		}
		serves(t, within(t, 30*time.Second), c)
	}
}

func TestAFleetWithoutUDPFormsServesAndSaysSo(t *testing.T) {
	t.Parallel()
	var log testlog.Lines
	blocked := transport.Faults{Drop: 1} // drops packets; streams go through
	sim.Run(t, sim.Options{Nodes: 3, Late: true, Logger: log.Logger(slog.LevelWarn)}, func(s *sim.Sim) {
		s.FaultsEverywhere(blocked)
		began := time.Now()
		for _, n := range s.Nodes() {
			n.Open()
		}
		for _, n := range s.Nodes() {
			n.Ready()
		}
		t.Logf("ready after %v", time.Since(began))
		var nodes []*holdfast.Cluster
		for _, n := range s.Nodes() {
			nodes = append(nodes, n.Cluster())
		}
		agree(t, nodes)
		honest := testkit.NewLoad(t, 500*time.Millisecond, nodes...)
		for range 40 {
			time.Sleep(time.Second) // virtual
			for i, c := range nodes {
				for _, m := range c.Members() {
					if m.State != holdfast.StateAlive {
						t.Fatalf("node %d takes a member for %v", i, m.State)
					}
				}
			}
		}
		honest.End()
		if told := log.Count("over TCP but UDP"); told != 3 {
			t.Errorf("said %d times that there is no UDP, want once on each node:\n%s", told, &log)
		}
	})
}
