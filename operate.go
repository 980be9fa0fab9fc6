package holdfast

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/backup"
)

// ForceRelease ends the grant with this token without its holder's consent. reason, 1 to 1,024 bytes,
// reaches the holder as the cause of the loss, and every watch. ErrStaleToken means that no current
// grant has the token. The group may grant the lock to the next waiter before the holder learns of
// its loss: only the token keeps its late writes out. If an answer was lost, and the group does not
// remember how the grant ended, the error is ErrUnknownOutcome: the grant has ended in any case.
func (c *Cluster) ForceRelease(ctx context.Context, name string, token Token, reason string) error {
	if err := c.actedOn(ctx, fsm.ActForceRelease, name, token, reason); err != nil {
		return err
	}
	out, unknown, err := c.propose(ctx, fsm.ForceRelease{Name: name, Token: uint64(token), Reason: reason})
	if err != nil || out.Code == fsm.CodeOK {
		return err
	}
	if unknown {
		switch end, unread := c.endOf(ctx, name, uint64(token)); {
		case end == nil:
			return unknownEnd(unread)
		case end.Kind == fsm.EventForced && end.Detail == reason: // by an earlier attempt
			return nil
		}
	}
	return staleToken(name, token, c.look(ctx, name))
}

// RequestRelease asks the holder with this token to release: it closes the holder's Lease.Wanted and
// sets Lease.WantedReason to reason, 1 to 1,024 bytes, as soon as the holder's node has applied the
// command. It ends no grant; ForceRelease does. The first reason stays: a second call changes
// nothing. ErrStaleToken means that no current grant has the token, perhaps since a moment ago.
func (c *Cluster) RequestRelease(ctx context.Context, name string, token Token, reason string) error {
	if err := c.actedOn(ctx, fsm.ActRequestRelease, name, token, reason); err != nil {
		return err
	}
	out, _, err := c.propose(ctx, fsm.Ask{Name: name, Token: uint64(token), Reason: reason})
	switch {
	case err != nil || out.Code == fsm.CodeOK:
		return err
	case out.Code == fsm.CodeStaleToken:
		return staleToken(name, token, c.look(ctx, name))
	}
	return refused(out)
}

// RevokeNode ends at once all grants of a node, and withdraws its waiters: an operator states by it
// that the node is dead, or must be treated as dead. nodeID is Cluster.ID of that node. reason, 1 to
// 1,024 bytes, reaches the holders as the cause of their loss, and every watch. Without RevokeNode
// the locks of a dead node are free at the end of their TTL.
//
// A process of the node that still runs may not learn of it in time: then two holders rely on a
// lock, and only the tokens keep the late writes of the first one out. RevokeNode may end grants
// that the node acquires before the answer; later ones stay. None that it ends is current from the
// answer on. Of a node with many they go some hundreds at a time: Inspect, Locks and Leader may name the
// last of them a moment longer, and their locks are granted as they go. For a node without grants, or one that
// the group does not know, RevokeNode returns nil; so does a second call. Errors: ErrInvalid, and
// those of every call that asks the group.
func (c *Cluster) RevokeNode(ctx context.Context, nodeID, reason string) error {
	node, err := ordered(ctx, nodeID, reason)
	if err != nil {
		return err
	}
	if err := c.acted(ctx, fsm.Act{Kind: fsm.ActRevokeNode, Node: node, Reason: reason}); err != nil {
		return err
	}
	now, err := read(ctx, c, fsm.QueryGroup{})
	if err != nil {
		return err
	}
	return c.carry(ctx, fsm.Revoke{Node: node, Upto: now.Commands, Reason: reason})
}

// orderAttempts is how often an order looks anew when others come before it.
const orderAttempts = 16

