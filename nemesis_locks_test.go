package holdfast_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/history"
	"github.com/holdfast-go/holdfast/sim"
)

// kind is a lock of the random test, or a set of several.
type kind struct {
	name    string
	others  []string // a set
	limit   int      // 1: exclusive
	shared  bool     // readers weigh one, a writer as much as the limit
	ranked  bool     // some callers come before others
	minHold time.Duration
	delay   time.Duration
	ttl     time.Duration // 0: the fleet's
}

const (
	crown   = "crown" // the election
	ballast = "ballast"
)

// kinds are all locks that callers ask for. The sets share names with each other, in another order, and with locks.
func (x *nemesis) kinds() []kind {
	return []kind{
		{name: "a", limit: 1}, {name: "b", limit: 1, ranked: true},
		{name: "permits", limit: 4}, {name: "papers", limit: 100, shared: true},
		{name: "{t}x", limit: 1}, {name: "{t}y", limit: 1},
		{name: "{t}x", others: []string{"{t}y"}, limit: 1},
		{name: "{t}y", others: []string{"{t}z", "{t}x"}, limit: 1},
		{name: "rationed", limit: 1, minHold: x.ttl}, {name: "delayed", limit: 1, delay: 2 * x.ttl},
		{name: crown, limit: 1},
	}
}

func (k kind) names() []string { return append([]string{k.name}, k.others...) }

