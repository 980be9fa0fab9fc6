package holdfast

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/consensus"
	"github.com/holdfast-go/holdfast/internal/seam"
	"github.com/holdfast-go/holdfast/internal/tally"
)

// Metrics are the counters of this node since Open, and the present lengths of its queues. Counters
// only rise; they outlast a change of the node's replica or of its group. Status reads them one
// after the other, not at one instant.
type Metrics struct {
	// Committed is the index of the last entry of the Raft log that this node's replica knows to be
	// committed. Status.Applied, the index of the last applied command, may be a few less at rest, as
	// Raft's own entries are no commands.
	Committed uint64
	// Fsync is the time of a write of the log, its fsync included.
	Fsync Histogram
	// Commit is the time from a proposal by this node until the entry was committed and applied
	// here. Concurrent commands share an entry.
	Commit Histogram
	Queues Queues

	Granted uint64 // requests for a lock that ended with a lease
	// Refused counts the requests that ended without a lease, by cause: "held" (a call that does not
	// wait), "canceled" and "deadline" (the context of a waiting call ended), "no_quorum",
	// "exhausted", "limit_mismatch", "deadlock", "finished" (a Once key), "removed", "closed",
	// "invalid" and "other", as the failure of the node. The map has every cause, also with zero. A
	// call whose arguments are ErrInvalid, or which finds the node closed, makes no request.
	Refused  map[string]uint64
	Released uint64 // leases that their holders released
	// Lost counts leases that ended otherwise, by cause: "expired", "forced", "max_hold",
	// "yielded", "closed" and "other", as the failure of the node. The map has every cause, also
	// with zero.
	Lost map[string]uint64

	// RenewalsSent counts keepalives; one renews all sessions of this node that are due.
	// RenewalsFailed counts those without an answer: each is an attempt, and the next follows while
	// the leases are still valid.
	RenewalsSent, RenewalsFailed uint64
	// LeaderChanges counts the raft leaders that this node has learnt of, the first one included.
	LeaderChanges uint64
	// Ill is true while the node is ill (see Status.Waits); Illnesses counts how often it fell ill.
	Ill       bool
	Illnesses uint64
	// Expiries is the time from the end of a session's TTL until the group ended the session, by this
	// node's clock: two seconds at most at default timing, fail-over included.
	Expiries Histogram
	// SnapshotsWritten are the snapshots that the replica wrote of its state, SnapshotsInstalled the
	// ones that it read: at its start, or from another replica because it lagged too far behind.
	SnapshotsWritten, SnapshotsInstalled Transfers
	Backups                              Backups // of Config.BackupEvery
	HooksDropped                         uint64  // events that the node dropped because hooks are too slow
	Raft, Gossip                         Traffic // without the overhead of TCP, UDP and TLS
}

// Queues are the present lengths of this node's queues.
type Queues struct {
	Admission    int // calls whose command is not proposed yet, because enough commands are under way
	Waiting      int // calls that wait in the queue of a lock
	Hooks        int // events that wait for their hook
	WatchBacklog int // events that consumers of Watch and Observe have not received yet
}

// Transfers counts snapshots, their times, and the sum of their bytes.
type Transfers struct {
	Seconds Histogram // its Count is the number of snapshots
	Bytes   uint64
}

// Traffic is the bytes that were sent and received.
type Traffic struct{ Sent, Received uint64 }

// Histogram is a distribution of durations in seconds, cumulative as those of Prometheus are.
type Histogram struct {
	Count   uint64  // of all
	Sum     float64 // of all, in seconds
	Buckets []Bucket
}

// Bucket is cumulative: Count is the number of durations of at most UpTo. The bounds of a histogram
// never change while a process runs. Histogram.Count alone includes durations above the last bound.
type Bucket struct {
	UpTo  float64 // seconds
	Count uint64
}

// counters are those of the API; the node, the feed and the hooks have their own.
type counters struct {
	raft                   consensus.Figures
	granted, released      atomic.Uint64
	refused                [refusalKinds]atomic.Uint64
	lost                   [lossKinds]atomic.Uint64
	renewals, renewalsLost atomic.Uint64
	leaderChanges          atomic.Uint64
	illnesses              atomic.Uint64
	expiries               tally.Histogram
	backups                backupCounters
}

// cause is a label of refusals or losses.
type cause struct {
	name string
	err  error // nil: any other
}

const (
	refusalKinds = 12
	lossKinds    = 7
)

