package node

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/consensus"
	"github.com/holdfast-go/holdfast/internal/seam"
	"github.com/holdfast-go/holdfast/internal/simenv"
	"github.com/holdfast-go/holdfast/transport"
)

// heard is a Listener that notes what it is told.
type heard struct {
	mu     sync.Mutex
	calls  []string // the names of the upcalls, in their order
	last   uint64   // the last command that was told
	twice  bool     // a command was told again
	causes []error  // of EndLeases
}

func (h *heard) note(call string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, call)
}

// told are the upcalls so far, each once, in the order of the first of its kind.
func (h *heard) told() (list []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, call := range h.calls {
		if !slices.Contains(list, call) {
			list = append(list, call)
		}
	}
	return list
}

func (h *heard) Identified(fsm.SessionID, *slog.Logger) { h.note("Identified") }

func (h *heard) Applied(events []fsm.Event) {
	h.note("Applied")
	h.mu.Lock()
	defer h.mu.Unlock()
	h.twice = h.twice || events[0].Index <= h.last
	h.last = events[len(events)-1].Index
}

func (h *heard) Gap(last uint64, _ func(fsm.Question) (fsm.Answer, error)) {
	h.note("Gap")
	h.mu.Lock()
	defer h.mu.Unlock()
	h.twice = h.twice || last <= h.last
	h.last = last
}

func (h *heard) Ages(iter.Seq2[uint64, time.Duration]) { h.note("Ages") }

func (h *heard) LeaderChanged(string)                 { h.note("LeaderChanged") }
func (h *heard) Expired(fsm.SessionID, time.Duration) { h.note("Expired") }
func (h *heard) Quorum(bool, []string)                { h.note("Quorum") }
func (h *heard) Ill(bool, string)                     { h.note("Ill") }
func (h *heard) Foreign(string, []string)             { h.note("Foreign") }
func (h *heard) GroupYielded()                        { h.note("GroupYielded") }
func (h *heard) ReplicaReplaced()                     { h.note("ReplicaReplaced") }
func (h *heard) Empty() bool                          { return true }
func (h *heard) Stopping(err error)                   { h.note(fmt.Sprint("Stopping ", err)) }
func (h *heard) Stopped()                             { h.note("Stopped") }

func (h *heard) EndLeases(cause error) int {
	h.note("EndLeases")
	h.mu.Lock()
	defer h.mu.Unlock()
	h.causes = append(h.causes, cause)
	return 0
}

// opened is a node that listens in memory; it is closed with the test.
func opened(t *testing.T, h *heard, cfg Config) *Node {
	t.Helper()
	cfg.Cluster, cfg.Secrets, cfg.Listener = "test", []string{"a secret of the fleet that nobody guesses"}, h
	cfg.Tick, cfg.Heartbeat, cfg.Election = 20*time.Millisecond, 40*time.Millisecond, 200*time.Millisecond
	cfg.ReplaceAfter, cfg.Moment, cfg.Voters = 30*time.Second, time.Second, 3
	cfg.Figures = &consensus.Figures{}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Bind == "" {
		cfg.Bind = "10.0.0.1:7643"
	}
	if cfg.Bootstrap == 0 {
		cfg.Bootstrap = 1
	}
	if cfg.Env.Network == nil {
		cfg.Env.Network = transport.NewMemory(1)
	}
	n := New(cfg)
	n.Proposer.Follow(0, h)
	if err := n.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	return n
}

// ready waits until the nodes serve, and returns a context for what follows.
func ready(t *testing.T, nodes ...*Node) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	for _, n := range nodes {
		if err := n.Ready(ctx); err != nil {
			t.Fatal(err, n.Missing())
		}
	}
	return ctx
}