// ResizeLimit gives a semaphore another limit, 1 to 1,048,576, while it is in use. From then on the
// limit before it is accepted as well: WithLimit of either is served under the new one, so a
// rolling update that changes the limit needs no pause. Any other value is ErrLimitMismatch. A
// second call with the same limit changes nothing.
//
// A larger limit serves waiters at once. A smaller one ends no lease: nothing more is granted until
// the weight in use fits. A call whose WithWeight is above the new limit gets ErrLimitMismatch, also
// a call that waits already. Watch yields an EventResized. ContextWithReason says why.
//
// The group remembers the limits when nobody uses the name any more, for the 4,096 names that were
// resized last, until the name is used with a third limit or as a lock. ErrInvalid: nobody uses the
// name and it is not remembered, so its next user says the limit. To resize it at such a time,
// acquire one permit under the limit before, resize, and release. ErrLimitMismatch: the name is in
// use as a lock. ErrExhausted: 4,096 semaphores in use were resized. ErrUnknownOutcome: answers were
// lost, or other nodes resized again and again meanwhile; the call is safe to repeat.
func (c *Cluster) ResizeLimit(ctx context.Context, name string, limit int) error {
	if err := checkCall(ctx, name); err != nil {
		return err
	}
	if limit < 1 || limit > LimitMax {
		return invalid("limit", "%d is not 1 to %d", limit, LimitMax)
	}
	reason, err := reasonIn(ctx)
	if err != nil {
		return err
	}
	if err := c.acted(ctx, fsm.Act{Kind: fsm.ActResizeLimit, Name: name, Limit: uint32(limit), Reason: reason}); err != nil {
		return err
	}
	out, err := c.order(ctx, func(seen uint64) fsm.Command {
		return fsm.Resize{Name: name, Limit: uint32(limit), Seen: seen}
	})
	switch {
	case err != nil || out.Code == fsm.CodeOK:
		return err
	case out.Code == fsm.CodeLimitMismatch:
		return &LimitError{Name: name, Asked: limit}
	case out.Code == fsm.CodeNotHeld:
		return invalid("name", "nobody uses %q as a semaphore: its next user says the limit", name)
	}
	return refused(out)
}

// order proposes a command that names what its proposer has seen, and again when another of its kind came
// before it.
func (c *Cluster) order(ctx context.Context, command func(seen uint64) fsm.Command) (fsm.Outcome, error) {
	for range orderAttempts {
		now, err := read(ctx, c, fsm.QueryGroup{})
		if err != nil {
			return fsm.Outcome{}, err
		}
		cmd := command(now.Commands)
		if err := knows(now, cmd); err != nil {
			return fsm.Outcome{}, err
		}
		out, _, err := c.propose(ctx, cmd)
		if err != nil || out.Code != fsm.CodeFinished {
			return out, err
		}
	}
	return fsm.Outcome{}, ErrUnknownOutcome
}

// knows is an error for a command that needs a higher feature level than the group has. The replica of a client
// may be of an older version, which takes such a command for a fault of the client.
func knows(now fsm.GroupState, cmd fsm.Command) error {
	if needs := fsm.Needs(fsm.Encode(cmd)); needs > now.Level {
		return fmt.Errorf("%w: the call needs %d, the group is at %d", ErrLevel, needs, now.Level)
	}
	return nil
}

// RemoveNode takes a dead node out of the group's membership now, instead of after
// Config.ReplaceAfter, or where the planner would keep it since nothing replaces it: by it an
// operator states that the node does not come back soon. nodeID is Cluster.ID of that node; reason,
// 1 to 1,024 bytes, is logged and reaches every watch. RemoveNode returns nil when the node is out, or
// was before, as a client always is. It ends no session: the node's leases stay until their TTL
// (RevokeNode ends them). A removed node that comes back asks for a new replica, as one that was
// replaced.
//
// Errors: ErrInvalid for an empty reason, and for a node that the group has never known. A
// *RemoveError (ErrNotRemoved) if Raft hears the node and the node makes progress, where Leave of the
// node itself is the way, or if it is the last voter. A voter that is heard while its disk writes
// nothing counts as dead. If ctx ends first, the error is that of the context, ErrUnknownOutcome,
// and ErrNoQuorum for a deadline: the raft leader may carry the order out for ten more seconds.
// Without a majority of the voters nothing can be removed.
func (c *Cluster) RemoveNode(ctx context.Context, nodeID, reason string) error {
	target, err := ordered(ctx, nodeID, reason)
	if err == nil {
		err = c.acted(ctx, fsm.Act{Kind: fsm.ActRemoveNode, Node: target, Reason: reason})
	}
	if err == nil {
		err = c.explain(c.node.RemoveNode(ctx, target, reason))
	}
	return err
}