func refusalCauses() [refusalKinds]cause {
	return [refusalKinds]cause{
		{"exhausted", ErrExhausted}, {"no_quorum", ErrNoQuorum}, {"canceled", context.Canceled}, {"deadline", context.DeadlineExceeded},
		{"held", ErrHeld}, {"deadlock", ErrDeadlock}, {"limit_mismatch", ErrLimitMismatch}, {"finished", errFinished},
		{"removed", ErrRemoved}, {"closed", ErrClosed}, {"invalid", ErrInvalid}, {"other", nil},
	}
}

func lossCauses() [lossKinds]cause {
	return [lossKinds]cause{
		{"expired", ErrExpired}, {"forced", ErrForced}, {"max_hold", ErrMaxHold}, {"yielded", ErrYielded},
		{"clock_stopped", ErrClockStopped}, {"closed", ErrClosed}, {"other", nil},
	}
}

// count adds one to the first cause that err is.
func count(counts []atomic.Uint64, causes []cause, err error) {
	for i, c := range causes {
		if c.err == nil || errors.Is(err, c.err) {
			counts[i].Add(1)
			return
		}
	}
}

func byCause(counts []atomic.Uint64, causes []cause) map[string]uint64 {
	m := make(map[string]uint64, len(causes))
	for i, c := range causes {
		m[c.name] = counts[i].Load()
	}
	return m
}

// ended counts the end of a request for a lock, and calls its hook.
func (c *Cluster) ended(name string, l *Lease, err error, waited time.Duration) {
	if err == nil {
		c.counters.granted.Add(1)
		c.hooks.granted(l.tenure, waited)
		return
	}
	causes := refusalCauses()
	count(c.counters.refused[:], causes[:], err)
	c.hooks.refused(name, err, waited)
}

// over counts the end of a lease, and calls its hooks.
func (c *Cluster) over(l *tenure, err error) {
	if errors.Is(err, ErrLost) {
		causes := lossCauses()
		count(c.counters.lost[:], causes[:], err)
	} else {
		c.counters.released.Add(1)
	}
	c.hooks.over(l, time.Duration(c.clock.Now()-l.grant.Since()), err)
}

// renewed counts an attempt to renew.
func (c *Cluster) renewed(err error) {
	c.counters.renewals.Add(1)
	if err != nil {
		c.counters.renewalsLost.Add(1)
	}
}

// metrics reads all counters, for a status.
func (c *Cluster) metrics(st Status, node seam.Status) Metrics {
	n := &c.counters
	refused, lost := refusalCauses(), lossCauses()
	return Metrics{
		Committed: max(n.raft.Committed.Load(), st.Applied), // which may be noted a little later
		Fsync:     histogram(&n.raft.Fsync), Commit: histogram(&n.raft.Commit),
		Queues: Queues{
			Admission: node.Admission, Waiting: st.Waiting, Hooks: len(c.hooks.news) + len(c.hooks.calls),
			WatchBacklog: c.feed.Waiting(),
		},
		Granted: n.granted.Load(), Refused: byCause(n.refused[:], refused[:]),
		Released: n.released.Load(), Lost: byCause(n.lost[:], lost[:]),
		RenewalsSent: n.renewals.Load(), RenewalsFailed: n.renewalsLost.Load(),
		LeaderChanges: n.leaderChanges.Load(), Ill: node.Ill, Illnesses: n.illnesses.Load(), Expiries: histogram(&n.expiries),
		SnapshotsWritten: transfers(&n.raft.Taken), SnapshotsInstalled: transfers(&n.raft.Installed),
		Backups: c.counters.backups.read(), HooksDropped: c.hooks.dropped.Load(),
		Raft:   Traffic{n.raft.Traffic.Sent.Load(), n.raft.Traffic.Received.Load()},
		Gossip: Traffic{node.Sent, node.Received},
	}
}

func histogram(h *tally.Histogram) Histogram {
	upTo, count, sum := h.Read()
	bounds := tally.Bounds()
	buckets := make([]Bucket, len(upTo))
	for i, n := range upTo {
		buckets[i] = Bucket{UpTo: bounds[i].Seconds(), Count: n}
	}
	return Histogram{Count: count, Sum: sum.Seconds(), Buckets: buckets}
}

func transfers(t *tally.Transfers) Transfers {
	return Transfers{Seconds: histogram(&t.Took), Bytes: t.Bytes.Load()}
}
