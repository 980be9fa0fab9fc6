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

// Holder is one grant of a lock, or one who waits for it.
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
	LastToken Token // the highest ever granted for this name, as far as it is remembered; zero if never
	Limit     int
	Delayed   int    // places that stay taken though their holder is gone: WithMinHold, WithLockDelay
	Past      []Past // of Inspect: the last grants that are over, the last first
}

// Past is one grant of a lock that is over.
type Past struct {
	Holder               // without Value
	How    EventKind     // EventReleased, EventExpired, EventLost or EventForced
	Reason string        // shown to people; of EventForced, the operator's words
	Held   time.Duration // approximately, by this node's clock; zero if the grant began before this node remembers
}

// Verify returns nil if token is that of a current grant of the lock at some moment during the call
// (a linearizable read), and ErrStaleToken if not. The grant may end right after that: a resource
// that remembers the highest token it has seen is safer and cheaper.
func (c *Cluster) Verify(ctx context.Context, name string, token Token) error {
	if err := checkCall(ctx, name); err != nil {
		return err
	}
	now, err := read(ctx, c, fsm.QueryName{Name: name, Token: uint64(token)})
	if err == nil && !now.Current {
		err = staleToken(name, token, now.Head)
	}
	return err
}

// Inspect returns who has a lock and who waits for it: a linearizable read. For a name that nobody
// uses the LockInfo has its name alone. Past has the last grants that are over, 16 at most; the
// group remembers those of the 4,096 locks whose grants ended last.
func (c *Cluster) Inspect(ctx context.Context, name string) (LockInfo, error) {
	if err := checkCall(ctx, name); err != nil {
		return LockInfo{}, err
	}
	l, err := c.readLock(ctx, name, fsm.PartWaiters|fsm.PartPast)
	if err != nil {
		return LockInfo{}, err
	}
	info := lockInfo(l.Lock)
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

// Locks lists, in the order of their names, the locks that are held, waited for or have a value and
// whose name begins with prefix: one consistent, linearizable picture, however long the caller
// takes to read it. An error ends the list.
func (c *Cluster) Locks(ctx context.Context, prefix string) iter.Seq2[LockInfo, error] {
	return func(yield func(LockInfo, error) bool) {
		if ctx == nil {
			yield(LockInfo{}, invalid("context", "is nil"))
			return
		}
		if err := checkText("prefix", prefix, 0, NameMax); err != nil {
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
			if !yield(lockInfo(l.Lock), nil) {
				return
			}
		}
	}
}

// ForceRelease ends the grant with this token against its holder's will; reason, 1 to 1,024 bytes,
// is told to the holder and to everybody who watches. ErrStaleToken means that the token is of no
// current grant. The holder may not have heard of it when the next one is granted: only the token
// keeps its late writes out. If an answer was lost, and the group does not remember how the grant
// ended, the error is ErrUnknownOutcome: the grant is over in any case.
func (c *Cluster) ForceRelease(ctx context.Context, name string, token Token, reason string) error {
	if err := checkCall(ctx, name); err != nil {
		return err
	}
	if err := checkText("reason", reason, 1, reasonMax); err != nil {
		return err
	}
	if err := c.joined(ctx); err != nil {
		return err
	}
	out, unknown, err := c.propose(ctx, fsm.ForceRelease{Name: name, Token: uint64(token), Reason: reason})
	if err != nil || out.Code == fsm.CodeOK {
		return err
	}
	now := c.look(name, uint64(token))
	switch end := now.End; {
	case unknown && end == nil:
		return ErrUnknownOutcome
	case unknown && end.Kind == fsm.EventForced && end.Detail == reason: // by an earlier attempt
		return nil
	}
	return staleToken(name, token, now.Head)
}

// RequestRelease asks the holder with this token to let go: its Lease.Wanted is closed, and
// Lease.WantedReason is reason, 1 to 1,024 bytes. Nothing else happens: ForceRelease is for a
// holder that does not listen. In an election Wanted means this alone. The holder hears of it as
// soon as its node has caught up. The first reason stays: a second call changes nothing.
// ErrStaleToken means that the token is of no current grant, perhaps since a moment ago.
func (c *Cluster) RequestRelease(ctx context.Context, name string, token Token, reason string) error {
	if err := checkCall(ctx, name); err != nil {
		return err
	}
	if err := checkText("reason", reason, 1, reasonMax); err != nil {
		return err
	}
	if err := c.joined(ctx); err != nil {
		return err
	}
	out, _, err := c.propose(ctx, fsm.Ask{Name: name, Token: uint64(token), Reason: reason})
	switch {
	case err != nil || out.Code == fsm.CodeOK:
		return err
	case out.Code == fsm.CodeStaleToken:
		return staleToken(name, token, c.look(name, 0).Head)
	}
	return refused(out)
}

// RevokeNode frees at once all that a node holds, and withdraws what it waits for: by it an
// operator states that the node is dead, or is to be treated as dead. nodeID is Cluster.ID of that
// node; reason, 1 to 1,024 bytes, is told to the holder and to everybody who watches. Without it
// the locks of a dead node are free at the end of their TTL.
//
// Nothing tells the node's process in time: if it lives, two believe that they hold a lock, and
// only the tokens keep its late writes out. What the node acquires before the answer may go as
// well; what it acquires after that stays. For a node that holds nothing, or is not known,
// RevokeNode returns nil; so does a second call. Errors: ErrInvalid, and those of every call that
// asks the group.
func (c *Cluster) RevokeNode(ctx context.Context, nodeID, reason string) error {
	if ctx == nil {
		return invalid("context", "is nil")
	}
	node, err := fsm.ParseNode(nodeID)
	if err != nil {
		return invalid("nodeID", "%q is not the id of a node", nodeID)
	}
	if err := checkText("reason", reason, 1, reasonMax); err != nil {
		return err
	}
	if err := c.joined(ctx); err != nil {
		return err
	}
	now, err := read(ctx, c, fsm.QueryGroup{})
	if err != nil {
		return err
	}
	out, _, err := c.propose(ctx, fsm.Revoke{Node: node, Upto: now.Commands, Reason: reason})
	if err == nil && out.Code != fsm.CodeOK {
		err = refused(out)
	}
	return err
}

// limitMismatch says which name of a call is in use as something else than it asked for, and as
// what, as far as this node knows.
func (c *Cluster) limitMismatch(name string, o options) error {
	for _, name := range append([]string{name}, o.others...) {
		if now := c.look(name, 0); now.InUse && now.Limit != o.limit {
			return &LimitError{Name: name, Asked: int(o.limit), Shared: o.shared, InUse: int(now.Limit)}
		}
	}
	return &LimitError{Name: name, Asked: int(o.limit), Shared: o.shared, InUse: -1}
}

// holderOf tells who has a lock as far as this node knows.
func (c *Cluster) holderOf(name string) *HeldError {
	head := c.look(name, 0).Head
	if head == nil {
		return heldError(name, nil, nil, 0)
	}
	return heldError(name, &head.Holder, head.Value, head.Waiters)
}

func heldError(name string, h *fsm.Holder, value []byte, waiters int) *HeldError {
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

func lockInfo(l fsm.Lock) LockInfo {
	value := bytes.Clone(l.Value) // the caller may write to it
	info := LockInfo{Name: l.Name, Value: value, LastToken: Token(l.LastToken), Limit: int(l.Limit), Delayed: len(l.Rests)}
	for _, h := range l.Holders {
		info.Holders = append(info.Holders, holder(h, value))
	}
	for _, w := range l.Waiters {
		info.Waiters = append(info.Waiters, holder(w, value))
	}
	return info
}

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
	l, err := c.readLock(ctx, name, fsm.PartWaiters|fsm.PartSessions|fsm.PartCycles)
	if err != nil {
		return Blocked{}, err
	}
	return c.blocked(l), nil
}

// blocked is what a lock's state says of why it cannot be had.
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

// held is how long ago a command was applied, 0 if that is not known.
func (c *Cluster) held(since uint64, now lease.Instant) time.Duration {
	begin, known := c.keeper.times.At(since, now)
	if !known {
		return 0
	}
	return time.Duration(now - begin)
}

// left is what is left of a time that began when a command was applied, as this node's clock sees
// it.
func (c *Cluster) left(since uint64, d time.Duration, now lease.Instant) time.Duration {
	begin, known := c.keeper.times.At(since, now)
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
