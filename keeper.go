package holdfast

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/expiry"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/loop"
	"github.com/holdfast-go/holdfast/internal/seam"
	"github.com/holdfast-go/holdfast/internal/session"
)

const (
	// keeperPause is the longest sleep of the keeper while there are sessions. Go's timers stand
	// still while a machine is suspended, so the end of a lease is looked for at least this often.
	keeperPause = 250 * time.Millisecond
	cleaners    = 4                      // goroutines that pay debts while there are any
	cleanPause  = 100 * time.Millisecond // before a debt is tried again, as one that the group had no room for
	explainTime = time.Second            // for the question why a session has ended
)

// keeper runs this node's sessions: package session decides, and the keeper has the clock, the
// goroutines and the way to the group. It renews sessions, and ends leases at the end of their
// validity, with or without a network.
type keeper struct {
	loop.Loop
	c       *Cluster
	table   *session.Table
	times   expiry.IndexTimes // when this node has learnt of a command
	drops   drops
	buffers sync.Pool // of *[]byte: for the commands of acquire and release
	began   time.Time
	ahead   time.Duration // of Go's timers since then, the clock when the maxima were timed last; of step alone

	mu       sync.Mutex
	cleaners int // goroutines of clean
}

func newKeeper(c *Cluster) *keeper {
	k := &keeper{c: c, table: session.New(c.cfg.MaxClockDrift, rand.Float64), began: time.Now()}
	k.ahead = time.Duration(c.clock.Now())
	k.Loop = loop.New(k.step)
	return k
}

// buffer returns a buffer for a command. Its caller gives it back to buffers after the outcome.
func (k *keeper) buffer() *[]byte {
	if buf, ok := k.buffers.Get().(*[]byte); ok {
		return buf
	}
	buf := make([]byte, 0, 256)
	return &buf
}

// attend wakes the goroutines that the table needs after a call of one of its methods.
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
		k.c.node.Go(k.clean)
	}
}

// step takes the table's steps.
func (k *keeper) step(context.Context) (pause time.Duration) {
	k.logDropped()
	now := k.c.clock.Now()
	k.catchUp(now)
	work := k.table.Step(now)
	for _, keepalive := range work.Keepalives {
		k.c.node.Go(func(ctx context.Context) { k.keepalive(ctx, keepalive) })
	}
	k.attend()
	if work.Idle {
		return loop.UntilWoken
	}
	return min(keeperPause, time.Duration(work.Next-now))
}

// catchUp times the maxima of the leases anew when the clock has run ahead of Go's timers: they stand still
// while a machine is suspended, and a lease that its maximum has ended would have its context go on.
func (k *keeper) catchUp(now lease.Instant) {
	ahead := time.Duration(now) - time.Since(k.began)
	if ahead < k.ahead+keeperPause {
		k.ahead = min(k.ahead, ahead) // a step that is late lets it look smaller: then they are timed once more
		return
	}
	k.ahead = ahead
	for _, h := range k.table.Holders() {
		h.(holding).timeAnew()
	}
}

// keepalive makes one attempt; the plan of the session decides on the next.
func (k *keeper) keepalive(ctx context.Context, keepalive session.Keepalive) {
	defer k.attend()
	out, _, err := k.c.group.Propose(ctx, seam.Attempt, fsm.Encode(keepalive.Command))
	k.c.renewed(err)
	if err != nil {
		k.table.Unanswered(keepalive)
		return
	}
	_ = k.answered(ctx, keepalive, out) // the next attempt says so
}

// answered takes the outcome of a keepalive. A process that the group has no more says Hello first: where
// a later process of its node is there, because its directory was copied, the node fails, and says so,
// before its leases end.
func (k *keeper) answered(ctx context.Context, keepalive session.Keepalive, out fsm.Outcome) error {
	if out.Code == fsm.CodeStaleIncarnation {
		if err := k.c.node.Hello(ctx); err != nil {
			k.table.Unanswered(keepalive)
			return k.c.apiError(err)
		}
	}
	k.explain(ctx, keepalive.Lost(out)...)
	k.table.Answered(keepalive, out, k.c.clock.Now())
	return nil
}