// TransferRaftLeader makes a voter raft leader, as before work on the machine of the present one, and
// returns when it is. nodeID is Cluster.ID of that node; reason, 1 to 1,024 bytes, is logged and
// reaches every watch. No lease is touched. The group takes no commands for some milliseconds, and for
// an election timeout (Config.Timing) if the voter does not take over.
//
// Errors: ErrInvalid for an empty reason, and for a node that does not vote. ErrNotTransferred if the
// voter is not raft leader after three election timeouts: it lags behind, is ill, or cannot be reached.
// If ctx ends first, the error is that of the context, ErrUnknownOutcome, and ErrNoQuorum for a
// deadline. It is ErrUnknownOutcome, too, where the voter is raft leader and the record of the order fails.
func (c *Cluster) TransferRaftLeader(ctx context.Context, nodeID, reason string) error {
	target, err := ordered(ctx, nodeID, reason)
	if err != nil {
		return err
	}
	if err := c.node.TransferRaftLeader(ctx, target, reason); err != nil {
		return c.explain(err)
	}
	// Not before: a raft leader that commits nothing is what an operator transfers away from.
	err = c.acted(ctx, fsm.Act{Kind: fsm.ActTransferRaftLeader, Node: target, Reason: reason})
	if err != nil && !errors.Is(err, ErrUnknownOutcome) {
		err = open(true, fmt.Errorf("the voter is raft leader, and no watch may be told of it: %w", err))
	}
	return err
}

// ordered checks what an operator says about a node.
func ordered(ctx context.Context, nodeID, reason string) (target fsm.Node, err error) {
	if ctx == nil {
		return target, invalid("context", "is nil")
	}
	if target, err = fsm.ParseNode(nodeID); err != nil {
		return target, invalid("nodeID", "%q is not the id of a node", nodeID)
	}
	return target, checkText("reason", reason, 1, reasonMax)
}

// Quota bounds what one node, or what all locks whose names begin with a prefix, may take of the bounds of
// the group, so that one service that leaks does not fill these for all. 0 is no bound. A call that would
// take more gets an *ExhaustedError that names the quota, and takes nothing.
type Quota struct {
	// Node is the id of a node, whose processes count together, or EachNode: each node that has no quota of
	// its own, clients too. "" with a Prefix.
	Node string
	// Prefix is that of the names of locks, elections and semaphores, 1 to 512 bytes. It bounds no Once keys.
	// A name with several quotas is under all of them.
	Prefix string

	Locks      int // of a node: what it holds and waits for. Of a prefix: names in use, or with a value
	Waiters    int
	Sessions   int // of a node alone: a session has the leases of one TTL
	ValueBytes int // of each value
	// Bytes bounds all values together, each counted in whole KiB: of a node, the values that it wrote last
	// (since the group has feature level 2), whoever holds the locks now, and those that wait with its calls;
	// of a prefix, the values of its names and of the calls that wait for them.
	Bytes int
}

// EachNode is the Quota.Node of all nodes that have no quota of their own.
const EachNode = "each"

// SetQuota sets the quota of a node, of each node, or of a prefix, instead of the one that it has; a Quota
// without bounds removes it. It ends nothing: what is above it stays, and nothing more is granted, queued or
// opened there until it fits. reason, 1 to 1,024 bytes, is logged and reaches every watch as the Reason of an
// EventQuota.
//
// Errors: ErrInvalid. ErrLevel until the group's feature level is 2 (Status.Level), an hour after all of its
// nodes know that level. ErrExhausted: there are 256 quotas. ErrUnknownOutcome: answers were lost, or
// others set quotas again and again meanwhile; the call is safe to repeat.
func (c *Cluster) SetQuota(ctx context.Context, q Quota, reason string) error {
	set, err := q.check(ctx)
	if err == nil {
		err = checkText("reason", reason, 1, reasonMax)
	}
	if err != nil {
		return err
	}
	if err := c.acted(ctx, fsm.Act{Kind: fsm.ActSetQuota, Node: set.Node, Name: set.Prefix, Reason: reason}, "quota", q.String()); err != nil {
		return err
	}
	out, err := c.order(ctx, func(seen uint64) fsm.Command { return fsm.SetQuota{Quota: set, Seen: seen, Reason: reason} })
	if err == nil && out.Code != fsm.CodeOK {
		err = refused(out)
	}
	return err
}

