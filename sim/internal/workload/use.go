package workload

import (
	"bytes"
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

// use does one of the things that a holder can do.
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

// any is what runs on one of the nodes, by chance; nil if nothing does.
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

// valueOf is a value without its tail.
func valueOf(v []byte) string {
	head, _, _ := bytes.Cut(v, []byte("|"))
	return string(head)
}

// verify asks the group whether a token is current.
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

// burden writes large values, which a slow watcher has no room for. Who has the lock is not
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
