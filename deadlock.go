package holdfast

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/lease"
)

// Blocked says why a lock cannot be had at once.
type Blocked struct {
	Name    string
	Holders []Hold   // who has it
	Rests   []Rest   // places that stay taken though their holder is gone
	Before  []Holder // who waits and will be served before this node's first waiting call; all who wait if it has none
	Waiting int      // calls of this node that wait
	Cycles  []Cycle  // in which waiters of this lock wait for each other
}

// Hold is one who has a lock.
type Hold struct {
	Holder
	Held time.Duration // approximately, by this node's clock; zero if the grant began before this node remembers
	// Remaining is about how long the lock would still be taken if the holder's node died now. A
	// holder that lives renews it.
	Remaining time.Duration
}

// Rest is a place that stays taken: WithMinHold, WithLockDelay.
type Rest struct {
	Token     Token         // of the grant that was there
	Remaining time.Duration // about
}

// Cycle is a cycle in the wait-for graph: each caller waits for a lock that the next one holds, and
// the last waits for a lock that the first holds.
type Cycle []Wait

// Wait is a caller that waits.
type Wait struct {
	Holder
	Name string // of the lock
}

// WhyBlocked returns who has a lock and for how long still, who waits before this node, and whether
// callers wait for each other in a cycle: a linearizable read.
//
// What a caller holds while it waits is known from the context that it gives to Acquire: that of
// Lease.Context, or of the functions of Do, Lead and Once. A caller that holds a lock and waits for
// another under some other context is not seen. A caller that waits for permits is in no cycle as
// long as holders outside of the cycle can return enough of them. WithDeadlockCheck refuses a call
// that would close a cycle. A search looks at 10,000 holders and waiters at most, and delays no
// other call.
func (c *Cluster) WhyBlocked(ctx context.Context, name string) (Blocked, error) {
	if err := checkCall(ctx, name); err != nil {
		return Blocked{}, err
	}
	b := Blocked{Name: name}
	group, err := c.current(ctx)
	if err != nil {
		return Blocked{}, err
	}
	c.blockedBy(&b, group.Fork()) // the replica goes on applying meanwhile
	return b, nil
}

// blockedBy fills b in from a state.
func (c *Cluster) blockedBy(b *Blocked, m *fsm.Machine) {
	l, _ := m.Lock(b.Name)
	now := c.clock.Now()
	for _, h := range l.Holders {
		hold := Hold{Holder: holder(h, l.Value), Held: c.held(h.Granted, now)}
		if s, ok := m.Session(h.Session); ok {
			hold.Remaining = c.left(s.Renewed, s.TTL, now)
		}
		b.Holders = append(b.Holders, hold)
	}
	for _, r := range l.Rests {
		b.Rests = append(b.Rests, Rest{Token(r.Token), c.left(r.Since, r.For, now)})
	}
	for _, w := range l.Waiters {
		if w.Session.Node == c.self.Node {
			b.Waiting++
		} else if b.Waiting == 0 {
			b.Before = append(b.Before, holder(w, l.Value))
		}
	}
	for _, cycle := range m.Cycles(b.Name) {
		var waits Cycle
		for _, w := range cycle {
			waits = append(waits, Wait{holder(w.Holder, nil), public(w.Name)})
		}
		b.Cycles = append(b.Cycles, waits)
	}
}

// held is how long ago a command was applied, 0 if that is not known.
func (c *Cluster) held(since uint64, now lease.Instant) time.Duration {
	begin, known := c.indexTimes.At(since, now)
	if !known {
		return 0
	}
	return time.Duration(now - begin)
}

// left is what is left of a time that began when a command was applied, as this node's clock sees
// it.
func (c *Cluster) left(since uint64, d time.Duration, now lease.Instant) time.Duration {
	begin, known := c.indexTimes.At(since, now)
	if !known {
		return d
	}
	return max(0, d-time.Duration(now-begin))
}

// leaseKey is the key under which a lease's context carries it.
type leaseKey struct{}

// within are the tokens of the leases in whose contexts ctx was made, the innermost first.
func (c *Cluster) within(ctx context.Context) (tokens []uint64) {
	for len(tokens) < fsm.WhileMax {
		l, _ := ctx.Value(leaseKey{}).(*tenure)
		if l == nil {
			break
		}
		if l.c == c && !l.grant.Over() {
			tokens = append(tokens, l.grant.Token())
		}
		ctx = l.asked
	}
	return tokens
}
