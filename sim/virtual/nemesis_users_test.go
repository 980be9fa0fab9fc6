package virtual_test

import (
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/sim/internal/history"
	"github.com/holdfast-go/holdfast/sim/internal/workload"
)

// record is where the callers record what they see.
type record struct {
	*history.Recorder
	x *nemesis
}

// Now is the time since the beginning.
func (r record) Now() time.Duration { return time.Since(r.x.begin) }

// Observe records what look sees. What remains of a lease was measured by a clock that drifts.
func (r record) Observe(look func() (history.Event, bool)) {
	r.Recorder.Observe(func() (history.Event, bool) {
		e, ok := look()
		e.Remaining = time.Duration(float64(e.Remaining) / r.x.rate(e.Node))
		return e, ok
	})
}

// Wrong fails the test.
func (r record) Wrong(node int, text string) { r.x.t.Errorf("node %d: %s", node, text) }

// employ makes the callers of all nodes.
func (x *nemesis) employ(long time.Duration) {
	r := record{x: x}
	r.Recorder = history.NewRecorder(r.Now)
	x.rec = r.Recorder
	x.work = workload.New(workload.Terms{
		TTL: x.ttl, Long: long, MinHold: x.ttl, LockDelay: 2 * x.ttl, Late: x.late, WaitMax: longWait, Pace: x.pace.users,
		Crowded: x.mayBeFar(len(x.ids) - 1), // the last is a client if any is
	}, r)
	for _, n := range x.s.Nodes() {
		x.users = append(x.users, x.work.Node(n))
	}
}

// begins lets all callers loose.
func (x *nemesis) begins(r *rand.Rand) {
	lot := func() *rand.Rand { return rand.New(rand.NewPCG(r.Uint64(), 2)) }
	for _, n := range x.users {
		n.Start(lot)
	}
	for _, i := range r.Perm(len(x.users))[:2] {
		x.users[i].StartSlow(lot)
	}
	x.watching.Go(x.survey)
	deciding := lot()
	x.watching.Go(func() { x.operator(deciding) })
}

// operator now and then takes a node for dead, whether it is or not.
func (x *nemesis) operator(r *rand.Rand) {
	for {
		select {
		case <-x.work.Resting():
			return
		case <-time.After(workload.UpTo(r, x.pace.operate)):
		}
		i := r.IntN(len(x.users))
		<-x.s.Node(i).Awake()
		x.mu.Lock()
		id := x.ids[r.IntN(len(x.ids))]
		x.mu.Unlock()
		if id != "" {
			x.users[i].Revoke(id)
		}
	}
}

func (x *nemesis) resting() bool {
	select {
	case <-x.work.Resting():
		return true
	default:
		return false
	}
}

// drift gives node i another rate of its clock, within the bound for any two.
func (x *nemesis) drift(r *rand.Rand, i int) {
	rate := 1 + driftMax/2*(2*r.Float64()-1)
	x.s.Node(i).Drift(rate)
	x.clocks.Lock()
	defer x.clocks.Unlock()
	x.rates[i] = rate
}

func (x *nemesis) rate(i int) float64 {
	x.clocks.Lock()
	defer x.clocks.Unlock()
	return x.rates[i]
}
