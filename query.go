package holdfast

import (
	"bytes"
	"context"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/seam"
)

// Holder is a holder of a lock, or a waiter.
type Holder struct {
	NodeID string // the node's id
	Node   string // the node's name, for people
	Label  string
	Token  Token  // zero for a waiter
	Value  []byte // the lock's value now
	Shared bool
	Weight int // permits of a semaphore
}

// LockInfo is the state of one lock.
type LockInfo struct {
	Name      string
	Holders   []Holder // none: free
	Waiters   []Holder // in the order in which they will be served
	Value     []byte
	LastToken Token         // the highest of all grants of this name that the group remembers; zero without one
	Limit     int           // permits of the semaphore, also of one out of use that the group remembers as resized; 0: a lock
	Before    int           // the limit before ResizeLimit, which is accepted as well; 0: it was not resized
	Election  bool          // its holders and waiters are candidates: Lead, Campaign, Every
	Held      time.Duration // of the first holder, approximately, by this node's clock; zero if the grant began before this node, or a client's replica, remembers
	Delayed   int           // places that stay taken after the end of their grant: WithMinHold, WithLockDelay
	Past      []Past        // from Inspect: the last grants that have ended, the latest first
}

// Past is a grant of a lock that has ended.
type Past struct {
	Holder               // without Value
	How    EventKind     // EventReleased, EventExpired, EventLost or EventForced
	Reason string        // for people; for EventForced the operator's words
	Held   time.Duration // about, by this node's clock; zero if this node does not remember the grant's begin
}

// Verify returns nil if the lock has a grant with this token at some moment during the call (a
// linearizable read), and ErrStaleToken if not. The grant may end right after that: a resource that
// remembers the highest token it has seen is safer and cheaper.
func (c *Cluster) Verify(ctx context.Context, name string, token Token) error {
	if err := checkCall(ctx, name); err != nil {
		return err
	}
	now, err := read(ctx, c, fsm.QueryName{Name: name, Token: uint64(token)})
	if err == nil && !now.Current {
		err = staleToken(name, token, now)
	}
	return err
}

// Inspect returns the holders and waiters of a lock by a linearizable read. For a name that is not in
// use the LockInfo has its name alone. Past has the last grants that have ended, 16 at most; the
// group remembers those of the 4,096 locks whose grants ended last.
func (c *Cluster) Inspect(ctx context.Context, name string) (LockInfo, error) {
	if err := checkCall(ctx, name); err != nil {
		return LockInfo{}, err
	}
	l, err := c.readLock(ctx, name, fsm.PartWaiters|fsm.PartPast)
	if err != nil {
		return LockInfo{}, err
	}
	info := c.lockInfo(l.Lock)
	info.Past = c.past(l.Past)
	return info, nil
}

func (c *Cluster) past(grants []fsm.PastGrant) (list []Past) {
	now := c.clock.Now()
	for _, g := range grants {
		p := Past{Holder: holder(g.Holder, nil), Reason: reasonOf(g.Reason, g.Detail), Held: c.keeper.times.Between(g.Granted, g.Ended, now)}
		p.How = kindOf(&fsm.Event{Kind: g.Kind, Reason: g.Reason})
		list = append(list, p)
	}
	return list
}

// checkPrefix checks what a call gives that lists what begins with prefix.
func checkPrefix(ctx context.Context, prefix string) error {
	if ctx == nil {
		return invalid("context", "is nil")
	}
	return checkText("prefix", prefix, 0, NameMax)
}

// Session is what a process has with the group for one TTL: its grants and waiting calls of that TTL
// hang on it, and end with it. A lease that is renewed by hand has a session of its own.
type Session struct {
	NodeID  string
	Node    string // the node's name, for people
	Number  uint64 // among the sessions of the process
	TTL     time.Duration
	Held    int // calls that hold; a set of AcquireAll is one
	Waiting int // calls that wait
}

// Sessions lists the sessions of all processes, ordered by NodeID. It reads page by page, each
// linearizable: a session that is there from the call to the end of the list is in it, and of others the
// list may miss some. An error ends the list.
func (c *Cluster) Sessions(ctx context.Context) iter.Seq2[Session, error] {
	return func(yield func(Session, error) bool) {
		err := checkPrefix(ctx, "")
		for q := (&fsm.QuerySessions{}); err == nil && q != nil; {
			var page fsm.SessionsPage
			if page, err = read(ctx, c, *q); err != nil {
				break
			}
			for _, s := range page.Sessions {
				if !yield(Session{s.ID.Node.String(), s.NodeName, s.ID.Number, s.TTL, s.Grants, s.Waiters}, nil) {
					return
				}
			}
			q = page.Next
		}
		if err != nil {
			yield(Session{}, err)
		}
	}
}

