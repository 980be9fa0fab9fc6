package workload_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/sim"
	"github.com/holdfast-go/holdfast/sim/internal/history"
	"github.com/holdfast-go/holdfast/sim/internal/workload"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const ttl = 2 * time.Second

// record is a history in memory.
type record struct {
	*history.Recorder
	t     *testing.T
	begin time.Time
}

func (r *record) Now() time.Duration          { return time.Since(r.begin) }
func (r *record) Wrong(node int, text string) { r.t.Errorf("node %d: %s", node, text) }

// users lets the callers of a fleet in a simulation loose.
func users(t *testing.T, s *sim.Sim) (*workload.Workload, []*workload.Node, *record) {
	r := &record{t: t, begin: time.Now()}
	r.Recorder = history.NewRecorder(r.Now)
	w := workload.New(workload.Terms{
		TTL: ttl, Long: 5 * time.Minute, MinHold: ttl, LockDelay: ttl, Late: 2 * time.Second, WaitMax: ttl,
		Pace: workload.Pace{
			Call: 200 * time.Millisecond, Keep: time.Second, Lead: time.Second, Look: time.Second, Burden: time.Second, Job: time.Second,
			Hold: 10 * time.Second, Patience: time.Minute, Glance: 200 * time.Millisecond, Gaze: time.Second,
		},
	}, r)
	lots := rand.New(rand.NewPCG(1, 1))
	lot := func() *rand.Rand { return rand.New(rand.NewPCG(lots.Uint64(), 2)) }
	var all []*workload.Node
	for i, n := range s.Nodes() {
		r.Add(history.Event{Kind: history.Opened, Node: i, Value: n.Cluster().ID()})
		all = append(all, w.Node(n))
	}
	for i, n := range all {
		n.Start(lot)
		if i == 0 {
			n.StartSlow(lot)
		}
	}
	return w, all, r
}

// ends brings the callers to rest and demands what is demanded at the end of every run.
func ends(t *testing.T, w *workload.Workload, all []*workload.Node, r *record) []history.Event {
	w.Rest()
	for i, n := range all {
		n.Drain()
		if !n.Settle() {
			t.Errorf("what node %d was told does not come to what the locks are", i)
		}
	}
	w.Close()
	h := r.Events()
	for _, v := range append(history.Check(h, history.Bounds{TTL: ttl, Late: 2 * time.Second, Answer: 100 * time.Millisecond, Drift: 0.01}), workload.Checkpoints(h)...) {
		t.Error(v)
	}
	return h
}

// Every kind of caller does what it is there for, and is brought to rest.
func TestAWorkloadUsesLocksOfEveryKind(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 3, Config: func(_ int, c *holdfast.Config) { c.TTL = ttl }}, func(s *sim.Sim) {
		w, all, r := users(t, s)
		time.Sleep(20 * time.Second)
		all[0].Revoke(s.Node(1).Cluster().ID())
		time.Sleep(10 * time.Second)
		began := r.Now()
		h := ends(t, w, all, r)
		if took := r.Now() - began; took > 30*time.Second {
			t.Errorf("it took %v to bring the callers to rest and to take all locks", took)
		}
		least := history.Figures{
			Calls: 200, Grants: 100, Refused: 10, Verified: 10, Looked: 10, Sets: 10, Runs: 10, Wholes: 10, Rests: 10, Freed: 1, Longs: 3,
			Revoked: 1, LeaderReads: 10, Observed: 10, Told: 500,
		}
		if lack := history.Shortfall(h, least); lack != "" {
			t.Error(lack)
		}
		seen := make(map[string]bool)
		for _, e := range h {
			for what, is := range map[string]bool{
				"a candidate":                 e.Election,
				"a reader":                    e.Kind == history.Asked && e.Weight < e.Limit,
				"a priority":                  e.Priority > 0,
				"a lease left to its end":     e.Cause == history.CauseLapsed,
				"a checkpoint":                e.Kind == history.Done && e.OK && e.Lock == workload.Checkpoint,
				"a slow watcher":              e.Kind == history.Watching && e.Pause > 0,
				"a lease that was given back": e.Kind == history.Released,
				"a job":                       e.Kind == history.Finished && e.OK,
			} {
				seen[what] = seen[what] || is
			}
		}
		for what, ok := range seen {
			if !ok {
				t.Errorf("no %s", what)
			}
		}
	})
}

// A goroutine cannot be stopped as a process can: the callers of a node that stands still must
// neither see nor record anything meanwhile, not even what others look at.
func TestCallersOfAStoppedNodeSeeNothing(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 3, Config: func(_ int, c *holdfast.Config) { c.TTL = ttl }}, func(s *sim.Sim) {
		w, all, r := users(t, s)
		time.Sleep(2 * time.Second)
		s.Node(1).Pause()
		from := r.Now()
		time.Sleep(5 * time.Second)
		to := r.Now()
		s.Node(1).Resume()
		time.Sleep(2 * time.Second)
		by := make(map[int]int) // events during the stop, by node
		for _, e := range ends(t, w, all, r) {
			if e.At > from && e.At < to {
				by[e.Node]++
			}
		}
		if by[1] > 0 || by[0] == 0 {
			t.Errorf("while node 1 stood still it recorded %d events, and node 0 %d", by[1], by[0])
		}
	})
}

func TestACheckpointIsLostWithinOneLineOfAHistoryAlone(t *testing.T) {
	t.Parallel()
	write := func(op uint64, value string) history.Event {
		return history.Event{Kind: history.Done, OK: true, Op: op, Lock: workload.Checkpoint, Token: op, Value: value}
	}
	copied := history.Event{Kind: history.Copied, Op: 3}
	restored := history.Event{Kind: history.Restored, Op: 3}
	for want, h := range map[string][]history.Event{
		"":                         {write(1, "1 a"), copied, write(4, "2 b"), restored, write(5, "2 c")},
		"no checkpoint is lost":    {copied, restored, write(4, "1 a"), write(5, "1 b")},
		"a checkpoint is a number": {write(1, "a")},
	} {
		rules := ""
		for _, v := range workload.Checkpoints(h) {
			rules = v.Rule
		}
		if rules != want {
			t.Errorf("%q, want %q, for %s", rules, want, fmt.Sprint(h))
		}
	}
}