// names are those of all kinds, each once.
func (x *nemesis) names() (all []string) {
	for _, k := range append(x.kinds(), x.longs()...) {
		for _, name := range k.names() {
			if !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	return all
}

// claim fills in what a call of this kind asks for, and answers its options.
func (k kind) claim(e *history.Event, r *rand.Rand) (opts []holdfast.Option) {
	e.Lock, e.Others, e.Limit, e.Weight, e.MinHold, e.LockDelay, e.TTL = k.name, k.others, k.limit, k.limit, k.minHold, k.delay, k.ttl
	opts = append(opts, holdfast.WithLabel(strconv.FormatUint(e.Op, 10)))
	switch {
	case k.shared && chance(r, 70):
		e.Weight = 1
		opts = append(opts, holdfast.WithShared())
	case k.limit > 1 && !k.shared:
		e.Weight = 1 + r.IntN(k.limit)
		opts = append(opts, holdfast.WithLimit(k.limit), holdfast.WithWeight(e.Weight))
	case k.ranked && e.Wait:
		e.Priority = r.IntN(3)
		opts = append(opts, holdfast.WithPriority(e.Priority))
	}
	if k.ttl > 0 {
		opts = append(opts, holdfast.WithTTL(k.ttl))
	}
	if k.minHold > 0 {
		opts = append(opts, holdfast.WithMinHold(k.minHold))
	}
	if k.delay > 0 {
		opts = append(opts, holdfast.WithLockDelay(k.delay))
	}
	return opts
}

// ask asks for a lock or a set.
func (k kind) ask(ctx context.Context, c *holdfast.Cluster, wait bool, opts []holdfast.Option) (*holdfast.Lease, error) {
	switch {
	case len(k.others) > 0:
		return c.AcquireAll(ctx, k.names(), opts...)
	case wait:
		return c.Acquire(ctx, k.name, opts...)
	}
	return c.TryAcquire(ctx, k.name, opts...)
}

// look looks at the locks from all nodes until the callers rest, and now and then frees one by force.
func (x *nemesis) look(r *rand.Rand) {
	for !x.resting() {
		pause(r, x.pace.look)
		n := x.s.Nodes()[r.IntN(len(x.s.Nodes()))]
		c := n.Cluster()
		if c == nil {
			continue
		}
		switch what := r.IntN(10); {
		case what < 2:
			x.list(n, c, "{t}")
		case what < 4:
			x.who(n, c)
		default:
			x.inspect(n, c, x.names()[r.IntN(len(x.names()))], chance(r, 10))
		}
	}
}

func (x *nemesis) inspect(n *sim.Node, c *holdfast.Cluster, name string, rob bool) {
	e := history.Event{Kind: history.Look, Op: x.rec.Op(), Node: n.Index(), Lock: name}
	x.rec.Add(e)
	info, err := c.Inspect(until(time.Second), name)
	if err != nil {
		x.understand("inspecting", err)
		return
	}
	e = x.seen(e, info)
	x.rec.Add(e)
	if len(info.Holders) == 0 && len(info.Waiters) > 0 && info.Delayed == 0 && name[0] != '{' {
		x.t.Errorf("%q is free and somebody waits: %+v", name, info)
	}
	if len(info.Holders) > 0 && rob {
		x.rob(n, c, name, info.Holders[0].Token)
	}
}

// list looks at all locks of a prefix at one moment.
func (x *nemesis) list(n *sim.Node, c *holdfast.Cluster, prefix string) bool {
	e := history.Event{Kind: history.Look, Op: x.rec.Op(), Node: n.Index(), Lock: prefix}
	x.rec.Add(e)
	infos := make(map[string]holdfast.LockInfo)
	for info, err := range c.Locks(until(time.Second), prefix) {
		if err != nil {
			x.understand("listing", err)
			return false
		}
		infos[info.Name] = info
	}
	for _, name := range x.names() {
		if len(name) > len(prefix) && name[:len(prefix)] == prefix {
			e.Lock = name
			x.rec.Add(x.seen(e, infos[name]))
		}
	}
	return true
}

// seen is the answer to a look.
func (x *nemesis) seen(e history.Event, info holdfast.LockInfo) history.Event {
	e.Kind, e.Value, e.Tokens = history.Looked, valueOf(info.Value), []uint64{}
	for _, w := range info.Waiters {
		e.Queue = append(e.Queue, x.opOf(w.Label))
	}
	for _, h := range info.Holders {
		e.Tokens = append(e.Tokens, uint64(h.Token))
	}
	return e
}

// opOf is the call that a label stands for, 0 if it stands for none: the service's own and the last ones have none.
func (x *nemesis) opOf(label string) uint64 {
	if label == "" {
		return 0
	}
	op, err := strconv.ParseUint(label, 10, 64)
	if err != nil {
		x.t.Errorf("the label %q", label)
	}
	return op
}

// rob frees a grant by force.
func (x *nemesis) rob(n *sim.Node, c *holdfast.Cluster, name string, token holdfast.Token) {
	e := history.Event{Kind: history.Force, Op: x.rec.Op(), Node: n.Index(), Lock: name, Token: uint64(token)}
	x.rec.Add(e)
	err := c.ForceRelease(until(time.Second), name, token, "the random test")
	if err != nil {
		x.understand("freeing", err, holdfast.ErrStaleToken)
		if errors.Is(err, holdfast.ErrStaleToken) {
			return
		}
	}
	e.Kind, e.OK = history.Forced, err == nil
	x.rec.Add(e)
}

// takeAll acquires every lock whole on every node: nothing may be stuck.
func (x *nemesis) takeAll() {
	for i, n := range x.s.Nodes() {
		if n.Cluster() == nil {
			continue // it could not be opened, which was told
		}
		for _, k := range append(append(x.kinds(), kind{name: ballast, limit: 1}), x.longs()...) {
			if k.ttl > longWait {
				x.clear(n, k.name)
			}
			ctx, opts := until(max(x.ttl, min(k.ttl, longWait))+x.late+k.minHold+k.delay), []holdfast.Option{}
			if k.limit > 1 && !k.shared {
				opts = append(opts, holdfast.WithLimit(k.limit), holdfast.WithWeight(k.limit))
			}
			l, err := k.ask(ctx, n.Cluster(), true, opts)
			if err != nil {
				info, _ := n.Cluster().Inspect(until(time.Second), k.name)
				x.t.Errorf("at the end %q cannot be had on node %d: %v\n%+v", k.names(), i, err, info)
				continue
			}
			if err := l.Release(until(time.Second)); err != nil {
				x.t.Errorf("at the end %q cannot be released on node %d: %v", k.names(), i, err)
			}
		}
	}
}
