package membership

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/autopilot"
	"github.com/holdfast-go/holdfast/internal/member"
	"github.com/holdfast-go/holdfast/internal/testlog"
	"github.com/holdfast-go/holdfast/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fleet is a set of nodes on one memory network, inside a synctest bubble.
type fleet struct {
	t       *testing.T
	network *transport.Memory
	names   *names
}

func newFleet(t *testing.T) *fleet {
	return &fleet{t: t, network: transport.NewMemory(1), names: &names{}}
}

// peer is one life of a node.
type peer struct {
	*Gossip
	endpoint transport.Endpoint
	log      *testlog.Lines
	messages chan string
}

// start opens a node; change may alter its config.
func (f *fleet) start(node string, incarnation uint64, addr string, change func(*Config), join ...string) *peer {
	f.t.Helper()
	endpoint, err := f.network.Listen(context.Background(), addr, transport.Options{})
	if err != nil {
		f.t.Fatal(err)
	}
	return open(f.t, endpoint, f.names, node, incarnation, change, join...)
}

func open(t *testing.T, endpoint transport.Endpoint, r member.Resolver, node string, incarnation uint64, change func(*Config), join ...string) *peer {
	t.Helper()
	m := &peer{endpoint: endpoint, log: &testlog.Lines{}, messages: make(chan string, 100)}
	cfg := Config{
		Cluster:  "orders",
		Meta:     Meta{Node: node, Incarnation: incarnation, Name: "name of " + node, Phase: autopilot.PhaseRunning},
		Endpoint: endpoint,
		Join:     join,
		Logger:   m.log.Logger(slog.LevelDebug),
		Resolver: r,
		OnMessage: func(from string, b []byte) {
			m.messages <- from + ": " + string(b)
		},
	}
	if change != nil {
		change(&cfg)
	}
	g, err := Open(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	m.Gossip = g
	t.Cleanup(m.crash)
	return m
}

// crash takes the node off the network without a word.
func (m *peer) crash() {
	_ = m.Close()
	_ = m.endpoint.Close()
}

// sees tells whether m holds the node for one in the given state.
func (m *peer) sees(node string, want State) bool {
	got, ok := m.Member(node)
	return ok && got.State == want
}

// within waits, in virtual time, until cond holds, and returns how long it took.
func within(t *testing.T, limit time.Duration, what string, cond func() bool) time.Duration {
	t.Helper()
	start := time.Now()
	for !cond() {
		if time.Since(start) > limit {
			t.Fatalf("after %v still not: %s", limit, what)
		}
		<-time.After(50 * time.Millisecond)
	}
	return time.Since(start)
}

// together waits until every member sees every other one alive.
func together(t *testing.T, limit time.Duration, members ...*peer) {
	t.Helper()
	within(t, limit, "all see all alive", func() bool {
		for _, m := range members {
			for _, other := range members {
				if !m.sees(other.self.Node, Alive) {
					return false
				}
			}
		}
		return true
	})
}

// trio starts three nodes that know each other.
func (f *fleet) trio() (a, b, c *peer) {
	a = f.start("a", 1, "10.0.0.1:7643", nil)
	b = f.start("b", 1, "10.0.0.2:7643", nil, "10.0.0.1:7643")
	c = f.start("c", 1, "10.0.0.3:7643", nil, "10.0.0.1:7643")
	together(f.t, 20*time.Second, a, b, c)
	return a, b, c
}

// names is a resolver whose answers a test sets.
type names struct {
	mu      sync.Mutex
	hosts   map[string][]string
	records map[string][]*net.SRV
}

func (n *names) set(host string, addrs ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.hosts == nil {
		n.hosts = make(map[string][]string)
	}
	n.hosts[host] = addrs
}

func (n *names) LookupHost(_ context.Context, host string) ([]string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if addrs := n.hosts[host]; len(addrs) > 0 {
		return addrs, nil
	}
	return nil, fmt.Errorf("no such host %s", host)
}

func (n *names) LookupSRV(_ context.Context, _, _, name string) (string, []*net.SRV, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if records := n.records[name]; len(records) > 0 {
		return name, records, nil
	}
	return "", nil, fmt.Errorf("no such record %s", name)
}
