package wire

import (
	"cmp"
	"fmt"
	"time"

	"github.com/lni/dragonboat/v4/raftpb"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/consensus/report"
	"github.com/holdfast-go/holdfast/internal/consensus/store"
	"github.com/holdfast-go/holdfast/internal/lease"
)

// A replica that has forgotten votes or entries, because an older copy of its directory was put
// back, must never vote or acknowledge again: a committed entry may rest on its promises alone. So
// each connection begins with a greeting, and the receiver compares it with all that it knows of
// the node:
//
//   - its last process, by the connections here, the replicated state and the log: only that
//     process or a later one is heard;
//   - the node's promises here since this replica started: a process that comes back with less is
//     not heard.
//
// Both are of one life of the node as a replica. A node whose replica was removed begins another
// life (ReplicaOf) with an empty directory and no promises: its former replica never counts again.
// A process in a former life has forgotten the later one.
//
// A refused process receives the reason, and stops for good.
//
// One case is not detected: a copy that was made while the last process of its node was running,
// and is put back after that process has ended, if no replica that it meets knows of an entry that
// the copy lacks. These replicas know of it:
//
//   - the raft leader of that time, if the node followed: it has the acknowledgement;
//   - a voter that the node replicated to, if it was raft leader: with the first Replicate or
//     heartbeat after the commit, so before an outcome is given there, and before an entry is
//     acknowledged that was proposed after the commit. An outcome that the raft leader gave to its
//     own callers in its last moment is known to no replica.
//
// Such a replica forgets it with a restart, may be away, or may not be met before the copy votes.
// Then the copy and a voter that lacks the entry are a majority without it. Three voters that
// survive the loss of one do not survive one that forgets and another that is away.

// ErrSuperseded, ErrForgetful and ErrAhead are the causes when other replicas refuse this one.
var ErrSuperseded, ErrForgetful, ErrAhead = report.ErrSuperseded, report.ErrForgetful, report.ErrAhead

// inbound is an incoming connection and its sender.
type inbound struct {
	node        fsm.Node
	replica     uint64
	incarnation uint64
	close       func()
	follows     Ending // of an earlier process of the node, if this is its first connection
	gone        bool   // a later process, or a later life, of the node was admitted
}

// knownNode is the Registry's entry of a node.
type knownNode struct {
	admitted
	before    admitted  // counts again if this one withdraws
	withdrawn uint64    // the last process that has withdrawn
	bound     bool      // the process has promised something here
	speaks    bool      // its replica has sent a validated message
	addr      string    // in its last greeting
	last      string    // the last address that was used, or known while gossip knew none
	at        time.Time // when the process was last heard
	changed   uint64    // Registry.changes when it came or went
	inbound   map[*inbound]struct{}
}

// admitted is the process of a node that was admitted last.
type admitted struct {
	incarnation uint64
	life        uint64
	replica     uint64         // in that life
	promised    store.Position // here, in that life, by any process of the node
	heard       lastHeard
	offered     offer
	clock       heardFrom  // of the process, 0 before it has sent one
	peer        lease.Peer // the process, to which the own clock is compared
}

// Note notes a process of a node, whose Hello is in the log: that bounds their number.
func (r *Registry) Note(node fsm.Node, incarnation uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.entry(node)
	s.incarnation = max(s.incarnation, incarnation)
}

// current refuses a process that is not the last known one of its node.
func (r *Registry) current(node fsm.Node, incarnation uint64) error {
	known, _ := r.recorded(node)
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.nodes[node]; s != nil {
		known = max(known, s.incarnation)
	}
	if !after(known, incarnation) {
		return fmt.Errorf("%w: process %#x of node %v, after %#x", ErrSuperseded, incarnation, node, known)
	}
	return nil
}

