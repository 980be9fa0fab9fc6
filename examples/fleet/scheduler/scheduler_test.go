package scheduler_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/examples/fleet/scheduler"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/sim"
)

// This is how a service is tested on a fleet under faults: the service as it is, in virtual time,
// with its resource in memory. The resource says when it is written to, and that is the check.
func TestTwoProcessesNeverTickAtOnceWhateverHappensToTheFleet(t *testing.T) {
	t.Parallel()
	sim.Seeds(t, 1, func(t *testing.T, seed uint64) {
		file := &file{guard: fence.NewMemory()}
		sim.Run(t, sim.Options{
			Nodes: 3, Seed: seed,
			Config: func(_ int, cfg *holdfast.Config) { cfg.TTL = 2 * time.Second },
			Service: func(ctx context.Context, n *sim.Node, c *holdfast.Cluster) error {
				return scheduler.Service{Name: c.ID(), Ledger: ledger{file, n}}.Run(ctx, c)
			},
		}, func(s *sim.Sim) {
			s.Nemesis(5 * time.Minute)
			for i := range 6 { // one fault may have lasted all the time: each holder hands over twice
				s.Node(i % 3).Restart()
				time.Sleep(10 * time.Second)
			}
			refused := file.check(t)
			section := s.Section("ticks")
			t.Logf("%d writes, %d of them overtaken while their process was stopped, %d refused", section.Entered(), section.Overtaken(), refused)
			if section.Entered() < 1000 {
				t.Errorf("only %d writes: the service did not do its work", section.Entered())
			}
		})
	})
}

// file is what all processes write to. It takes a while, so that two could be at it together.
type file struct {
	guard   *fence.Memory
	mu      sync.Mutex
	ticks   []scheduler.Tick
	refused int
}

const writeTime = 20 * time.Millisecond

// ledger is the file as one node sees it.
type ledger struct {
	file *file
	node *sim.Node
}

func (l ledger) Append(ctx context.Context, t scheduler.Tick) error {
	if t.N > 0 { // the careless write after a loss is outside of the critical section: the guard alone is against it
		defer l.node.Section("ticks").Enter(ctx, t.Token)()
		select {
		case <-time.After(writeTime):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	<-l.node.Awake() // a stopped process writes nothing
	return l.file.write(ctx, t)
}

func (f *file) write(ctx context.Context, t scheduler.Tick) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.guard.Check(ctx, "ticks", t.Token); err != nil {
		f.refused++
		return err
	}
	f.ticks = append(f.ticks, t)
	return nil
}

// check looks at what was written: no tick under a stale token, and no token of two processes. It
// returns how many writes were refused.
func (f *file) check(t *testing.T) int {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	owner := make(map[fence.Token]string)
	for i, tick := range f.ticks {
		if i > 0 && tick.Token < f.ticks[i-1].Token {
			t.Errorf("tick %d has token %d after %d", i, tick.Token, f.ticks[i-1].Token)
		}
		if node, ok := owner[tick.Token]; ok && node != tick.Node {
			t.Errorf("token %d is of %s and of %s", tick.Token, node, tick.Node)
		}
		owner[tick.Token] = tick.Node
	}
	if len(owner) < 3 {
		t.Errorf("%d tenures: nothing happened", len(owner))
	}
	return f.refused
}