// explain asks why the group has ended sessions, of which an answer has said that it has. Their holders
// are told after that.
func (k *keeper) explain(ctx context.Context, lost ...*session.Session) {
	if len(lost) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, explainTime)
	defer cancel()
	err := k.table.Explain(func(q fsm.QueryClaims) (fsm.ClaimsState, error) {
		return seam.Ask(ctx, k.c.group, seam.Committed, q)
	}, lost...)
	if err != nil {
		k.c.log.Debug("reading why sessions of this node have ended failed", "error", err)
	}
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

// send proposes a keepalive until its outcome is known.
func (k *keeper) send(ctx context.Context, keepalive session.Keepalive) (fsm.Outcome, error) {
	defer k.attend()
	out, _, err := k.c.propose(ctx, keepalive.Command)
	k.c.renewed(err)
	if err == nil {
		err = k.answered(ctx, keepalive, out)
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

// withdraw withdraws a request whose caller waits no more.
func (k *keeper) withdraw(s *session.Session, request uint64) {
	k.table.Withdraw(s, request)
	k.attend()
}

// release gives back a lease that has ended here, and closes its session if the lease owns it.
func (k *keeper) release(ctx context.Context, l *tenure) error {
	if err := k.c.enter(ctx, seam.Holding); err != nil {
		k.releaseLater(l)
		return err
	}
	buf := k.buffer()
	out, unknown, err := k.c.admitted(ctx, seam.Holding, l.grant.AppendRelease((*buf)[:0], k.c.clock.Now()))
	k.buffers.Put(buf)
	if err != nil {
		k.releaseLater(l)
		return err
	}
	defer k.attend()
	var unread error
	end := func() (past *fsm.PastGrant) {
		past, unread = k.c.endOf(ctx, l.grant.Name(), l.grant.Token())
		return past
	}
	switch l.grant.ReleaseAnswered(out, unknown, end) {
	case session.Done:
		return nil
	case session.Unknown:
		return unknownEnd(unread)
	}
	if err := k.c.stopped(); err != nil { // Close has ended the session before this command came
		return err
	}
	return lost(ErrStaleToken)
}

// releaseLater gives back a lease that has ended here, in the background.
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

// nextDebt takes a debt. If there is none, the calling goroutine must end.
func (k *keeper) nextDebt() *session.Debt {
	k.mu.Lock()
	defer k.mu.Unlock()
	d := k.table.Owed()
	if d == nil {
		k.cleaners--
	}
	return d
}

// pay proposes all commands of a debt. Commands that the group had no room for are owed again a
// little later.
func (k *keeper) pay(ctx context.Context, d *session.Debt) {
	for cmd := d.Command(); cmd != nil; cmd = d.Command() {
		out, _, err := k.c.group.Propose(ctx, seam.Urgent, fsm.Encode(cmd))
		switch {
		case errors.Is(err, seam.ErrSuperseded): // the group that was owed to is gone
			return
		case err != nil: // as of a replica that has just failed: without the command a lock may stay held
			if loop.Sleep(ctx, cleanPause) != nil {
				return
			}
			continue
		}
		k.explain(ctx, d.Lost(out)...)
		d.Paid(out, k.c.clock.Now())
		k.attend()
	}
	if !d.Refused() {
		return
	}
	if loop.Sleep(ctx, cleanPause) == nil {
		d.Again()
	}
}

// Applied implements seam.Follower. Applied and Gap are the only road from the group to the session
// core. As it runs on the goroutine that applies, it only records, and wakes other goroutines.
func (k *keeper) Applied(events []fsm.Event) {
	for i := range events {
		k.table.Note(&events[i])
	}
	k.times.Note(events[len(events)-1].Index, k.c.clock.Now())
	k.attend()
	k.c.feed.Publish(events)
}

// Gap implements seam.Follower.
func (k *keeper) Gap(last uint64, ask func(fsm.Question) (fsm.Answer, error)) {
	err := k.table.Restore(func(q fsm.QueryClaims) (fsm.ClaimsState, error) {
		answer, err := ask(q)
		if err != nil {
			return fsm.ClaimsState{}, err
		}
		return seam.Read(q, answer)
	})
	if err != nil {
		k.c.log.Debug("reading the claims of this node's sessions failed", "error", err)
	}
	k.times.Restore(last, k.c.clock.Now())
	k.attend()
	k.c.feed.Skipped(max(last, 1))
}

// Ages implements seam.Follower.
func (k *keeper) Ages(ages iter.Seq2[uint64, time.Duration]) { k.times.Learn(ages, k.c.clock.Now()) }