// Locks lists, in the order of their names, the locks whose name begins with prefix and which have a
// holder, a waiter or a value: one consistent, linearizable picture, whatever time its reader takes.
// An error ends the list; ErrNoQuorum also at a client whose replica is gone in the middle.
func (c *Cluster) Locks(ctx context.Context, prefix string) iter.Seq2[LockInfo, error] {
	return func(yield func(LockInfo, error) bool) {
		if err := checkPrefix(ctx, prefix); err != nil {
			yield(LockInfo{}, err)
			return
		}
		if err := c.stopped(); err != nil {
			yield(LockInfo{}, err)
			return
		}
		for l, err := range seam.Locks(ctx, c.group, seam.Committed, fsm.QueryLocks{Name: prefix, Parts: fsm.PartWaiters}) {
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				yield(LockInfo{}, c.apiError(err))
				return
			}
			if !yield(c.lockInfo(l.Lock), nil) {
				return
			}
		}
	}
}

// limitMismatch names the lock of a call that is in use with another limit, as far as this node knows.
func (c *Cluster) limitMismatch(ctx context.Context, name string, o options) error {
	for name, now := range c.looks(ctx, name, o.others) {
		if resized := o.limit > 0 && now.Limit > 0; (now.InUse || resized) && now.Limit != o.limit {
			e := &LimitError{Name: name, Asked: int(o.limit), Shared: o.shared, InUse: int(now.Limit)}
			if resized && o.weight > now.Limit {
				e.Weight = int(o.weight)
			}
			return e
		}
	}
	return &LimitError{Name: name, Asked: int(o.limit), Shared: o.shared, InUse: -1}
}

// holderOf describes the holder of a lock, or of the first held one of a set, as far as this node knows.
func (c *Cluster) holderOf(ctx context.Context, name string, others ...string) *HeldError {
	for name, now := range c.looks(ctx, name, others) {
		if head := now.Head; head != nil {
			return heldError(name, &head.Holder, head.Value, head.Waiters)
		}
	}
	return heldError(name, nil, nil, 0)
}

// heldError names a Once key as its callers do.
func heldError(name string, h *fsm.Holder, value []byte, waiters int) *HeldError {
	if key, once := fsm.OnceKey(name); once {
		name = key
	}
	e := &HeldError{Name: name, Waiters: waiters}
	if h != nil {
		e.Holder, e.Token = holder(*h, bytes.Clone(value)), Token(h.Token)
	}
	return e
}

func holder(h fsm.Holder, value []byte) Holder {
	return Holder{
		NodeID: h.Session.Node.String(), Node: h.NodeName, Label: h.Label,
		Token: Token(h.Token), Value: value, Shared: h.Mode == fsm.Shared, Weight: int(h.Weight),
	}
}

func (c *Cluster) lockInfo(l fsm.Lock) LockInfo {
	value := bytes.Clone(l.Value) // the caller may write to it
	info := LockInfo{Name: l.Name, Value: value, LastToken: Token(l.LastToken), Limit: int(l.Limit), Before: int(l.Former), Delayed: len(l.Rests)}
	for _, h := range l.Holders {
		info.Holders = append(info.Holders, holder(h, value))
		info.Election = info.Election || h.Election
	}
	for _, w := range l.Waiters {
		info.Waiters = append(info.Waiters, holder(w, value))
		info.Election = info.Election || w.Election
	}
	if len(l.Holders) > 0 {
		info.Held = c.held(l.Holders[0].Granted, c.clock.Now())
	}
	return info
}

// Blocked is the reason why a call would not get a lock at once.
type Blocked struct {
	Name    string
	Holders []Hold
	Rests   []Rest   // places that stay taken after the end of their grant
	Before  []Holder // the waiters before this node's first waiting call; all waiters if it has none
	Waiting int      // calls of this node that wait
	Cycles  []Cycle  // in which waiters of this lock wait for each other
}