// TestMain: the contract of Close is that it leaves no goroutine.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fleet are nodes that find each other.
func fleet(t *testing.T, heards []*heard, network *transport.Memory, log *slog.Logger) (nodes []*Node) {
	t.Helper()
	for i, h := range heards {
		cfg := Config{Bind: fmt.Sprintf("10.0.0.%d:7643", i+1), Bootstrap: len(heards), Name: fmt.Sprint("fleet-", i), Logger: log, Env: simenv.Env{Network: network}}
		if i > 0 {
			cfg.Join = []string{"10.0.0.1:7643"}
		}
		nodes = append(nodes, opened(t, h, cfg))
	}
	return nodes
}

func TestANodeFormsAGroupAloneAndEndsInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &heard{}
		n := opened(t, h, Config{})
		ready(t, n)
		if n.ClusterID() == "" || n.Missing() != "" {
			t.Errorf("it is ready without a group, or waits for something: %q, %q", n.ClusterID(), n.Missing())
		}
		n.Close()
		time.Sleep(time.Minute) // memberlist's goroutines end
		told := h.told()
		if told[0] != "Identified" || !slices.Contains(told, "Applied") || !slices.Contains(told, "LeaderChanged") {
			t.Errorf("the listener was told %q", told)
		}
		if end := told[len(told)-3:]; !slices.Equal(end, []string{"EndLeases", "Stopping <nil>", "Stopped"}) {
			t.Errorf("it ended with %q", end)
		}
		if !slices.Equal(h.causes, []error{seam.ErrEnded}) {
			t.Errorf("its leases ended with %v", h.causes)
		}
		if err := n.Ready(t.Context()); !errors.Is(err, seam.ErrEnded) {
			t.Errorf("after Close Ready returns %v", err)
		}
	})
}

func TestThreeNodesFormOneGroupWhichOneLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		heards := []*heard{{}, {}, {}}
		nodes := fleet(t, heards, transport.NewMemory(1), nil)
		ctx := ready(t, nodes...)
		for _, n := range nodes[1:] {
			if n.ClusterID() != nodes[0].ClusterID() {
				t.Error("there are two groups")
			}
		}
		if err := nodes[2].Leave(ctx); err != nil {
			t.Fatal(err)
		}
		group, _ := nodes[0].Proposer.Current()
		if group.Members().Has(nodes[2].ID()) {
			t.Error("the group still has the replica of the node that left")
		}
		if err := nodes[2].Leave(ctx); !errors.Is(err, seam.ErrEnded) {
			t.Errorf("a second Leave returns %v", err)
		}
		for _, n := range nodes {
			n.Close()
		}
		for i, h := range heards {
			if h.twice {
				t.Errorf("node %d was told of a command twice", i)
			}
		}
		time.Sleep(time.Minute) // memberlist's goroutines end
	})
}

// The caller of Open hears from it why the node did not open: no hook is told so.
func TestANodeThatDoesNotOpenLeavesNothingAndTellsNoFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := transport.NewMemory(1)
		first := beside(t, network, "10.0.0.1:7643")
		h := &heard{}
		cfg := first.cfg
		cfg.Listener = h
		if err := New(cfg).Open(t.Context()); err == nil {
			t.Fatal("two nodes listen at one address")
		}
		if told := h.told(); !slices.Equal(told, []string{"EndLeases", "Stopping <nil>", "Stopped"}) {
			t.Errorf("the listener was told %q", told)
		}
		first.Close()
		time.Sleep(time.Minute) // memberlist's goroutines end
	})
}

// A client hears of the other replicas when it asks whether its own is ready. The list was up to a second
// old, and lacked those that had just come: a client whose seed closed then was never served again.
func TestANodeThatIsReadyKnowsTheReplicasOfThatMoment(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes := fleet(t, []*heard{{}, {}, {}}, transport.NewMemory(1), nil)
		ready(t, nodes...)
		nodes[0].others.Store(&others{[]string{nodes[0].Addr()}, time.Now()}) // as it was alone a moment ago
		ready(t, nodes[0])
		if all := nodes[0].addresses(); len(all) != len(nodes) {
			t.Errorf("it knows %v", all)
		}
		for _, n := range nodes {
			n.Close()
		}
		time.Sleep(time.Minute) // memberlist's goroutines end
	})
}
