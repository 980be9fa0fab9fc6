package holdfast

import (
	"bytes"
	"context"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/consensus"
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
	var granted bool
	var head fsm.Head
	err := c.read(ctx, func(m *fsm.Machine) {
		granted = m.Granted(name, uint64(token))
		head, _ = m.Head(name)
	})
	if err == nil && !granted {
		err = staleToken(name, token, head.Token)
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
	info := LockInfo{Name: name}
	err := c.read(ctx, func(m *fsm.Machine) {
		if lock, ok := m.Lock(name); ok {
			info = lockInfo(lock)
		}
		info.Past = c.past(m, name)
	})
	if err != nil {
		return LockInfo{}, err
	}
	return info, nil
}

func (c *Cluster) past(m *fsm.Machine, name string) (list []Past) {
	now := c.clock.Now()
	for _, g := range m.Past(name) {
		p := Past{Holder: holder(g.Holder, nil), Reason: reasonOf(g.Reason, g.Detail), Held: c.indexTimes.Between(g.Granted, g.Ended, now)}
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
		group, err := c.current(ctx)
		if err != nil {
			yield(LockInfo{}, err)
			return
		}
		for lock := range group.Fork().Locks(prefix) {
			if err := ctx.Err(); err != nil {
				yield(LockInfo{}, err)
				return
			}
			if !yield(lockInfo(lock), nil) {
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
	end, known := c.endOf(name, token)
	switch {
	case unknown && !known:
		return ErrUnknownOutcome
	case unknown && end.Kind == fsm.EventForced && end.Detail == reason: // by an earlier attempt
		return nil
	}
	return staleToken(name, token, uint64(c.holderOf(name).Token))
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
		return staleToken(name, token, uint64(c.holderOf(name).Token))
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
	revoke := fsm.Revoke{Node: node, Reason: reason}
	if err := c.read(ctx, func(m *fsm.Machine) { revoke.Upto = m.Commands() }); err != nil {
		return err
	}
	out, _, err := c.propose(ctx, revoke)
	if err == nil && out.Code != fsm.CodeOK {
		err = refused(out)
	}
	return err
}

// endOf is how a grant ended, as far as this node's replica remembers it.
func (c *Cluster) endOf(name string, token Token) (end fsm.PastGrant, known bool) {
	if group, _ := c.proposer.Current(); group != nil {
		group.Read(func(m *fsm.Machine) { end, known = m.EndOf(name, uint64(token)) })
	}
	return end, known
}

// read runs fn on a state that holds everything committed before the call.
func (c *Cluster) read(ctx context.Context, fn func(*fsm.Machine)) error {
	group, err := c.current(ctx)
	if err != nil {
		return err
	}
	group.Read(fn)
	return nil
}

// current is barrier for what a caller asks for.
func (c *Cluster) current(ctx context.Context) (*consensus.Group, error) {
	if err := c.stopped(); err != nil {
		return nil, err
	}
	return c.barrier(ctx)
}

// limitMismatch says which name of a call is in use as something else than it asked for, and as
// what, as far as the local replica knows.
func (c *Cluster) limitMismatch(name string, o options) error {
	e := &LimitError{Name: public(name), Asked: int(o.limit), Shared: o.shared, InUse: -1}
	group, _ := c.proposer.Current()
	if group == nil {
		return e
	}
	group.Read(func(m *fsm.Machine) {
		for _, name := range append([]string{name}, o.others...) {
			if limit, used := m.InUse(name); used && limit != o.limit {
				e.Name, e.InUse = public(name), int(limit)
				return
			}
		}
	})
	return e
}

// holderOf tells who has a lock as far as the local replica knows.
func (c *Cluster) holderOf(name string) *HeldError {
	held := &HeldError{Name: public(name)}
	group, _ := c.proposer.Current()
	if group == nil {
		return held
	}
	group.Read(func(m *fsm.Machine) {
		if head, ok := m.Head(name); ok {
			held = heldError(name, &head.Holder, head.Value, head.Waiters)
		}
	})
	return held
}

func heldError(name string, h *fsm.Holder, value []byte, waiters int) *HeldError {
	e := &HeldError{Name: public(name), Waiters: waiters}
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