// check checks a quota, and returns it as the group has it.
func (q Quota) check(ctx context.Context) (set fsm.Quota, err error) {
	switch {
	case ctx == nil:
		return set, invalid("context", "is nil")
	case (q.Node == "") == (q.Prefix == ""):
		return set, invalid("quota", "is of a node, EachNode, or a prefix")
	case q.Prefix != "" && q.Sessions != 0:
		return set, invalid("quota", "a prefix has no sessions")
	case q.Node != "" && q.Node != EachNode:
		if set.Node, err = fsm.ParseNode(q.Node); err != nil || set.Node == (fsm.Node{}) {
			return set, invalid("quota", "%q is not the id of a node", q.Node)
		}
	}
	if q.Prefix != "" {
		if err := checkText("prefix", q.Prefix, 1, NameMax); err != nil {
			return set, err
		}
	}
	set.Prefix = q.Prefix
	for _, one := range []struct {
		what string
		from int
		to   *uint32
	}{{"locks", q.Locks, &set.Locks}, {"waiters", q.Waiters, &set.Waiters}, {"sessions", q.Sessions, &set.Sessions}, {"value bytes", q.ValueBytes, &set.Value}, {"bytes", q.Bytes, &set.Bytes}} {
		if one.from < 0 || one.from > math.MaxInt32 {
			return set, invalid("quota", "%s: %d is not 0 to %d", one.what, one.from, math.MaxInt32)
		}
		*one.to = uint32(one.from)
	}
	return set, nil
}

// String is the quota in words, for logs.
func (q Quota) String() string {
	return fmt.Sprintf("%s: locks %d, waiters %d, sessions %d, value bytes %d, bytes %d (0: no bound)", q.whose(), q.Locks, q.Waiters, q.Sessions, q.ValueBytes, q.Bytes)
}

func (q Quota) whose() string {
	switch {
	case q.Prefix != "":
		return fmt.Sprintf("prefix %q", q.Prefix)
	case q.Node == EachNode:
		return "each node"
	}
	return "node " + q.Node
}

// overQuota is the error of a bound of a quota.
func overQuota(o *fsm.Over) error {
	whose := Quota{Node: o.Node.String(), Prefix: o.Prefix}.whose()
	return &ExhaustedError{What: o.What.String() + " of " + whose + " by its quota", Limit: int(o.Limit), Whose: whose}
}

// Backup writes the state of the group, as it was at one command: values, finished Once keys, and who
// held what. It is a stream with a version and a checksum, and other calls go on meanwhile: a slow w
// costs memory for what changes until it ends. A node that reaches no majority within some seconds
// writes what its own replica has, and marks that in the backup. On a client the replica that it hangs
// on writes the backup. Recover and Config.Restore make a group of it, on any machine.
//
// Errors: that of w; that of ctx; ErrClosed; ErrNoQuorum for a node that belongs to no group; on a
// client that of a connection that ended in between. What was written before an error is no backup. A
// second call, at the same time or later, writes another one.
func (c *Cluster) Backup(ctx context.Context, w io.Writer) error {
	switch {
	case ctx == nil:
		return invalid("context", "is nil")
	case w == nil:
		return invalid("writer", "is nil")
	}
	return c.explain(c.node.Backup(ctx, w))
}

// BackupInfo says what a backup is of.
type BackupInfo struct {
	Cluster, ClusterID string // name of the fleet, id of the group
	Commands           uint64 // number of the last command in it
	Written            time.Time
	Unconfirmed        bool // by a node without a majority: it may lack what the group has answered
	Names, Keys        int  // locks in use or with a value, finished Once keys
}

// CheckBackup reads a backup to its end, and returns what it is of. It says whether Recover can read
// it: ErrDamaged for one that is truncated or altered, ErrIncompatible for one of a newer version.
func CheckBackup(r io.Reader) (BackupInfo, error) {
	if r == nil {
		return BackupInfo{}, invalid("r", "is nil")
	}
	h, state, err := backup.Read(r)
	if err != nil {
		return BackupInfo{}, backupError(err)
	}
	info := state.Info()
	return BackupInfo{h.Cluster, h.ClusterID, h.Commands, h.Written, h.Unconfirmed, info.Locks, info.Keys}, nil
}

