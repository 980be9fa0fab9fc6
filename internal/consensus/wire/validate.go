package wire

import (
	"errors"
	"fmt"

	"github.com/lni/dragonboat/v4/raftio"
	"github.com/lni/dragonboat/v4/raftpb"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/consensus/engine"
)

// validator refuses messages that would make the engine panic, which trusts its peers: it would do
// so in its own goroutines, some time later. A peer that has the secrets can still lie within these
// bounds (Raft is not Byzantine); if that breaks the engine, the replica stops.
type validator struct {
	node       string // this one
	replica    uint64
	deployment uint64
	disk       diskLog
}

var errRefused = errors.New("holdfast: message refused")

// numberMax bounds indexes and terms, so that sums of them do not overflow.
const numberMax = 1 << 62

func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errRefused, fmt.Sprintf(format, args...))
}

// batch validates a batch and returns the replica that sent it. Messages for another life of this
// node are not refused (see addressed).
func (v validator) batch(b *raftpb.MessageBatch) (from uint64, err error) {
	switch {
	case b.DeploymentId != v.deployment:
		return 0, refuse("of another cluster")
	case b.BinVer != raftio.TransportBinVersion:
		return 0, refuse("of engine version %d", b.BinVer)
	case !IsNode(b.SourceAddress):
		return 0, refuse("from %.64q, no node", b.SourceAddress)
	case len(b.Requests) == 0:
		return 0, refuse("empty batch")
	}
	from = b.Requests[0].From
	switch {
	case b.SourceAddress == v.node:
		return 0, refuse("from this node itself")
	case !IsOf(b.SourceAddress, from):
		return 0, refuse("replica %x is none of node %s", from, b.SourceAddress)
	}
	for i := range b.Requests {
		if err := v.message(&b.Requests[i], from); err != nil {
			return 0, err
		}
	}
	return from, nil
}

func (v validator) message(m *raftpb.Message, from uint64) error {
	switch {
	case m.From != from:
		return refuse("%v from replica %d by way of %d", m.Type, m.From, from)
	case m.ShardID != engine.Shard:
		return refuse("%v for shard %d", m.Type, m.ShardID)
	case m.To == 0:
		return refuse("%v to nobody", m.Type)
	case m.Term > numberMax, m.LogTerm > numberMax, m.LogIndex > numberMax, m.Commit > numberMax:
		return refuse("%v with numbers out of range", m.Type)
	case !raftpb.IsEmptySnapshot(m.Snapshot):
		return refuse("%v with a snapshot", m.Type)
	}
	// A message that is passed on to the raft leader has no term, and a follower panics on one that
	// has. Any other message has a term: without one it counts as local, however old.
	switch m.Type {
	case raftpb.Propose, raftpb.ReadIndex, raftpb.LeaderTransfer, raftpb.SnapshotReceived:
		if m.Term != 0 {
			return refuse("%v of a term", m.Type)
		}
	case raftpb.RequestPreVoteResp: // a replica that has just joined has no term
	default:
		if m.Term == 0 {
			return refuse("%v of no term", m.Type)
		}
	}
	// A heartbeat commits what this replica has acknowledged. If the log has lost that, the
	// greeting to the raft leader will show it (see known.go).
	if m.Type == raftpb.Heartbeat && m.To == v.replica && m.Commit > v.disk.Last() {
		return refuse("%v that commits entry %d, after the last", m.Type, m.Commit)
	}
	switch m.Type {
	case raftpb.Replicate:
		return validateReplicate(m)
	case raftpb.Propose:
		return validatePropose(m)
	case raftpb.LeaderTransfer:
		if m.Hint == 0 {
			return refuse("transfer to nobody")
		}
	case raftpb.ReplicateResp, raftpb.Heartbeat, raftpb.HeartbeatResp, raftpb.NoOP,
		raftpb.RequestVote, raftpb.RequestVoteResp, raftpb.RequestPreVote, raftpb.RequestPreVoteResp,
		raftpb.ReadIndex, raftpb.ReadIndexResp, raftpb.TimeoutNow, raftpb.RateLimit, raftpb.SnapshotReceived:
	default:
		return refuse("%v (%d) from the network", m.Type, m.Type)
	}
	if len(m.Entries) > 0 {
		return refuse("%v with entries", m.Type)
	}
	return nil
}

// validateReplicate requires consecutive entries after the index that the message names.
func validateReplicate(m *raftpb.Message) error {
	index, term := m.LogIndex, m.LogTerm
	for i := range m.Entries {
		e := &m.Entries[i]
		index++
		if e.Index != index || e.Term < term || e.Term > m.Term {
			return refuse("entries out of order")
		}
		term = e.Term
		if err := validateEntry(e); err != nil {
			return err
		}
	}
	return nil
}

