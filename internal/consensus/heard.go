package consensus

import (
	"time"

	"github.com/lni/dragonboat/v4/raftpb"
)

// Heard is what Raft last heard here of another replica.
type Heard struct {
	At    time.Time // by the local clock; its monotonic reading counts
	Match uint64    // on the raft leader: the last entry that the other has on its disk, as far as it said; 0: it did not, yet
}

// Heard returns what this replica has heard of the others in the present term, by replica. On the
// raft leader that is when each of them, voter or not, last answered it: a heartbeat, or entries
// that it took. On the others it is when the raft leader last sent such. Who was not heard in this
// term is missing. It is quick and does no I/O.
//
// An answer proves that its replica lives and is in reach in both directions: it was asked, in this
// term, and its answer came. What it only says by itself (that it wants to be elected, a proposal)
// proves half of that and does not count, nor does gossip. It proves nothing of how long the answer
// was on its way, nor that its disk works: a replica whose fsync hangs answers nothing more, from
// the moment that it has something to write on. In a group without writes that moment may not come.
// That the raft leader was heard proves only that it can send.
//
// A raft leader that was cut off goes on to answer the last that it heard: look at the age.
func (g *Group) Heard() map[uint64]Heard {
	now, _ := g.leaders.now()
	return g.carrier.known.hearings(now.term, g.nodes.known())
}

// lastHeard is what was last heard of a node's replica in a term.
type lastHeard struct {
	term uint64
	Heard
}

// message notes a message if it proves something (see Group.Heard).
func (h *lastHeard) message(m *raftpb.Message, now time.Time) {
	match := uint64(0)
	switch m.Type {
	case raftpb.HeartbeatResp, raftpb.Heartbeat, raftpb.Replicate:
	case raftpb.ReplicateResp:
		if m.Reject {
			return
		}
		match = m.LogIndex
	default:
		return
	}
	if m.Term < h.term {
		return
	}
	if m.Term > h.term {
		*h = lastHeard{term: m.Term}
	}
	h.At, h.Match = now, max(h.Match, match)
}

// hearings returns what was heard of members in the last term in which any was heard, unless that
// is before term.
func (r *knownReplicas) hearings(term uint64, members map[uint64]string) map[uint64]Heard {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.nodes {
		if members[s.replica] != "" {
			term = max(term, s.heard.term)
		}
	}
	heard := make(map[uint64]Heard)
	for _, s := range r.nodes {
		if members[s.replica] != "" && s.heard.term == term && !s.heard.At.IsZero() {
			heard[s.replica] = s.heard.Heard
		}
	}
	return heard
}
