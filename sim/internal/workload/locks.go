package workload

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/sim/internal/history"
)

// Locks that others know by name: that of the election, which is also had as a lock, and that whose
// value is a number which every holder takes over from the one before it.
const (
	Election   = "election"
	Checkpoint = "checkpoint"
)

const (
	ballast   = "ballast" // has large values
	setPrefix = "{set}"   // of the locks that are had alone and together
)

// Kind is a lock, or a set of several.
type Kind struct {
	Name      string
	Limit     int           // what an exclusive holder weighs
	Shared    bool          // readers weigh one, a writer has it alone
	Ranked    bool          // some callers come before others
	MinHold   time.Duration // all holders ask for it
	LockDelay time.Duration // likewise
	TTL       time.Duration // 0: the fleet's
	// Work is what holders do with it, in place of what they do with any lock.
	Work func(*holdfast.Lease, *rand.Rand)

	joins  bool     // holders may have others of the set with it
	others []string // that are had with it
}

// Plain is an exclusive lock.
func Plain(name string) Kind { return Kind{Name: name, Limit: 1} }

func (w *Workload) kinds() []Kind {
	all := append(slices.Clone(w.terms.Locks),
		Plain("a"), Kind{Name: "ranked", Limit: 1, Ranked: true},
		Kind{Name: "permits", Limit: 4}, Kind{Name: "papers", Limit: 100, Shared: true},
		Kind{Name: "rationed", Limit: 1, MinHold: w.terms.MinHold}, Kind{Name: "delayed", Limit: 1, LockDelay: w.terms.LockDelay},
		Plain(Checkpoint), Plain(Election),
	)
	for _, name := range setNames() {
		all = append(all, Kind{Name: name, Limit: 1, joins: true})
	}
	return all
}

// longs are the locks with TTLs of their own: whatever the group thinks of a node, and does to it,
// its leases are valid for much longer.
func (w *Workload) longs() []Kind {
	return []Kind{
		{Name: "minute", Limit: 1, TTL: time.Minute}, {Name: "long", Limit: 1, TTL: w.terms.Long},
		{Name: "long papers", Limit: 100, Shared: true, TTL: w.terms.Long},
	}
}

func (w *Workload) all() []Kind { return append(w.kinds(), w.longs()...) }

// IsLong reports whether a lock is one of those with TTLs of their own.
func IsLong(name string) bool {
	return slices.ContainsFunc(new(Workload).longs(), func(k Kind) bool { return k.Name == name })
}

func setNames() []string { return []string{setPrefix + "x", setPrefix + "y", setPrefix + "z"} }

func (k Kind) names() []string { return append([]string{k.Name}, k.others...) }

// with chooses one or two further names of the set, in any order.
func (k Kind) with(r *rand.Rand) Kind {
	all := setNames()
	for _, i := range r.Perm(len(all)) {
		if all[i] != k.Name {
			k.others = append(k.others, all[i])
		}
	}
	k.others = k.others[:1+r.IntN(len(k.others))]
	return k
}

func (k Kind) claim(e *history.Event, r *rand.Rand) (opts []holdfast.Option) {
	e.Others, e.Limit, e.Weight = k.others, k.Limit, k.Limit
	e.MinHold, e.LockDelay, e.TTL = k.MinHold, k.LockDelay, k.TTL
	switch {
	case k.Shared && Chance(r, 70):
		e.Weight = 1
		opts = append(opts, holdfast.WithShared())
	case k.Limit > 1 && !k.Shared:
		e.Weight = 1 + r.IntN(k.Limit)
		opts = append(opts, holdfast.WithLimit(k.Limit), holdfast.WithWeight(e.Weight))
	case k.Ranked && e.Wait:
		e.Priority = r.IntN(3)
		opts = append(opts, holdfast.WithPriority(e.Priority))
	}
	if k.TTL > 0 {
		opts = append(opts, holdfast.WithTTL(k.TTL))
	}
	if k.MinHold > 0 {
		opts = append(opts, holdfast.WithMinHold(k.MinHold))
	}
	if k.LockDelay > 0 {
		opts = append(opts, holdfast.WithLockDelay(k.LockDelay))
	}
	return opts
}

func (k Kind) whole() []holdfast.Option {
	if k.Limit > 1 && !k.Shared {
		return []holdfast.Option{holdfast.WithLimit(k.Limit), holdfast.WithWeight(k.Limit)}
	}
	return nil
}

func (k Kind) ask(ctx context.Context, c *holdfast.Cluster, wait bool, opts []holdfast.Option) (*holdfast.Lease, error) {
	switch {
	case len(k.others) > 0:
		return c.AcquireAll(ctx, k.names(), opts...)
	case wait:
		return c.Acquire(ctx, k.Name, opts...)
	}
	return c.TryAcquire(ctx, k.Name, opts...)
}

// prefix is what the node's watcher watches: mostly everything, as who misses something is found by
// what others are told.
func (n *Node) prefix() string {
	return []string{"", "", setPrefix, Election}[n.host.Index()%4]
}

func (w *Workload) under(prefix string) (names []string) {
	for _, k := range w.all() {
		if strings.HasPrefix(k.Name, prefix) {
			names = append(names, k.Name)
		}
	}
	return names
}
