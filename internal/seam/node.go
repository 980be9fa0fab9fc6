package seam

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
)

// Node is the node that the calls run on: the way to its group, its life, and what it knows of its
// fleet. internal/node implements it; the comments there say more of each method. Open is called
// first and once. Errors are those of the node's parts, untranslated.
type Node interface {
	// Group is the way to the group, the same for the whole life of the node.
	Group() Group

	// Open starts the node. After an error nothing of it is left.
	Open(ctx context.Context) error
	// Joined waits until the group has accepted this process.
	Joined(ctx context.Context) error
	// Ready waits until the node can serve.
	Ready(ctx context.Context) error
	// Hello makes this process known to a group that has forgotten it.
	Hello(ctx context.Context) error
	// Go runs f in a goroutine that Close waits for, under a context that ends before. It reports
	// false, and does not run f, once goroutines end.
	Go(f func(context.Context)) (runs bool)
	// Stopped is nil while calls may begin, then the error that they return.
	Stopped() error
	// Closing is closed when calls under way end, Done when no lease of the node is valid any more.
	Closing() <-chan struct{}
	Done() <-chan struct{}
	// Close ends the node, and returns when nothing of it is left. It is idempotent.
	Close()
	// Leave is Close of a node that does not come back. It closes the node also when it fails.
	Leave(ctx context.Context) error

	// RemoveNode has the raft leader take the replica of a dead node out of the group. The errors are
	// ErrUnknownNode and *KeptError, too.
	RemoveNode(ctx context.Context, target fsm.Node, reason string) error

	// TransferRaftLeader has a voter become raft leader. The errors are ErrNotVoter and
	// ErrNotTransferred, too.
	TransferRaftLeader(ctx context.Context, target fsm.Node, reason string) error

	// Backup writes a backup of the group: see internal/backup. What was written before an error is
	// none.
	Backup(ctx context.Context, w io.Writer) error

	// Status is what the node knows now. It does no I/O.
	Status() Status
	// Missing says what a node waits for that is not ready, "" for nothing that it knows of.
	Missing() string
}

// Status is a snapshot of a node.
type Status struct {
	Fleet
	Addr      string // that other nodes reach this one at
	ClusterID string // of its group, "" before it has one
	Failure   error  // that has ended the node, nil otherwise
	Foreign   []string
	Admission int    // calls that wait for a turn
	Knows     uint64 // highest feature level that this process knows
	Sent      uint64 // bytes of gossip
	Received  uint64
	Serves    bool   // the group has a raft leader and serves, and the node has its place there and is not ill
	Waits     string // why it does not serve, in words; "" if it does, or knows of nothing
	Ill       bool   // the process runs, and gets no answer
}

// Listener is the API above the node. LeaderChanged and Expired run on goroutines that must not
// wait: they record, and wake other goroutines. What the group applies reaches the API through
// Group.Follow. No method may call Close or Leave.
type Listener interface {
	// Identified is called first, from Open, with the identity of this process in the group and the
	// logger of the node.
	Identified(self fsm.SessionID, log *slog.Logger)
	// LeaderChanged is called with the raft leader's node, "" for none; perhaps the same again.
	LeaderChanged(node string)
	// Expired is called for every session that the group ended because it was not renewed.
	Expired(session fsm.SessionID, late time.Duration)
	// Quorum is called when this node has heard no raft leader for long, with the voters that gossip
	// misses, and once when it hears one again.
	Quorum(ok bool, missing []string)
	// Ill is called when the node falls ill, and why, and once when it is well again.
	Ill(ill bool, why string)
	// Foreign is called when the nodes in sight of another group of the name have changed.
	Foreign(cluster string, nodes []string)
	// GroupYielded ends all leases and waiting calls with the error of a group that is given up.
	GroupYielded()
	// ReplicaReplaced is called when the group has removed this node's replica, and another
	// follows. Leases and waiting calls live on.
	ReplicaReplaced()
	// EndLeases ends all leases, and returns how many there were: when the node leaves, and again
	// when it closes.
	EndLeases(cause error) (held int)
	// Empty reports whether there is no session that the group may know of.
	Empty() bool
	// Stopping is called when goroutines end, with the failure of a node that was open.
	Stopping(failure error)
	// Stopped is called last, before Close returns.
	Stopped()
}
