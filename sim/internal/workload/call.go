package workload

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/sim/internal/history"
)

type tenure struct {
	n        *Node
	c        *holdfast.Cluster
	l        *holdfast.Lease
	kind     Kind // with the others of a set
	weight   int
	manual   bool // renewed by hand
	capped   bool // by WithMaxHold
	released bool // under Record.Observe, as ended
	ended    bool
}

func (t *tenure) event(k history.Kind) history.Event {
	e := t.n.event(k, t.kind.Name)
	e.Token = uint64(t.l.Token())
	return e
}

func (t *tenure) abandoned() bool { return t.kind.LockDelay > 0 && t.manual }

func (n *Node) callAny(c *holdfast.Cluster, r *rand.Rand) {
	all := n.kinds()
	n.take(c, all[r.IntN(len(all))], r)
}

func (n *Node) callLong(c *holdfast.Cluster, r *rand.Rand) {
	all := n.longs()
	n.take(c, all[r.IntN(len(all))], r)
}

func (n *Node) take(c *holdfast.Cluster, k Kind, r *rand.Rand) {
	if k.joins && Chance(r, 60) {
		k = k.with(r)
	}
	t := &tenure{n: n, c: c, kind: k}
	e := n.call(history.Asked, k.Name)
	e.Wait = len(k.others) > 0 || Chance(r, 80)
	opts := append(k.claim(&e, r), holdfast.WithLabel(strconv.FormatUint(e.Op, 10)))
	opts = append(opts, t.terms(r)...)
	t.weight = e.Weight
	patience := 50*time.Millisecond + UpTo(r, 4*n.terms.TTL)
	if k.TTL > 0 {
		patience = UpTo(r, n.terms.Pace.Patience)
	}
	ctx, cancel := context.WithTimeout(n.rest, patience)
	defer cancel()
	if Chance(r, 10) {
		defer time.AfterFunc(UpTo(r, patience), cancel).Stop()
	}
	e.Until = n.record.Now() + patience
	n.add(e)
	l, err := k.ask(ctx, c, e.Wait, opts)
	e = history.Event{Kind: history.Granted, Op: e.Op, Node: e.Node, Lock: e.Lock, Until: n.record.Now()}
	if err != nil {
		e.Kind, e.Cause = history.Refused, err.Error()
		n.add(e)
		n.Understand(c, "acquiring", err, holdfast.ErrHeld)
		return
	}
	e.Token = uint64(l.Token())
	n.add(e)
	t.l = l
	n.hold(t, r)
	n.release(t)
}

// terms chooses whether the lease is renewed by hand, and whether it has a maximum hold time.
func (t *tenure) terms(r *rand.Rand) (opts []holdfast.Option) {
	most := 2 * t.n.terms.TTL
	switch {
	case t.kind.Work != nil || t.kind.Name == Checkpoint: // whose stopped holders are to lose their leases in the ordinary way
	case t.kind.LockDelay > 0: // many are to be lost
		t.capped, most = Chance(r, 40), t.n.terms.TTL/4
		t.manual = !t.capped && Chance(r, 40)
	case t.kind.TTL > 0:
		t.manual = Chance(r, 40)
	default:
		t.manual, t.capped = Chance(r, 10), Chance(r, 10)
	}
	if t.manual {
		opts = append(opts, holdfast.WithManualRenew())
	}
	if t.capped {
		opts = append(opts, holdfast.WithMaxHold(UpTo(r, most)))
	}
	return opts
}

func (n *Node) hold(t *tenure, r *rand.Rand) {
	n.mu.Lock()
	n.tenures[t] = struct{}{}
	n.mu.Unlock()
	if !n.probe(t) {
		return
	}
	switch {
	case t.kind.Work != nil:
		t.kind.Work(t.l, r)
		return
	case t.kind.Name == Checkpoint:
		n.checkpoint(t, r)
		return
	}
	end, stride := n.record.Now()+t.stay(r), n.terms.Pace.Glance
	if t.kind.TTL > 0 {
		stride = n.terms.Pace.Gaze
	}
	for n.record.Now() < end {
		n.pause(r, stride)
		if !n.probe(t) || n.resting() {
			return
		}
		if !t.abandoned() {
			n.use(t, r)
		}
	}
}

func (t *tenure) stay(r *rand.Rand) time.Duration {
	ttl := t.n.terms.TTL
	switch {
	case t.abandoned(), t.capped && Chance(r, 50): // until it is over
		return math.MaxInt64 / 2
	case t.kind.TTL > 0:
		return UpTo(r, t.n.terms.Pace.Hold)
	case Chance(r, 85):
		return UpTo(r, ttl/8)
	}
	return UpTo(r, 2*ttl)
}

// gives begins to release a lease and reports whether it was not found over before.
func (n *Node) gives(t *tenure) (valid bool) {
	n.record.Observe(func() (history.Event, bool) {
		t.released, valid = true, !t.ended
		return t.event(history.Release), valid
	})
	return valid
}

// release releases a lease and reports whether that is certain.
func (n *Node) release(t *tenure) bool {
	n.awake()
	n.probe(t)
	n.gives(t)
	err := t.l.Release(Within(callLimit))
	n.forget(t)
	if err != nil {
		n.Understand(t.c, "releasing", err, holdfast.ErrLost, holdfast.ErrUnknownOutcome)
		return false
	}
	n.add(t.event(history.Released))
	return true
}

func (w *Workload) forget(t *tenure) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.tenures, t)
}

// probe looks, on nodes that are awake, at all leases that have a name in common with one, and then
// at that one; false: it is over.
func (w *Workload) probe(t *tenure) bool {
	w.mu.Lock()
	var others []*tenure
	for o := range w.tenures {
		if o != t && slices.ContainsFunc(o.kind.names(), func(name string) bool { return slices.Contains(t.kind.names(), name) }) {
			others = append(others, o)
		}
	}
	w.mu.Unlock()
	for _, o := range others {
		select {
		case <-o.n.host.Awake():
			w.see(o)
		default:
		}
	}
	return w.see(t)
}

func (w *Workload) see(t *tenure) (valid bool) {
	w.record.Observe(func() (history.Event, bool) {
		left := t.l.Remaining()
		switch valid = t.l.Valid() && !t.ended; {
		case valid:
			e := t.event(history.Held)
			e.Remaining = left
			return e, true
		case t.ended || t.released:
			return history.Event{}, false
		}
		t.ended = true
		e := t.event(history.Ended)
		e.Cause = cause(t.l.Err(), t.manual)
		return e, true
	})
	return valid
}

// cause is why a lease is over, as the checks know it.
func cause(err error, manual bool) string {
	switch {
	case errors.Is(err, holdfast.ErrReleased):
		return history.CauseReleased
	case err == nil || !errors.Is(err, holdfast.ErrExpired) || strings.Contains(err.Error(), "this node"):
		return fmt.Sprint(err) // it may be because of a newer process, or because the node was removed
	case manual:
		return history.CauseLapsed
	}
	return history.CauseExpired
}

// Keepers are the nodes that hold a lock with a TTL of its own now, in their order.
func (w *Workload) Keepers() (nodes []int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for t := range w.tenures {
		if t.kind.TTL > 0 && t.l.Valid() {
			nodes = append(nodes, t.n.host.Index())
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}
