package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/history"
	"github.com/holdfast-go/holdfast/sim"
)

// kind is a lock of the random test.
type kind struct {
	name  string
	limit int // 1: exclusive
}

func kinds() []kind { return []kind{{"a", 1}, {"b", 1}, {"c", 1}, {"permits", 4}} }

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

func pause(r *rand.Rand, max time.Duration) {
	time.Sleep(time.Millisecond + time.Duration(r.Int64N(int64(max))))
}

func chance(r *rand.Rand, percent int) bool { return r.IntN(100) < percent }

// caller asks for locks on node i and holds them, again and again.
func (x *nemesis) caller(i int, r *rand.Rand) {
	n := x.s.Node(i)
	for !x.resting() {
		pause(r, 500*time.Millisecond)
		<-n.Awake()
		if c := n.Cluster(); c != nil {
			x.call(n, c, r)
		}
	}
}

func (x *nemesis) call(n *sim.Node, c *holdfast.Cluster, r *rand.Rand) {
	k := kinds()[r.IntN(len(kinds()))]
	weight := 1 + r.IntN(k.limit)
	t := &tenure{n: n, kind: k, manual: chance(r, 10)}
	op := x.rec.Op()
	opts := []holdfast.Option{holdfast.WithLabel(strconv.FormatUint(op, 10))}
	if k.limit > 1 {
		opts = append(opts, holdfast.WithLimit(k.limit), holdfast.WithWeight(weight))
	}
	if t.manual {
		opts = append(opts, holdfast.WithManualRenew())
	}
	capped := chance(r, 10)
	if capped {
		opts = append(opts, holdfast.WithMaxHold(time.Millisecond+time.Duration(r.Int64N(int64(2*x.ttl)))))
	}
	patience := 50*time.Millisecond + time.Duration(r.Int64N(int64(4*x.ttl)))
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if chance(r, 10) {
		time.AfterFunc(time.Duration(r.Int64N(int64(patience))), cancel)
	}
	ask, wait := c.Acquire, chance(r, 80)
	if !wait {
		ask = c.TryAcquire
	}
	e := history.Event{Kind: history.Asked, Op: op, Node: n.Index(), Lock: k.name}
	asked := e
	asked.Wait, asked.Until, asked.Weight, asked.Limit = wait, time.Since(x.begin)+patience, weight, k.limit
	x.rec.Add(asked)
	l, err := ask(ctx, k.name, opts...)
	e.Until = time.Since(x.begin)
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
	x.hold(c, t, r, capped && chance(r, 50))
}

// understand complains about errors that no caller expects when nodes crash and networks break.
func (x *nemesis) understand(what string, err error, also ...error) {
	for _, allowed := range append(also, holdfast.ErrNoQuorum, holdfast.ErrClosed, holdfast.ErrRemoved, context.Canceled, context.DeadlineExceeded) {
		if errors.Is(err, allowed) {
			return
		}
	}
	x.t.Errorf("%s answered %v", what, err)
}

// hold does what holders do, and releases the lease at the end, or leaves that to its maximum hold time.
func (x *nemesis) hold(c *holdfast.Cluster, t *tenure, r *rand.Rand, leave bool) {
	x.mu.Lock()
	x.tenures[t] = struct{}{}
	x.mu.Unlock()
	defer func() {
		x.probe(t.kind.name)
		x.mu.Lock()
		delete(x.tenures, t)
		x.mu.Unlock()
	}()
	x.probe(t.kind.name)
	end := time.Now().Add(time.Duration(r.Int64N(int64(2 * x.ttl))))
	if chance(r, 70) {
		end = time.Now().Add(time.Duration(r.Int64N(int64(x.ttl / 4))))
	}
	for time.Now().Before(end) || leave {
		pause(r, 300*time.Millisecond)
		<-t.n.Awake()
		x.probe(t.kind.name)
		if !t.l.Valid() {
			break
		}
		x.use(c, t, r)
	}
	<-t.n.Awake()
	x.release(t)
}

func (x *nemesis) release(t *tenure) {
	e := history.Event{Kind: history.Release, Node: t.n.Index(), Lock: t.kind.name, Token: uint64(t.l.Token())}
	x.rec.Observe(func() (history.Event, bool) { t.released = true; return e, !t.ended })
	err := t.l.Release(until(time.Second))
	if err != nil {
		x.understand("releasing", err, holdfast.ErrLost)
		return
	}
	e.Kind = history.Released
	x.rec.Add(e)
}

// use does one of the things that a holder can do.
func (x *nemesis) use(c *holdfast.Cluster, t *tenure, r *rand.Rand) {
	ctx := until(time.Second)
	e := history.Event{Node: t.n.Index(), Lock: t.kind.name, Token: uint64(t.l.Token())}
	switch what := r.IntN(10); {
	case what < 2 && t.kind.limit == 1:
		e.Kind, e.Op, e.Value = history.Set, x.rec.Op(), fmt.Sprint("value", x.sets.Add(1))
		x.rec.Add(e)
		err := t.l.Set(ctx, []byte(e.Value))
		if err != nil {
			x.understand("setting a value", err, holdfast.ErrLost)
		}
		e.Kind, e.OK = history.Done, err == nil
		x.rec.Add(e)
	case what < 5:
		other := x.s.Nodes()[r.IntN(len(x.s.Nodes()))]
		x.verify(other, e, r)
	case what < 6 || t.manual && what < 9:
		if err := t.l.Renew(ctx); err != nil {
			x.understand("renewing", err, holdfast.ErrLost, holdfast.ErrReleased)
		}
	}
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

// probe looks at all leases of a lock on nodes that are awake.
func (x *nemesis) probe(name string) {
	x.mu.Lock()
	var all []*tenure
	for t := range x.tenures {
		if t.kind.name == name {
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
			e := history.Event{Node: t.n.Index(), Lock: name, Token: uint64(t.l.Token())}
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

// watch looks at the locks from all nodes until the callers rest.
func (x *nemesis) watch(r *rand.Rand) {
	for !x.resting() {
		pause(r, 300*time.Millisecond)
		x.change(func() {})
		n, k := x.s.Nodes()[r.IntN(len(x.s.Nodes()))], kinds()[r.IntN(len(kinds()))]
		c := n.Cluster()
		if c == nil {
			continue
		}
		e := history.Event{Kind: history.Look, Op: x.rec.Op(), Node: n.Index(), Lock: k.name}
		x.rec.Add(e)
		info, err := c.Inspect(until(time.Second), k.name)
		if err != nil {
			x.understand("inspecting", err)
			continue
		}
		e.Kind, e.Value = history.Looked, string(info.Value)
		for _, w := range info.Waiters {
			op, err := strconv.ParseUint(w.Label, 10, 64)
			if err != nil {
				x.t.Errorf("a waiter with the label %q", w.Label)
			}
			e.Queue = append(e.Queue, op)
		}
		x.rec.Add(e)
		if len(info.Holders) == 0 && len(info.Waiters) > 0 {
			x.t.Errorf("%q is free and somebody waits: %+v", k.name, info)
		}
	}
}
