package holdfast_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/history"
	"github.com/holdfast-go/holdfast/sim"
)

// tenure is a lease that the run looks at.
type tenure struct {
	n        *sim.Node
	l        *holdfast.Lease
	kind     kind
	manual   bool
	released bool // under the recorder's lock, as ended
	ended    bool
}

func (x *nemesis) resting() bool {
	select {
	case <-x.rest:
		return true
	default:
		return false
	}
}

// pause is some virtual time, by chance.
func pause(r *rand.Rand, max time.Duration) {
	time.Sleep(time.Millisecond + time.Duration(r.Int64N(int64(max))))
}

func chance(r *rand.Rand, percent int) bool { return r.IntN(100) < percent }

// caller asks for locks on node i and holds them, again and again.
func (x *nemesis) caller(i int, r *rand.Rand) {
	n := x.s.Node(i)
	for !x.resting() {
		pause(r, x.pace.call)
		<-n.Awake()
		if c := n.Cluster(); c != nil {
			x.call(n, c, x.kinds()[r.IntN(len(x.kinds()))], r)
		}
	}
}

func (x *nemesis) call(n *sim.Node, c *holdfast.Cluster, k kind, r *rand.Rand) {
	t := &tenure{n: n, kind: k, manual: chance(r, 10) || k.ttl > 0 && chance(r, 40)}
	e := history.Event{Kind: history.Asked, Op: x.rec.Op(), Node: n.Index(), Wait: len(k.others) > 0 || chance(r, 80)}
	opts := k.claim(&e, r)
	if t.manual {
		opts = append(opts, holdfast.WithManualRenew())
	}
	capped := chance(r, 10) && k.ttl == 0
	if capped {
		opts = append(opts, holdfast.WithMaxHold(time.Millisecond+time.Duration(r.Int64N(int64(2*x.ttl)))))
	}
	patience := 50*time.Millisecond + time.Duration(r.Int64N(int64(4*x.ttl)))
	if k.ttl > 0 {
		patience = upTo(r, x.pace.patience)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if chance(r, 10) {
		time.AfterFunc(time.Duration(r.Int64N(int64(patience))), cancel)
	}
	e.Until = time.Since(x.begin) + patience
	x.rec.Add(e)
	l, err := k.ask(ctx, c, e.Wait, opts)
	e = history.Event{Op: e.Op, Node: e.Node, Lock: e.Lock, Until: time.Since(x.begin)}
	<-n.Awake()
	if err != nil {
		x.understand("acquiring", err, holdfast.ErrHeld)
		e.Kind, e.Cause = history.Refused, err.Error()
		x.rec.Add(e)
		return
	}
	e.Kind, e.Token = history.Granted, uint64(l.Token())
	x.rec.Add(e)
	t.l = l
	x.hold(t, r, capped && chance(r, 50))
	<-t.n.Awake()
	x.release(t)
}

// understand complains about errors that no caller expects when nodes crash, disks move and networks break.
func (x *nemesis) understand(what string, err error, also ...error) {
	for _, allowed := range append(also, holdfast.ErrNoQuorum, holdfast.ErrClosed, holdfast.ErrRemoved, holdfast.ErrIncompatible, context.Canceled, context.DeadlineExceeded) {
		if errors.Is(err, allowed) {
			return
		}
	}
	x.t.Errorf("%s answered %v", what, err)
}

// hold does what holders do, until it has done enough or its lease is lost; or leaves its end to its maximum hold time.
func (x *nemesis) hold(t *tenure, r *rand.Rand, leave bool) {
	x.mu.Lock()
	x.tenures[t] = struct{}{}
	x.mu.Unlock()
	defer func() {
		x.probe(t.kind)
		x.mu.Lock()
		delete(x.tenures, t)
		x.mu.Unlock()
	}()
	x.probe(t.kind)
	end, glance := time.Now().Add(time.Duration(r.Int64N(int64(2*x.ttl)))), x.pace.glance
	if t.kind.ttl > 0 {
		end, glance = time.Now().Add(upTo(r, x.pace.hold)), x.pace.gaze
	} else if chance(r, 70) {
		end = time.Now().Add(time.Duration(r.Int64N(int64(x.ttl / 4))))
	}
	for time.Now().Before(end) || leave {
		pause(r, glance)
		<-t.n.Awake()
		x.probe(t.kind)
		if !t.l.Valid() {
			break
		}
		x.use(t, r)
	}
}

// gives begins to release a lease, unless it was found over before.
func (x *nemesis) gives(t *tenure) history.Event {
	e := history.Event{Kind: history.Release, Node: t.n.Index(), Lock: t.kind.name, Token: uint64(t.l.Token())}
	x.rec.Observe(func() (history.Event, bool) { t.released = true; return e, !t.ended })
	e.Kind = history.Released
	return e
}

// release releases a lease and reports whether that is certain.
func (x *nemesis) release(t *tenure) bool {
	released := x.gives(t)
	err := t.l.Release(until(time.Second))
	if err != nil {
		x.understand("releasing", err, holdfast.ErrLost, holdfast.ErrUnknownOutcome)
		return false
	}
	x.rec.Add(released)
	return true
}

// use does one of the things that a holder can do.
func (x *nemesis) use(t *tenure, r *rand.Rand) {
	ctx := until(time.Second)
	e := history.Event{Node: t.n.Index(), Lock: t.kind.name, Token: uint64(t.l.Token())}
	switch what := r.IntN(10); {
	case what < 2 && t.kind.limit == 1:
		x.set(t, nil)
	case what < 5:
		other := x.s.Nodes()[r.IntN(len(x.s.Nodes()))]
		e.Lock = t.kind.names()[r.IntN(len(t.kind.names()))]
		x.verify(other, e, r)
	case what < 6 || t.manual && what < 9:
		if err := t.l.Renew(ctx); err != nil {
			x.understand("renewing", err, holdfast.ErrLost, holdfast.ErrReleased)
		}
	}
}

// set writes a new value, with a tail that nobody looks at.
func (x *nemesis) set(t *tenure, tail []byte) {
	e := history.Event{
		Kind: history.Set, Op: x.rec.Op(), Node: t.n.Index(), Lock: t.kind.name, Token: uint64(t.l.Token()),
		Value: fmt.Sprint("value", x.sets.Add(1)),
	}
	x.rec.Add(e)
	err := t.l.Set(until(time.Second), append([]byte(e.Value), tail...))
	if err != nil {
		x.understand("setting a value", err, holdfast.ErrLost)
	}
	e.Kind, e.OK = history.Done, err == nil
	x.rec.Add(e)
}

// valueOf is a value without its tail.
func valueOf(v []byte) string {
	head, _, _ := bytes.Cut(v, []byte("|"))
	return string(head)
}

// verify asks node n about the token of e.
func (x *nemesis) verify(n *sim.Node, e history.Event, r *rand.Rand) {
	c := n.Cluster()
	if c == nil {
		return
	}
	e.Kind, e.Op = history.Verify, x.rec.Op()
	x.rec.Add(e)
	err := c.Verify(until(time.Second), e.Lock, holdfast.Token(e.Token))
	if err != nil {
		x.understand("verifying", err, holdfast.ErrStaleToken)
	}
	if err == nil || errors.Is(err, holdfast.ErrStaleToken) {
		e.Kind, e.OK = history.Verified, err == nil
		x.rec.Add(e)
	}
}

// probe looks, on nodes that are awake, at all leases that have a name of a kind.
func (x *nemesis) probe(k kind) {
	x.mu.Lock()
	var all []*tenure
	for t := range x.tenures {
		if slices.ContainsFunc(t.kind.names(), func(name string) bool { return slices.Contains(k.names(), name) }) {
			all = append(all, t)
		}
	}
	rates := append([]float64(nil), x.rates...)
	x.mu.Unlock()
	for _, t := range all {
		select {
		case <-t.n.Awake():
		default:
			continue
		}
		x.rec.Observe(func() (history.Event, bool) {
			e := history.Event{Node: t.n.Index(), Lock: t.kind.name, Token: uint64(t.l.Token())}
			switch {
			case t.ended || t.released && !t.l.Valid():
				return e, false
			case t.l.Valid():
				e.Kind = history.Held
				e.Remaining = time.Duration(float64(t.l.Remaining()) / rates[e.Node])
				return e, true
			}
			t.ended = true
			e.Kind, e.Cause = history.Ended, cause(t)
			return e, true
		})
	}
}

func cause(t *tenure) string {
	err := t.l.Err()
	switch {
	case errors.Is(err, holdfast.ErrReleased):
		return history.CauseReleased
	case err != nil && errors.Is(err, holdfast.ErrExpired) && !t.manual && !strings.Contains(err.Error(), "this node"):
		return history.CauseExpired // and not because of a newer process, or because the node was removed
	}
	return fmt.Sprint(err)
}
