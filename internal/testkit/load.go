package testkit

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// Load is the honest use of a fleet while something happens to it: on each node a lease that is to
// last, and a caller that takes and releases locks, of its own and of all.
type Load struct {
	t       testing.TB
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
	held    []*holdfast.Lease
	pace    time.Duration

	mu    sync.Mutex
	took  []time.Duration
	wrong []error
}

// NewLoad begins the use; each caller begins a pair every pace.
func NewLoad(t testing.TB, pace time.Duration, nodes ...*holdfast.Cluster) *Load {
	t.Helper()
	x := &Load{t: t, pace: pace}
	x.ctx, x.cancel = context.WithCancel(context.Background())
	for _, c := range nodes {
		l, err := c.Acquire(Until(30*time.Second), "held/"+c.ID(), holdfast.WithTTL(10*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		x.held = append(x.held, l)
		x.running.Go(func() { x.call(c, "own/"+c.ID()) })
	}
	return x
}

func (x *Load) call(c *holdfast.Cluster, own string) {
	pace := time.NewTicker(x.pace)
	defer pace.Stop()
	for n := 0; ; n++ {
		select {
		case <-pace.C:
		case <-x.ctx.Done():
			return
		}
		name := own
		if n%4 == 0 {
			name = "of all"
		}
		began := time.Now()
		err := Pair(c, name)
		x.mu.Lock()
		x.took = append(x.took, time.Since(began))
		if err != nil {
			x.wrong = append(x.wrong, err)
		}
		x.mu.Unlock()
	}
}

// Pair acquires and releases a lock, within a bound that a busy machine keeps as well.
func Pair(c *holdfast.Cluster, name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	l, err := c.Acquire(ctx, name)
	if err != nil {
		return fmt.Errorf("acquiring %s: %w", name, err)
	}
	if err := l.Release(ctx); err != nil {
		return fmt.Errorf("releasing %s: %w", name, err)
	}
	return nil
}

// End stops the load and fails the test if any call failed, or a lease was lost. It returns how
// long the slowest pair took.
func (x *Load) End() time.Duration {
	x.t.Helper()
	x.cancel()
	x.running.Wait()
	for _, err := range x.wrong {
		x.t.Errorf("an honest call: %v", err)
	}
	for _, l := range x.held {
		if !l.Valid() {
			x.t.Errorf("the lease of %s was lost: %v", l.Name(), l.Err())
			continue
		}
		if err := l.Release(Until(30 * time.Second)); err != nil {
			x.t.Error(err)
		}
	}
	slices.Sort(x.took)
	n := len(x.took)
	if n == 0 {
		x.t.Error("no honest call came to an end")
		return 0
	}
	x.t.Logf("%d pairs, p50 %v, p99 %v, worst %v", n, x.took[n/2], x.took[n*99/100], x.took[n-1])
	return x.took[n-1]
}

// GapMax is for how long nobody may have a busy lock during a rolling update.
const GapMax = time.Second

// Meter measures for how long nobody has a busy lock.
type Meter struct {
	mu    sync.Mutex
	last  time.Time
	gap   time.Duration
	turns int
}

// Turn says that somebody has the lock now.
func (m *Meter) Turn() {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	m.gap = max(m.gap, now.Sub(m.last))
	m.last = now
	m.turns++
}

// Reset begins anew.
func (m *Meter) Reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last, m.gap, m.turns = time.Now(), 0, 0
}

// Read returns the longest gap since Reset, and how many turns there were.
func (m *Meter) Read() (gap time.Duration, turns int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return max(m.gap, time.Since(m.last)), m.turns
}

// Price reports how much longer one function takes than another, as "ratio": that of the medians of
// their single calls. They take turns of a few calls, and so does the first place, so what else the
// machine does falls on both. An operation of the benchmark is a call of each.
func Price(b *testing.B, without, with func()) {
	b.Helper()
	const turn = 8
	without() // opens the session
	with()
	calls := 0
	var took [2][]time.Duration
	for b.Loop() {
		for range 2 {
			begun, which := time.Now(), (calls/turn+calls/turn/2)%2 // 0, 1, 1, 0
			if which == 0 {
				without()
			} else {
				with()
			}
			took[which] = append(took[which], time.Since(begun))
			calls++
		}
	}
	median := func(list []time.Duration) float64 {
		slices.Sort(list)
		return float64(list[len(list)/2])
	}
	b.ReportMetric(median(took[1])/median(took[0]), "ratio")
}
