package metrics

import (
	"maps"
	"slices"

	"github.com/holdfast-go/holdfast"
)

// Figures are the metrics that are read from a node when they are asked for, in a fixed order.
func Figures() []Metric {
	return slices.Concat(node(), leases(), engine(), queues())
}

// node is what the node is and sees.
func node() []Metric {
	return []Metric{
		{Name: "ready", Help: "1 if the node serves, as far as it knows.",
			Read: func(s Snapshot) []Point { return truth(s.Status.Ready) }},
		{Name: "failed", Help: "1 if the node has stopped serving for good.",
			Read: func(s Snapshot) []Point { return truth(s.Status.Failure != nil) }},
		{Name: "ill", Help: "1 if the node runs and gets no answer from its disk or its group.",
			Read: func(s Snapshot) []Point { return truth(s.Status.Metrics.Ill) }},
		{Name: "illnesses", Kind: Counter, Help: "How often the node fell ill.",
			Read: func(s Snapshot) []Point { return one(s.Status.Metrics.Illnesses) }},
		{Name: "raft_leader_known", Help: "1 if the node hears a raft leader.",
			Read: func(s Snapshot) []Point { return truth(s.Status.RaftLeader != "") }},
		{Name: "raft_leader_here", Help: "1 if the node is raft leader.",
			Read: func(s Snapshot) []Point {
				return truth(s.Status.RaftLeader != "" && s.Status.RaftLeader == s.Status.ID)
			}},
		{Name: "raft_term", Help: "Term of Raft.",
			Read: func(s Snapshot) []Point { return one(s.Status.Term) }},
		{Name: "raft_leader_changes", Kind: Counter, Help: "How often the node has learnt of another raft leader, the first one included.",
			Read: func(s Snapshot) []Point { return one(s.Status.Metrics.LeaderChanges) }},
		{Name: "voters", Help: "Voters of the group, as the node last applied them.",
			Read: func(s Snapshot) []Point { return one(len(s.Status.Voters)) }},
		{Name: "voters_ill", Help: "Voters that this node knows to be ill. The raft leader knows of all.",
			Read: func(s Snapshot) []Point { return one(ill(s.Status.Voters)) }},
		{Name: "standbys", Help: "Standbys of the group, as the node last applied them.",
			Read: func(s Snapshot) []Point { return one(len(s.Status.Standbys)) }},
		{Name: "members", Labels: []string{"state", "role"}, Help: "Members as gossip sees them, the node itself included.", Read: members},
		{Name: "level", Help: "Feature level of the group, 0 before the node belongs to one.",
			Read: func(s Snapshot) []Point { return one(s.Status.Level) }},
		{Name: "level_known", Help: "Highest feature level that the node knows.",
			Read: func(s Snapshot) []Point { return one(s.Status.LevelKnown) }},
		{Name: "foreign_groups", Help: "Other groups of the same cluster name in sight. A lock may be held in each of them.",
			Read: func(s Snapshot) []Point { return one(len(s.Status.Foreign)) }},
	}
}

// ill counts the replicas that do not work.
func ill(list []holdfast.Replica) (count int) {
	for _, r := range list {
		if r.Ill != "" {
			count++
		}
	}
	return count
}

func members(s Snapshot) []Point {
	type kind struct {
		state holdfast.MemberState
		role  holdfast.Role
	}
	counts := make(map[kind]uint64)
	for _, m := range s.Members {
		counts[kind{m.State, m.Role}]++
	}
	var points []Point
	for state := holdfast.StateAlive; state <= holdfast.StateLeft; state++ {
		for role := holdfast.RoleClient; role <= holdfast.RoleVoter; role++ {
			points = append(points, Point{Labels: []string{state.String(), role.String()}, Value: counts[kind{state, role}]})
		}
	}
	return points
}

// leases is what became of requests and leases of the node.
func leases() []Metric {
	return []Metric{
		{Name: "leases_held", Help: "Leases of the node.",
			Read: func(s Snapshot) []Point { return one(s.Status.Held) }},
		{Name: "calls_waiting", Help: "Calls of the node that wait in the queue of a lock.",
			Read: func(s Snapshot) []Point { return one(s.Status.Waiting) }},
		{Name: "leases_granted", Kind: Counter, Help: "Requests for a lock that ended with a lease.",
			Read: func(s Snapshot) []Point { return one(s.Status.Metrics.Granted) }},
		{Name: "leases_released", Kind: Counter, Help: "Leases that their holders gave back.",
			Read: func(s Snapshot) []Point { return one(s.Status.Metrics.Released) }},
		{Name: "leases_lost", Kind: Counter, Labels: []string{"cause"}, Help: "Leases that ended otherwise, by cause.",
			Read: func(s Snapshot) []Point { return byCause(s.Status.Metrics.Lost) }},
		{Name: "requests_refused", Kind: Counter, Labels: []string{"cause"}, Help: "Requests for a lock that ended without a lease, by cause.",
			Read: func(s Snapshot) []Point { return byCause(s.Status.Metrics.Refused) }},
		{Name: "renewals_sent", Kind: Counter, Help: "Keepalives. One renews all sessions of the node that are due.",
			Read: func(s Snapshot) []Point { return one(s.Status.Metrics.RenewalsSent) }},
		{Name: "renewals_failed", Kind: Counter, Help: "Keepalives without an answer. The next follows while the leases are valid.",
			Read: func(s Snapshot) []Point { return one(s.Status.Metrics.RenewalsFailed) }},
		{Name: "expiry_lateness", Kind: Histogram, Unit: Seconds, Help: "How long after the end of their TTL sessions of the group were ended.",
			Read: func(s Snapshot) []Point { return distribution(s.Status.Metrics.Expiries) }},
	}
}

