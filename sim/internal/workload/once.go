package workload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/sim/internal/history"
)

// The answers of a job whose lease was over before it could begin, and of one that fails: it stays
// open.
var (
	errTooLate = errors.New("the lease is over")
	errFailed  = errors.New("the job has failed")
)

// job runs the job of the time unless another node does or did.
func (n *Node) job(c *holdfast.Cluster, r *rand.Rand) {
	e := n.event(history.Begun, fmt.Sprint("job ", int64(n.record.Now()/n.terms.Pace.Job)))
	opts := []holdfast.OnceOption{holdfast.OnceTTL(n.terms.TTL)}
	if Chance(r, 30) {
		opts = append(opts, holdfast.WaitForRunner())
	}
	fails, begun := Chance(r, 20), false
	result, err := c.Once(Within(2*n.terms.TTL), e.Lock, func(_ context.Context, l *holdfast.Lease) error {
		n.awake()
		n.record.Observe(func() (history.Event, bool) {
			begun, e.Token = l.Valid(), uint64(l.Token())
			return e, begun
		})
		if !begun {
			return errTooLate // stopped just then
		}
		n.pause(r, n.terms.TTL/2)
		if fails {
			return errFailed
		}
		return nil
	}, opts...)
	if begun {
		e.Kind, e.OK = history.Finished, err == nil && result.Finished
		n.add(e)
	}
	if err != nil {
		n.Understand(c, "running a job", err, errTooLate, errFailed, holdfast.ErrLost)
	}
}
