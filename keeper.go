package holdfast

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/loop"
	"github.com/holdfast-go/holdfast/internal/session"
)

const (
	// keeperPause is the longest sleep of the keeper while there are sessions. Go's timers stand
	// still while a machine is suspended, so the end of a lease is looked for at least this often.
	keeperPause = 250 * time.Millisecond
	cleaners    = 4 // goroutines that pay debts while there are any

	cleanPause = 100 * time.Millisecond // until what the group had no room for is tried again
)

// keeper runs this node's sessions: package session decides, and the keeper has the clock, the
// goroutines and the way to the group. It renews them, and ends their leases at the end of their
// validity, with or without a network.
type keeper struct {
	loop.Loop
	c     *Cluster
	table *session.Table
	drops drops

	mu       sync.Mutex
	cleaners int // goroutines of clean
}

func newKeeper(c *Cluster) *keeper {
	k := &keeper{c: c, table: session.New(c.cfg.MaxClockDrift, rand.Float64)}
	k.Loop = loop.New(k.step)
	return k
}

// attend sees to what the table asks for after a call of one of its methods.
func (k *keeper) attend() {
	if k.table.Urgent() {
		k.Wake()
	}
	if !k.table.Owes() {
		return
	}
	k.mu.Lock()
	start := k.cleaners < cleaners
	if start {
		k.cleaners++
	}
	k.mu.Unlock()
	if start {
		k.c.goRun(k.clean)
	}
}

// step takes the table's steps.
func (k *keeper) step(context.Context) (pause time.Duration) {
	k.tellDropped()
	now := k.c.clock.Now()
	work := k.table.Step(now)
	for _, keepalive := range work.Keepalives {
		k.c.goRun(func(ctx context.Context) { k.keepalive(ctx, keepalive) })
	}
	k.attend()
	if work.Idle {
		return loop.UntilWoken
	}
	return min(keeperPause, time.Duration(work.Next-now))
}

// keepalive makes one attempt: the plan decides on the next.
func (k *keeper) keepalive(ctx context.Context, keepalive session.Keepalive) {
	defer k.attend()
	if group, _ := k.c.proposer.Current(); group != nil {
		if out, err := group.Propose(ctx, fsm.Encode(keepalive.Command)); err == nil {
			k.c.renewed(nil)
			k.table.Answered(keepalive, out, k.c.clock.Now())
			return
		}
	}
	k.c.renewed(ErrNoQuorum)
	k.table.Unanswered(keepalive)
}

// renew renews one session now.
func (k *keeper) renew(ctx context.Context, s *session.Session) error {
	if s.Manual() {
		return k.renewFor(ctx, s, s.TTL())
	}
	_, err := k.send(ctx, k.table.Renewal(k.c.clock.Now(), s))
	return err
}

// renewFor renews the session of a manually renewed lease, which has this TTL from then on.
func (k *keeper) renewFor(ctx context.Context, s *session.Session, ttl time.Duration) error {
	for {
		keepalive := k.table.Retiming(k.c.clock.Now(), s, ttl)
		k.attend() // the holder may rely on less from now on
		if out, err := k.send(ctx, keepalive); err != nil || out.Code != fsm.CodeFinished {
			return err
		}
	}
}

// send has a keepalive proposed until its outcome is known.
func (k *keeper) send(ctx context.Context, keepalive session.Keepalive) (fsm.Outcome, error) {
	defer k.attend()
	out, _, err := k.c.propose(ctx, keepalive.Command)
	k.c.renewed(err)
	if err == nil {
		k.table.Answered(keepalive, out, k.c.clock.Now())
	}
	return out, err
}

// handOver leaves the renewal of a manual session to its caller.
func (k *keeper) handOver(ctx context.Context, s *session.Session) {
	_ = k.renew(ctx, s)
	k.table.HandOver(s, k.c.clock.Now())
	k.attend()
}

// lose ends a session and everything on it.
func (k *keeper) lose(s *session.Session, cause error) {
	k.table.Lose(s, cause)
	k.attend()
}

// loseAll ends every session for cause.
func (k *keeper) loseAll(cause error) {
	k.table.LoseAll(cause)
	k.attend()
}

// withdraw has the group told that nobody waits for a request any more.
func (k *keeper) withdraw(s *session.Session, request uint64) {
	k.table.Withdraw(s, request)
	k.attend()
}

// release gives a lease back that has ended here, and closes its session if that is its own.
func (k *keeper) release(ctx context.Context, l *tenure) error {
	p := k.c.proposer
	if err := k.c.enter(ctx, p.Holders); err != nil {
		k.releaseLater(l)
		return err
	}
	buf := p.Buffer()
	out, unknown, err := k.c.admitted(ctx, p.Holders, l.grant.AppendRelease((*buf)[:0], k.c.clock.Now()))
	p.Free(buf)
	if err != nil {
		k.releaseLater(l)
		return err
	}
	defer k.attend()
	switch l.grant.ReleaseAnswered(out, unknown, func() (fsm.PastGrant, bool) { return k.c.endOf(l.grant.Name(), l.token()) }) {
	case session.Done:
		return nil
	case session.Unknown:
		return ErrUnknownOutcome
	}
	return lost(ErrStaleToken)
}

// releaseLater gives back a lease that has ended here, without anybody waiting for it.
func (k *keeper) releaseLater(l *tenure) {
	l.grant.ReleaseLater(k.c.clock.Now())
	k.attend()
}

// clean pays debts until there is none or ctx ends.
func (k *keeper) clean(ctx context.Context) {
	for d := k.nextDebt(); d != nil && ctx.Err() == nil; d = k.nextDebt() {
		k.pay(ctx, d)
	}
}

// nextDebt takes a debt. When there is none the goroutine that asks must end.
func (k *keeper) nextDebt() *session.Debt {
	k.mu.Lock()
	defer k.mu.Unlock()
	d := k.table.Owed()
	if d == nil {
		k.cleaners--
	}
	return d
}

// pay tells the group all of a debt. What it had no room for is owed again a little later.
func (k *keeper) pay(ctx context.Context, d *session.Debt) {
	for cmd := d.Command(); cmd != nil; cmd = d.Command() {
		out, err := k.c.insist(ctx, cmd)
		if err != nil {
			return
		}
		d.Paid(out, k.c.clock.Now())
		k.attend()
	}
	if !d.Refused() {
		return
	}
	select {
	case <-time.After(cleanPause):
		d.Again()
	case <-ctx.Done():
	}
}