func byCause(counts map[string]uint64) []Point {
	var points []Point
	for _, cause := range slices.Sorted(maps.Keys(counts)) {
		points = append(points, Point{Labels: []string{cause}, Value: counts[cause]})
	}
	return points
}

// engine is what the node's replica does.
func engine() []Metric {
	return []Metric{
		{Name: "committed_index", Help: "Index of the last entry of the Raft log that the replica knows to be committed.",
			Read: func(s Snapshot) []Point { return one(s.Status.Metrics.Committed) }},
		{Name: "applied_index", Help: "Index of the last command that the replica has carried out. At rest it may be a few behind committed.",
			Read: func(s Snapshot) []Point { return one(s.Status.Applied) }},
		{Name: "fsync", Kind: Histogram, Unit: Seconds, Help: "How long a write of the log took until it was on the disk.",
			Read: func(s Snapshot) []Point { return distribution(s.Status.Metrics.Fsync) }},
		{Name: "commit", Kind: Histogram, Unit: Seconds, Help: "How long an entry of the log took from this node's proposal until it was carried out here.",
			Read: func(s Snapshot) []Point { return distribution(s.Status.Metrics.Commit) }},
		{Name: "snapshot", Kind: Histogram, Unit: Seconds, Labels: []string{"kind"}, Help: "How long snapshots took that the replica wrote (taken) or read (installed).",
			Read: func(s Snapshot) []Point {
				return []Point{
					{Labels: []string{"taken"}, Histogram: s.Status.Metrics.SnapshotsWritten.Seconds},
					{Labels: []string{"installed"}, Histogram: s.Status.Metrics.SnapshotsInstalled.Seconds},
				}
			}},
		{Name: "snapshot", Kind: Counter, Unit: Bytes, Labels: []string{"kind"}, Help: "Bytes of the snapshots that the replica wrote (taken) or read (installed).",
			Read: func(s Snapshot) []Point {
				return []Point{
					{Labels: []string{"taken"}, Value: s.Status.Metrics.SnapshotsWritten.Bytes},
					{Labels: []string{"installed"}, Value: s.Status.Metrics.SnapshotsInstalled.Bytes},
				}
			}},
	}
}

// queues is what waits, what is dropped and what is sent.
func queues() []Metric {
	return []Metric{
		{Name: "queue_length", Labels: []string{"queue"},
			Help: "What waits now: turns are calls whose command is not proposed yet, hooks and watched events that are not told or taken yet.",
			Read: func(s Snapshot) []Point {
				q := s.Status.Metrics.Queues
				return []Point{
					{Labels: []string{"turns"}, Value: uint64(q.Admission)},
					{Labels: []string{"hooks"}, Value: uint64(q.Hooks)},
					{Labels: []string{"watched"}, Value: uint64(q.WatchBacklog)},
				}
			}},
		{Name: "backups", Kind: Counter, Labels: []string{"result"}, Help: "Backups of Config.BackupEvery that the node has made as raft leader.",
			Read: func(s Snapshot) []Point {
				b := s.Status.Metrics.Backups
				return []Point{{Labels: []string{"stored"}, Value: b.Stored}, {Labels: []string{"failed"}, Value: b.Failed}}
			}},
		{Name: "backup_last_timestamp", Help: "Unix time of the last backup that the node has stored, 0 if there is none.",
			Read: func(s Snapshot) []Point { return one(s.Status.Metrics.Backups.Last) }},
		{Name: "hooks_dropped", Kind: Counter, Help: "Events that were not told because hooks are too slow.",
			Read: func(s Snapshot) []Point { return one(s.Status.Metrics.HooksDropped) }},
		{Name: "traffic", Kind: Counter, Unit: Bytes, Labels: []string{"protocol", "direction"}, Help: "Bytes without the overhead of TCP, UDP and TLS.",
			Read: func(s Snapshot) []Point {
				raft, gossip := s.Status.Metrics.Raft, s.Status.Metrics.Gossip
				return []Point{
					{Labels: []string{"raft", "sent"}, Value: raft.Sent}, {Labels: []string{"raft", "received"}, Value: raft.Received},
					{Labels: []string{"gossip", "sent"}, Value: gossip.Sent}, {Labels: []string{"gossip", "received"}, Value: gossip.Received},
				}
			}},
	}
}