// admit admits the sender of a new connection or refuses it. The connections of earlier processes
// of the node are closed. The address in the greeting counts as long as gossip knows none: a node
// that has just started could not answer otherwise.
func (r *Registry) admit(g greeting, closeConn func()) (*inbound, error) {
	if err := r.current(g.node, g.incarnation); err != nil {
		return nil, err
	}
	_, gossiped := r.resolve(g.node.String())
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.nodes[g.node] == nil && !r.makeRoom() {
		return nil, refuse("from node %v, one too many", g.node)
	}
	s := r.entry(g.node)
	if err := s.forgotten(g); err != nil {
		return nil, err
	}
	follows := s.ending(g.node)
	follows.Succeeded = s.incarnation != 0 && s.incarnation != g.incarnation
	if s.incarnation != g.incarnation || s.life != g.life {
		s.succeed(g)
	}
	in := &inbound{node: g.node, replica: s.replica, incarnation: g.incarnation, close: closeConn, follows: follows}
	s.inbound[in] = struct{}{}
	s.addr, s.at = g.addr, time.Now()
	if g.addr != "" && !gossiped {
		s.last = g.addr
	}
	return in, nil
}

// forgotten refuses a process that has forgotten its node's promises here, one that has withdrawn,
// and late connections of a former life of the same process.
func (s *knownNode) forgotten(g greeting) error {
	switch {
	case s.withdrawn != 0 && s.withdrawn == g.incarnation:
		return fmt.Errorf("%w: process %#x of node %v has withdrawn", ErrSuperseded, g.incarnation, g.node)
	case s.incarnation == g.incarnation && !mayFollow(s.life, g.life):
		return refuse("from node %v in life %#x, after %#x", g.node, g.life, s.life)
	case s.incarnation == g.incarnation:
	case !mayFollow(s.life, g.life):
		return fmt.Errorf("%w: process %#x of node %v is in life %#x, but the node was in %#x",
			ErrForgetful, g.incarnation, g.node, g.life, s.life)
	case s.life == g.life && g.began.Forgets(s.promised):
		return fmt.Errorf("%w: process %#x of node %v began at %v, but the node had promised %v",
			ErrForgetful, g.incarnation, g.node, g.began, s.promised)
	}
	return nil
}

// succeed replaces the process of the node by a later one, or by a later life.
func (s *knownNode) succeed(g greeting) {
	s.before = s.admitted
	if s.life != g.life {
		s.life, s.replica, s.speaks = g.life, ReplicaOf(g.node.String(), g.life), false
		s.promised, s.heard, s.offered = store.Position{}, lastHeard{}, offer{}
	}
	s.incarnation, s.bound = g.incarnation, false
	s.clock, s.peer = heardFrom{}, lease.Peer{}
	s.disconnect()
}

// disconnect closes the connections of a node.
func (s *knownNode) disconnect() {
	for old := range s.inbound {
		old.gone = true
		old.close()
	}
	clear(s.inbound)
}

// leave forgets a connection. It returns its process, and whether that has no other here.
func (r *Registry) leave(in *inbound) (e Ending, last bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if in.gone {
		return e, false
	}
	s := r.entry(in.node)
	delete(s.inbound, in)
	return s.ending(in.node), len(s.inbound) == 0
}

// ending is the end of the process that counts.
func (s *knownNode) ending(node fsm.Node) Ending {
	return Ending{Node: node, Replica: s.replica, Incarnation: s.incarnation, Addr: cmp.Or(s.addr, s.last), Offered: s.offered.index, Term: s.offered.term}
}

// superseded reports whether a later process of the node was admitted.
func (r *Registry) superseded(in *inbound) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return in.gone
}

// offer is the last entry that a raft leader has sent here in a term.
type offer struct{ term, index uint64 }

func (o *offer) message(m *raftpb.Message) {
	if m.Type != raftpb.Replicate || m.Term < o.term {
		return
	}
	if m.Term > o.term {
		*o = offer{term: m.Term}
	}
	o.index = max(o.index, m.LogIndex+uint64(len(m.Entries)))
}

// accept remembers a sender's promises and answers before its messages are delivered. A sender that
// is gone is refused: its successor does not know what it promises now.
func (r *Registry) accept(in *inbound, messages []raftpb.Message) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if in.gone {
		return fmt.Errorf("%w: process %#x of node %v", ErrSuperseded, in.incarnation, in.node)
	}
	s, now := r.nodes[in.node], time.Now() // the node is kept while it is connected
	s.at, s.speaks = now, true
	for i := range messages {
		if err := r.ahead(&messages[i]); err != nil {
			return err
		}
		s.heard.message(&messages[i], now)
		if m := &messages[i]; m.Type == raftpb.HeartbeatResp && m.Hint != 0 {
			r.confirmed = now
		}
		s.offered.message(&messages[i])
		if p, ok := promises(&messages[i], r.self); ok {
			s.promised, s.bound = s.promised.Advance(p), true
		}
	}
	return nil
}

