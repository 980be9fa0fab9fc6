package holdfast

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/consensus/report"
	"github.com/holdfast-go/holdfast/internal/member"
	"github.com/holdfast-go/holdfast/internal/seam"
	"github.com/holdfast-go/holdfast/internal/tally"
)

// Role is what a node does in the group.
type Role uint8

// Roles.
const (
	RoleClient  Role = iota // no replica
	RoleStandby             // its replica follows
	RoleVoter               // its replica votes
)

func (r Role) String() string {
	return name(uint8(r), "client", "standby", "voter")
}

// MemberState is how gossip sees a member.
type MemberState uint8

// States of a member.
const (
	StateAlive MemberState = iota
	StateSuspect
	StateFailed
	StateLeft
)

func (s MemberState) String() string {
	return name(uint8(s), "alive", "suspect", "failed", "left")
}

func name(i uint8, names ...string) string {
	if int(i) < len(names) {
		return names[i]
	}
	return fmt.Sprintf("unknown(%d)", i)
}

// Member is a node as gossip sees it.
type Member struct {
	ID, Name, Addr, Zone, Version string
	Level                         uint64 // highest feature level that it knows, 0 if it does not say
	Role                          Role
	State                         MemberState
	Local                         bool // this node itself
}

// Status is a snapshot of this node.
type Status struct {
	ID, ClusterID string // ClusterID is "" until the node belongs to a group; both stay when its replica is replaced
	Role          Role
	// Ready is the last that this node knows; Cluster.Ready asks the group. Until it is true for the
	// first time it also waits for the voters, as Cluster.Ready does. It is false while the node is
	// ill.
	Ready bool
	// Waits is the reason, in words, why Ready is false: an illness, as "the disk has not finished a
	// write for 3 s" or "no answer from the raft leader for 2 s", or what the node waits for. It is ""
	// if Ready is true, and if the node knows no reason.
	Waits         string
	RaftLeader    string // node id, "" if unknown: a hint, never a proof
	Term, Applied uint64
	Voters        []Replica // as this replica last applied them, by ID
	Standbys      []Replica
	// Level is the feature level of the group, 0 before the node belongs to one, and LevelKnown the
	// highest that this node knows. A version that knows a higher level serves at the group's, and one
	// that does not know the group's cannot join. LevelWaits is, on the raft leader, why the group is
	// not at the next level that the raft leader knows: which nodes do not know it, or are away.
	Level, LevelKnown uint64
	LevelWaits        string
	Held, Waiting     int      // leases and waiting calls of this process
	Failure           error    // why the node has stopped serving for good, nil otherwise
	Plan              string   // on the raft leader: what it is about to change in the membership, or waits for, and why
	Drift             string   // which nodes have another Voters, Replicas, Timing or MaxTTL than this one, as gossip has it, and what they have
	Foreign           []string // cluster ids of other groups of this name in sight
	Metrics           Metrics  // what this node has counted
}

// Replica is a voter or a standby as this node knows it. The raft leader hears all of them; any other
// node hears the raft leader alone.
type Replica struct {
	ID, Name, Addr string        // of its node: Name and Addr are "" where gossip has never seen it
	Heard          time.Duration // since this node heard it through Raft: 0 for its own, -1 for one not heard in this term
	Behind         uint64        // on the raft leader: entries of the log that it has not acknowledged
	Ill            string        // why it does not work, in words, as far as this node knows; "" if well
}

func replicas(list []seam.Replica) []Replica {
	all := make([]Replica, len(list))
	for i, r := range list {
		all[i] = Replica{ID: r.Node, Name: r.Name, Addr: r.Addr, Heard: r.Heard, Behind: r.Behind, Ill: r.Ill}
	}
	return all
}

// Members returns what gossip sees now, this node included. It does no I/O. On a client it is what
// its replica saw: see Status.
func (c *Cluster) Members() []Member {
	now := c.node.Status()
	members := make([]Member, 0, len(now.Members))
	roles := roles(now)
	for _, m := range now.Members {
		members = append(members, Member{
			ID: m.Node, Name: m.Name, Addr: m.Addr, Zone: m.Zone, Version: m.Version, Level: m.Level,
			Role: roles[m.Node], State: memberState(m.State), Local: m.Local,
		})
	}
	return members
}

func memberState(s member.State) MemberState {
	switch s {
	case member.Alive:
		return StateAlive
	case member.Suspect:
		return StateSuspect
	case member.Left:
		return StateLeft
	}
	return StateFailed
}

// roles maps each node with a replica to its role, as applied here.
func roles(now seam.Status) map[string]Role {
	roles := make(map[string]Role)
	for _, r := range now.Standbys {
		roles[r.Node] = RoleStandby
	}
	for _, r := range now.Voters {
		roles[r.Node] = RoleVoter
	}
	return roles
}

// Status returns a snapshot of this node. It does no I/O. A client shows of its fleet (the replicas,
// the raft leader, Term, Applied, Level, Plan) what its replica told it last. Ready asks the replica;
// after that a call of Status or Members that finds an answer older than a second asks for the next.
func (c *Cluster) Status() Status {
	now := c.node.Status()
	st := Status{
		ID: c.ID(), ClusterID: now.ClusterID, Foreign: now.Foreign, Role: roles(now)[c.ID()],
		Voters: replicas(now.Voters), Standbys: replicas(now.Standbys), RaftLeader: now.RaftLeader, Term: now.Term, Applied: now.Applied,
		Plan: now.Plan, Drift: now.Drift, Ready: now.Serves, Waits: now.Waits, Failure: c.apiError(now.Failure),
		Level: now.Level, LevelKnown: now.Knows, LevelWaits: now.Rise,
	}
	st.Held, st.Waiting = c.keeper.table.Counts()
	st.Metrics = c.metrics(st, now)
	return st
}

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
	// "yielded", "clock_stopped", "closed" and "other", as the failure of the node. The map has every
	// cause, also with zero.
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
	raft                   report.Figures
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