func validatePropose(m *raftpb.Message) error {
	if len(m.Entries) == 0 {
		return refuse("proposal of nothing")
	}
	for i := range m.Entries {
		if e := &m.Entries[i]; e.Index != 0 || e.Term != 0 || len(e.Cmd) == 0 {
			return refuse("proposal with a place in the log, or without a command")
		}
		if err := validateEntry(&m.Entries[i]); err != nil {
			return err
		}
		if err := validateProposed(&m.Entries[i]); err != nil {
			return err
		}
	}
	return nil
}

// validateProposed refuses a command that this version does not know: each replica would stop at
// it, forever. Feature levels keep members from proposing one.
func validateProposed(e *raftpb.Entry) error {
	if e.Type == raftpb.ConfigChangeEntry {
		return nil
	}
	_, cmd := cutEncoded(e)
	if err := fsm.Known(cmd); errors.Is(err, fsm.ErrUnsupported) {
		return refuse("proposal: %v", err)
	}
	return nil
}

// validateEntry admits the entries of this library: commands without an engine session, membership
// changes that can be decoded, and the empty entry of a new raft leader.
func validateEntry(e *raftpb.Entry) error {
	switch e.Type {
	case raftpb.ApplicationEntry:
		if len(e.Cmd) != 0 || e.ClientID != 0 || e.SeriesID != 0 {
			return refuse("entry in no encoding")
		}
	case raftpb.EncodedEntry:
		// The first byte is the encoding: version 0, not compressed, no session.
		if len(e.Cmd) == 0 || e.Cmd[0] != 0 || e.SeriesID != 0 || e.RespondedTo != 0 {
			return refuse("entry in a foreign encoding")
		}
		if e.ClientID == 0 || e.Key == 0 { // each replica that applies it would panic
			return refuse("entry of nobody")
		}
	case raftpb.ConfigChangeEntry:
		return validateChange(e.Cmd)
	default:
		return refuse("entry of type %d", e.Type)
	}
	return nil
}

func validateChange(cmd []byte) error {
	var c raftpb.ConfigChange
	if err := engine.Guard(func() error { return c.Unmarshal(cmd) }); err != nil {
		return refuse("change of membership: %v", err)
	}
	switch {
	case c.ReplicaID == 0:
		return refuse("change of membership of nobody")
	case c.Type == raftpb.RemoveNode:
		return nil
	case c.Type != raftpb.AddNode && c.Type != raftpb.AddNonVoting:
		return refuse("change of membership of type %d", c.Type)
	case !IsNode(c.Address) || !IsOf(c.Address, c.ReplicaID):
		return refuse("change of membership: replica %d is not at %.64q", c.ReplicaID, c.Address)
	}
	return nil
}

// chunk validates a chunk of a snapshot: one file, cut in order.
func (v validator) chunk(c *raftpb.Chunk) error {
	switch {
	case c.DeploymentId != v.deployment:
		return refuse("snapshot of another cluster")
	case c.BinVer != raftio.TransportBinVersion:
		return refuse("snapshot of engine version %d", c.BinVer)
	case c.ShardID != engine.Shard, c.ReplicaID != v.replica:
		return refuse("snapshot for replica %d of shard %d", c.ReplicaID, c.ShardID)
	case c.From == 0, c.From == v.replica:
		return refuse("snapshot from replica %d", c.From)
	case c.Index == 0, c.Index > numberMax, c.Term == 0, c.Term > numberMax:
		return refuse("snapshot at index %d, term %d", c.Index, c.Term)
	case c.ChunkId >= c.ChunkCount, c.ChunkCount > numberMax, c.FileChunkId != c.ChunkId, c.FileChunkCount != c.ChunkCount:
		return refuse("snapshot piece %d of %d", c.ChunkId, c.ChunkCount)
	case len(c.Data) == 0, uint64(len(c.Data)) != c.ChunkSize:
		return refuse("snapshot piece of %d bytes, said to have %d", len(c.Data), c.ChunkSize)
	case c.HasFileInfo, c.Witness, c.OnDiskIndex != 0:
		return refuse("snapshot of a foreign kind")
	case c.Filepath != pieceFile(c.Index):
		return refuse("snapshot in a file %.64q", c.Filepath)
	}
	return validateMembership(&c.Membership)
}

// pieceFile is the engine's name of a snapshot's file. The engine writes the chunks into a file of
// the name that they bring: for another name the disk might fail, which stops the replica.
func pieceFile(index uint64) string { return fmt.Sprintf("snapshot-%016X.gbsnap", index) }

func validateMembership(m *raftpb.Membership) error {
	if m.ConfigChangeId == 0 || m.ConfigChangeId > numberMax || len(m.Addresses) == 0 || len(m.Witnesses) > 0 {
		return refuse("snapshot without voters")
	}
	for _, group := range []map[uint64]string{m.Addresses, m.NonVotings} {
		for replica, node := range group {
			if !IsNode(node) || !IsOf(node, replica) {
				return refuse("snapshot: replica %d is not at %.64q", replica, node)
			}
		}
	}
	return nil
}