// promises returns what the sender of a message promises with it: by a vote, an acknowledgement, or
// as raft leader a commit index, which counts the raft leader's own log. All of that is on the
// sender's disk when it is sent. (The entries of a Replicate are not, but what they commit is: see
// sender.backed.) A Replicate comes with each commit, and its commit index is not cut to the
// receiver's log, as that of a heartbeat is. self is the receiving replica.
func promises(m *raftpb.Message, self uint64) (store.Position, bool) {
	switch {
	case m.Type == raftpb.RequestVote:
		return store.Position{Term: m.Term, Vote: m.From}, true
	case m.Type == raftpb.RequestVoteResp && !m.Reject:
		return store.Position{Term: m.Term, Vote: self}, true
	case m.Type == raftpb.Heartbeat, m.Type == raftpb.Replicate:
		return store.Position{Term: m.Term, Vote: m.From, Index: m.Commit}, true
	case m.Type == raftpb.ReplicateResp && !m.Reject:
		return store.Position{Term: m.Term, Index: m.LogIndex}, true
	}
	return store.Position{}, false
}

// Heard is when Raft last heard another replica here.
type Heard struct {
	At       time.Time // by the local clock; its monotonic reading counts
	Match    uint64    // on the raft leader: the last entry that the other has acknowledged; 0: none yet
	Snapshot time.Time // when a piece of a snapshot was last sent to the other, or else when it was first heard
	Leads    bool      // the other is the raft leader of that term
}

// lastHeard is when a node's replica was last heard in a term.
type lastHeard struct {
	term uint64
	Heard
}

// message notes a message if it proves something (see Group.Heard).
func (h *lastHeard) message(m *raftpb.Message, now time.Time) {
	match := uint64(0)
	switch m.Type {
	case raftpb.HeartbeatResp, raftpb.Heartbeat, raftpb.Replicate, raftpb.ReadIndexResp:
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
		*h = lastHeard{term: m.Term, Heard: Heard{Snapshot: h.Snapshot}}
	}
	if h.Snapshot.IsZero() { // no duration reaches back to the zero time
		h.Snapshot = now
	}
	h.At, h.Match = now, max(h.Match, match)
	h.Leads = h.Leads || m.Type == raftpb.Heartbeat || m.Type == raftpb.Replicate
}

// snapshotSent notes that a piece of a snapshot was sent to a replica, which acknowledges no entry
// meanwhile.
func (r *Registry) snapshotSent(replica uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.nodes {
		if s.replica == replica {
			s.heard.Snapshot = time.Now()
		}
	}
}

// LastHeard is when any message of a replica last arrived here, zero if none did.
func (r *Registry) LastHeard(replica uint64) (at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.nodes {
		if s.replica == replica && s.at.After(at) {
			at = s.at
		}
	}
	return at
}

// Confirmed is when another replica last confirmed a read to this raft leader, zero if none did.
func (r *Registry) Confirmed() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.confirmed
}

// HasConnection reports whether a replica has a connection here.
func (r *Registry) HasConnection(replica uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.find(r.members[replica])
	return s != nil && s.replica == replica && len(s.inbound) > 0
}

// Heard returns when each member of the group was heard, by replica, in the last term in which any
// was heard, or in term if that is later; and which of the two it is.
func (r *Registry) Heard(term uint64) (heard map[uint64]Heard, in uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.nodes {
		if r.members[s.replica] != "" {
			term = max(term, s.heard.term)
		}
	}
	heard = make(map[uint64]Heard)
	for _, s := range r.nodes {
		if r.members[s.replica] != "" && s.heard.term == term && !s.heard.At.IsZero() {
			heard[s.replica] = s.heard.Heard
		}
	}
	return heard, term
}