// Hold is a holder with its times.
type Hold struct {
	Holder
	Held time.Duration // about, by this node's clock; zero if this node does not remember the grant's begin
	// Remaining is about the time for which the lock would stay taken if the holder's node died now.
	// A living holder renews it.
	Remaining time.Duration
}

// Rest is a place that stays taken: WithMinHold, WithLockDelay.
type Rest struct {
	Token     Token         // of the grant that has ended
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

// WhyBlocked returns the holders of a lock with their remaining times, the waiters before this node,
// and the cycles of callers that wait for each other: a linearizable read.
//
// A waiting caller's locks are known from the context that it gives to Acquire: that of
// Lease.Context, or of the functions of Do, Lead and Once. The search does not see the locks of a
// caller that waits under another context. A caller that waits for permits is in no cycle as long as
// holders outside of the cycle can return enough of them. WithDeadlockCheck refuses a call that
// would close a cycle. A search visits 10,000 holders and waiters at most, and delays no other call.
func (c *Cluster) WhyBlocked(ctx context.Context, name string) (Blocked, error) {
	if err := checkCall(ctx, name); err != nil {
		return Blocked{}, err
	}
	l, err := c.readLock(ctx, name, fsm.PartWaiters|fsm.PartSessions|fsm.PartCycles)
	if err != nil {
		return Blocked{}, err
	}
	return c.blocked(l), nil
}

// blocked is the public form of a lock's state.
func (c *Cluster) blocked(l fsm.LockState) Blocked {
	b := Blocked{Name: l.Name}
	now := c.clock.Now()
	sessions := l.Sessions // of the holders that follow
	for _, h := range l.Holders {
		hold := Hold{Holder: holder(h, l.Value), Held: c.held(h.Granted, now)}
		if len(sessions) > 0 && sessions[0].ID == h.Session {
			hold.Remaining = c.left(sessions[0].Renewed, sessions[0].TTL, now)
			sessions = sessions[1:]
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
	for _, cycle := range l.Cycles {
		var waits Cycle
		for _, w := range cycle {
			waits = append(waits, Wait{holder(w.Holder, nil), public(w.Name)})
		}
		b.Cycles = append(b.Cycles, waits)
	}
	return b
}

// held is the time since a command was applied, 0 if this node does not remember that.
func (c *Cluster) held(since uint64, now lease.Instant) time.Duration {
	begin, known := c.keeper.times.At(since, now)
	if !known {
		return 0
	}
	return time.Duration(now - begin)
}

// left is the rest of a time that began when a command was applied, by this node's clock.
func (c *Cluster) left(since uint64, d time.Duration, now lease.Instant) time.Duration {
	begin, known := c.keeper.times.At(since, now)
	if !known {
		return d
	}
	return max(0, d-time.Duration(now-begin))
}

// leaseKey is the key under which a lease's context carries it.
type leaseKey struct{}

// within returns the tokens of the leases from whose contexts ctx was made, the innermost first.
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

// QuotaUse is a quota and what is taken of it. Of that of EachNode it is 0.
type QuotaUse struct {
	Quota
	UsedLocks, UsedWaiters, UsedSessions, UsedBytes int
}

// Quotas returns all quotas, those of nodes first, and what is taken of them, as of a moment during the call.
func (c *Cluster) Quotas(ctx context.Context) ([]QuotaUse, error) {
	if ctx == nil {
		return nil, invalid("context", "is nil")
	}
	if err := c.met(ctx); err != nil {
		return nil, err
	}
	now, err := read(ctx, c, fsm.QueryGroup{})
	if err != nil || now.Level < fsm.LevelOfQuotas { // before that there is none, and a replica may not know the question
		return nil, err
	}
	state, err := read(ctx, c, fsm.QueryQuotas{})
	if err != nil {
		return nil, err
	}
	var all []QuotaUse
	for _, q := range state.Quotas {
		shown := Quota{
			Node: q.Node.String(), Prefix: q.Prefix,
			Locks: int(q.Locks), Waiters: int(q.Waiters), Sessions: int(q.Sessions), ValueBytes: int(q.Value), Bytes: int(q.Bytes),
		}
		switch {
		case q.Prefix != "":
			shown.Node = ""
		case q.Node == fsm.Node{}:
			shown.Node = EachNode
		}
		all = append(all, QuotaUse{shown, q.Use.Locks, q.Use.Waiters, q.Use.Sessions, q.Use.Bytes})
	}
	return all, nil
}
