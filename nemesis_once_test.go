package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/history"
	"github.com/holdfast-go/holdfast/sim"
)

// errTooLate is the answer of a job whose lease was over before it could begin.
var errTooLate = errors.New("the lease is over")

// runner runs the job of the time, on node i, again and again.
func (x *nemesis) runner(i int, r *rand.Rand) {
	n := x.s.Node(i)
	for !x.resting() {
		pause(r, x.pace.jobEvery/2)
		<-n.Awake()
		if c := n.Cluster(); c != nil {
			x.job(n, c, r)
		}
	}
}

// job runs a job unless another node does or did.
func (x *nemesis) job(n *sim.Node, c *holdfast.Cluster, r *rand.Rand) {
	e := history.Event{
		Kind: history.Begun, Node: n.Index(), Lock: fmt.Sprint("job ", int64(time.Since(x.begin)/x.pace.jobEvery)),
	}
	opts := []holdfast.OnceOption{holdfast.OnceTTL(x.ttl)}
	if chance(r, 30) {
		opts = append(opts, holdfast.WaitForRunner())
	}
	fails, began := chance(r, 20), false
	result, err := c.Once(until(2*x.ttl), e.Lock, func(_ context.Context, l *holdfast.Lease) error {
		<-n.Awake()
		if !l.Valid() {
			return errTooLate
		}
		began, e.Token = true, uint64(l.Token())
		x.rec.Add(e)
		pause(r, x.ttl/2)
		if fails {
			return errTooLate
		}
		return nil
	}, opts...)
	<-n.Awake()
	if err != nil {
		x.understand("running a job", err, errTooLate, holdfast.ErrLost)
	}
	if began {
		e.Kind, e.OK = history.Finished, err == nil && result.Finished
		x.rec.Add(e)
	}
}