// backupError adds the value that a caller branches on to an error about a backup.
func backupError(err error) error {
	switch {
	case errors.Is(err, backup.ErrDamaged):
		return fmt.Errorf("%w: %w: take another backup", ErrDamaged, err)
	case errors.Is(err, backup.ErrNewer):
		return fmt.Errorf("%w: %w", ErrIncompatible, err)
	}
	return err
}

// Backups counts the backups of Config.BackupEvery that this node has made as raft leader.
type Backups struct {
	Stored, Failed uint64
	Last           uint64 // Unix time in seconds at which the last one was stored, 0 if there is none
}

type backupCounters struct{ stored, failed, last atomic.Uint64 }

func (b *backupCounters) read() Backups {
	return Backups{b.stored.Load(), b.failed.Load(), b.last.Load()}
}

// backUp makes a backup each Config.BackupEvery while this node is raft leader.
func (c *Cluster) backUp(ctx context.Context) {
	tick := time.NewTicker(c.cfg.BackupEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if c.node.Status().RaftLeader != c.ID() {
			continue
		}
		if err := c.storeBackup(ctx); err == nil {
			c.counters.backups.stored.Add(1)
			c.counters.backups.last.Store(uint64(time.Now().Unix()))
		} else if ctx.Err() == nil {
			c.counters.backups.failed.Add(1)
			c.log.Error("storing a backup failed: the next attempt is after Config.BackupEvery", "error", err)
		}
	}
}

// storeBackup has Config.BackupTo read a backup. When the node closes it waits for that function a moment:
// Close waits for this one, and a write to a disk or a mount that hangs heeds no context.
func (c *Cluster) storeBackup(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	reader, writer := io.Pipe()
	written, stored := make(chan error, 1), make(chan error, 1)
	go func() {
		err := c.Backup(ctx, writer)
		writer.CloseWithError(err) // nil is the end of the file
		written <- err
	}()
	go func() { stored <- c.backupTo(ctx, reader) }()
	select {
	case err = <-stored:
	case <-ctx.Done():
		select {
		case err = <-stored:
		case <-time.After(hooksLast):
			c.log.Warn("this node closed while Config.BackupTo was still running")
			err = ctx.Err()
		}
	}
	reader.CloseWithError(io.ErrClosedPipe)
	cancel()
	if failed := <-written; err == nil {
		err = failed // also of a function that did not read to the end
	}
	return err
}

// backupTo calls Config.BackupTo. What the function panics with is its error.
func (c *Cluster) backupTo(ctx context.Context, r io.Reader) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("holdfast: Config.BackupTo panicked: %v", value)
		}
	}()
	return c.cfg.BackupTo(ctx, r)
}

// acted logs what an operator orders at this node, and has the group tell every watch of it, which a group of
// an earlier level cannot. The replica of a client logs it, too: the client may be a tool whose log nobody keeps.
// of is more of it for the log.
func (c *Cluster) acted(ctx context.Context, act fsm.Act, of ...any) error {
	if err := c.met(ctx); err != nil {
		return err
	}
	act.By = c.self.Process()
	c.log.Warn("an operator's act", append([]any{"act", act}, of...)...)
	now, err := read(ctx, c, fsm.QueryGroup{})
	if err != nil || knows(now, act) != nil {
		return err
	}
	return c.carry(ctx, act)
}

// actedOn is acted for an order about a grant, whose arguments it checks.
func (c *Cluster) actedOn(ctx context.Context, kind fsm.ActKind, name string, token Token, reason string) error {
	if err := checkCall(ctx, name); err != nil {
		return err
	}
	if err := checkText("reason", reason, 1, reasonMax); err != nil {
		return err
	}
	return c.acted(ctx, fsm.Act{Kind: kind, Name: name, Token: uint64(token), Reason: reason})
}

// carry proposes a command of which any outcome but CodeOK is a refusal.
func (c *Cluster) carry(ctx context.Context, cmd fsm.Command) error {
	out, _, err := c.propose(ctx, cmd)
	if err == nil && out.Code != fsm.CodeOK {
		err = refused(out)
	}
	return err
}
