package workload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/sim/internal/history"
)

const (
	ballastSize  = 56 << 10
	ballastTimes = 10 // that a holder writes it
)

func (n *Node) use(t *tenure, r *rand.Rand) {
	switch what := r.IntN(10); {
	case what < 2 && t.weight == t.kind.Limit:
		op := n.record.Op()
		_ = n.set(t, op, fmt.Sprint("value ", op), nil)
	case what < 5:
		names := t.kind.names()
		n.verify(n.any(r), names[r.IntN(len(names))], t.l.Token())
	case what < 6 || t.manual && what < 9:
		if err := t.l.Renew(Within(callLimit)); err != nil {
			n.Understand(t.c, "renewing", err, holdfast.ErrLost, holdfast.ErrReleased)
		}
	}
}

func (w *Workload) any(r *rand.Rand) *holdfast.Cluster {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.nodes[r.IntN(len(w.nodes))].host.Cluster()
}

// set writes the lock's value, with a tail that nobody looks at. Every value is written once.
func (n *Node) set(t *tenure, op uint64, value string, tail []byte) error {
	e := t.event(history.Set)
	e.Op, e.Value = op, value
	n.add(e)
	err := t.l.Set(Within(callLimit), append([]byte(value), tail...))
	if err != nil {
		n.Understand(t.c, "setting a value", err, holdfast.ErrLost)
	}
	e.Kind, e.OK = history.Done, err == nil
	n.add(e)
	return err
}

func valueOf(v []byte) string {
	head, _, _ := bytes.Cut(v, []byte("|"))
	return string(head)
}

func (n *Node) verify(c *holdfast.Cluster, lock string, token holdfast.Token) {
	if c == nil {
		return
	}
	e := n.call(history.Verify, lock)
	e.Token = uint64(token)
	n.add(e)
	err := c.Verify(Within(callLimit), lock, token)
	if err != nil {
		n.Understand(c, "verifying", err, holdfast.ErrStaleToken)
	}
	if err == nil || errors.Is(err, holdfast.ErrStaleToken) {
		e.Kind, e.OK = history.Verified, err == nil
		n.add(e)
	}
}

// burden writes large values, which a slow watcher has no room for. The holder of the lock is not
// recorded.
func (n *Node) burden(c *holdfast.Cluster, r *rand.Rand) {
	l, err := c.Acquire(Within(n.terms.TTL), ballast)
	if err != nil {
		n.Understand(c, "acquiring", err, holdfast.ErrHeld)
		return
	}
	t := &tenure{n: n, c: c, l: l, kind: Plain(ballast)}
	tail := append([]byte("|"), bytes.Repeat([]byte{'.'}, ballastSize)...)
	for range ballastTimes {
		n.pause(r, 200*time.Millisecond)
		op := n.record.Op()
		_ = n.set(t, op, fmt.Sprint("value ", op), tail)
	}
	if err := l.Release(Within(callLimit)); err != nil {
		n.Understand(c, "releasing", err, holdfast.ErrLost, holdfast.ErrUnknownOutcome)
	}
}

// The answers of a job whose lease was over before it could begin, and of one that fails: it stays
// open.
var (
	errTooLate = errors.New("the lease is over")
	errFailed  = errors.New("the job has failed")
)

// job runs the job of the time unless another node does or did.
func (n *Node) job(c *holdfast.Cluster, r *rand.Rand) {
	e := n.event(history.Begun, fmt.Sprint("job ", int64(n.record.Now()/n.terms.Pace.Job)))
	opts := []holdfast.Option{holdfast.WithTTL(n.terms.TTL)}
	if Chance(r, 30) {
		opts = append(opts, holdfast.WithWait())
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

// How long a holder thinks between what it reads and what it writes.
const (
	thinkMin = 30 * time.Millisecond
	thinkMax = 250 * time.Millisecond
)

// Think is a time for which a holder thinks. One that is stopped meanwhile may lose its lease.
func Think(r *rand.Rand) time.Duration { return thinkMin + UpTo(r, thinkMax-thinkMin) }

// checkpoint goes on from the number that the holder before left as the lock's value, and leaves a
// higher one. It does not look at its lease in between: the group alone keeps out those whose time
// is over.
func (n *Node) checkpoint(t *tenure, r *rand.Rand) {
	for range 1 + r.IntN(3) {
		info, err := n.inspect(t.c, t.kind.Name)
		if err != nil {
			return
		}
		var last int
		if len(info.Value) > 0 {
			if _, err := fmt.Sscan(string(info.Value), &last); err != nil {
				n.wrong("the checkpoint is %q", info.Value)
				return
			}
		}
		time.Sleep(Think(r))
		op := n.record.Op()
		if n.set(t, op, fmt.Sprint(last+1, " ", op), nil) != nil {
			return
		}
		n.probe(t)
	}
}

// Checkpoints finds two checkpoints that came after the same one: the first of them was lost.
func Checkpoints(h []history.Event) (found []history.Violation) {
	for _, line := range history.Lines(h) {
		written := make(map[int]history.Event)
		for _, e := range line {
			if e.Kind != history.Done || !e.OK || e.Lock != Checkpoint {
				continue
			}
			var n int
			if _, err := fmt.Sscan(e.Value, &n); err != nil {
				found = append(found, broken("a checkpoint is a number", e, "%q", e.Value))
				continue
			}
			if before, ok := written[n]; ok {
				found = append(found, broken("no checkpoint is lost", e,
					"token %d has written number %d, as token %d had at %v", e.Token, n, before.Token, before.At))
			}
			written[n] = e
		}
	}
	return found
}

func broken(rule string, e history.Event, format string, args ...any) history.Violation {
	return history.Violation{Rule: rule, At: e.At, Lock: e.Lock, Text: fmt.Sprintf(format, args...)}
}
