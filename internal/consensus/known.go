package consensus

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lni/dragonboat/v4/raftpb"

	"github.com/holdfast-go/holdfast/fsm"
)

// A replica that has forgotten votes or entries, because an older copy of its directory was put
// back, must never vote or acknowledge again: what it had promised others may be all that keeps a
// committed entry. So every connection begins with a greeting, and the receiver compares it with
// all that it knows of the node:
//
//   - the process that was heard last on connections here, the one that the replicated state has on
//     record, and those in the log behind it: only that one or a process after it is heard;
//   - what the node has promised here since this replica started: a process that comes back with
//     less is not heard.
//
// Both are of one life of the node as a replica. One whose replica was removed begins another life
// (ReplicaOf), with nothing, and has promised nothing in it: its former replica never counts again.
// Who comes back in a former life has forgotten the later one.
//
// Whoever is refused is told so, and stops for good.
//
// What this cannot see: a copy that was made while the last process of its node was running, and is
// put back after that has ended, where nobody whom it meets has heard of what it lacks. An entry
// that it lacks was heard of by
//
//   - the raft leader of that time, if the node followed: it has the acknowledgement;
//   - a voter that the node replicated to, if it was raft leader: with the first Replicate or
//     heartbeat after the commit, so before any outcome that is given there, and before an entry is
//     acknowledged that was proposed after the commit. What the raft leader answered to its own
//     callers in its last moment, nobody has heard of.
//
// Who has heard of it forgets it when it restarts, may be away, or may not be met before the copy
// votes. Then the copy and a voter that lacks the entry are a majority without it. Three voters
// that survive the loss of one do not survive one that forgets and another that is away.

// RunBits of an incarnation, the lowest, are random, so that two processes that counted as many
// starts of the node's directory, because one of them has a copy of it, are not taken for one.
const RunBits = 24

// after reports whether process next of a node is known, or may come after known. Of two that have
// counted as many starts, the one that is known stays.
func after(known, next uint64) bool {
	return known == 0 || next == known || next>>RunBits > known>>RunBits
}

// greeting is the first frame of a connection: who sends there.
type greeting struct {
	deployment  uint64
	node        fsm.Node
	incarnation uint64
	life        uint64        // of the node as a replica
	began       position      // what the replica's directory held when this process started it
	wall        time.Duration // the node's wall clock, since 1970 (see clocks.go)
	addr        string        // where the node is, "" if it does not know
}

const (
	greetingVersion = 4
	greetingBytes   = 1 + 8 + 16 + 2*8 + 3*8 + 8 // before the address
	greetingAddrMax = greetingMax - greetingBytes
)

// Size is that of a greeting on the wire.
func (g greeting) Size() int { return greetingBytes + len(g.addr) }

// MarshalTo writes the greeting.
func (g greeting) MarshalTo(b []byte) (int, error) {
	out := append(b[:0], greetingVersion)
	out = binary.LittleEndian.AppendUint64(out, g.deployment)
	out = append(out, g.node[:]...)
	for _, v := range []uint64{g.incarnation, g.life, g.began.term, g.began.vote, g.began.index, uint64(g.wall)} {
		out = binary.LittleEndian.AppendUint64(out, v)
	}
	return len(append(out, g.addr...)), nil
}

func decodeGreeting(b []byte) (g greeting, err error) {
	if len(b) < greetingBytes || len(b) > greetingBytes+greetingAddrMax || b[0] != greetingVersion {
		return g, fmt.Errorf("%w: greeting of %d bytes in another version", errFrame, len(b))
	}
	g.deployment = binary.LittleEndian.Uint64(b[1:])
	copy(g.node[:], b[9:])
	numbers := [6]uint64{}
	for i := range numbers {
		numbers[i] = binary.LittleEndian.Uint64(b[25+8*i:])
	}
	g.incarnation, g.life, g.began = numbers[0], numbers[1], position{numbers[2], numbers[3], numbers[4]}
	g.wall = time.Duration(numbers[5])
	if g.life >= 1<<LifeBits {
		return g, fmt.Errorf("%w: greeting of life %d", errFrame, g.life)
	}
	g.addr = string(b[greetingBytes:])
	return g, nil
}

// inbound is an incoming connection, by who sends on it.
type inbound struct {
	node        fsm.Node
	replica     uint64
	incarnation uint64
	close       func()
	gone        bool // a later process, or a later life, of the node was admitted
}

// knownReplicas is what was heard of each node. Nodes without a directory are new ones at each
// start, so they add up: of those that are neither members of the group nor connected, the ones
// that were here longest ago are dropped. What a member has promised is kept for as long as it may
// come back; a replica that was removed never does.
type knownReplicas struct {
	self     uint64                             // this replica
	recorded func(node fsm.Node) (uint64, bool) // the incarnation in the replicated state
	member   func(replica uint64) bool          // whether it belongs to the group, or may: not all is known yet
	mu       sync.Mutex
	changes  uint64 // counts arrivals and departures
	nodes    map[fsm.Node]*knownNode
}

// knownNode is what is known of a node besides the replicated state.
type knownNode struct {
	admitted
	before    admitted  // what counts again if this one withdraws
	withdrawn uint64    // the process that has, last
	bound     bool      // the process has promised something here
	addr      string    // where it is, by its own word
	at        time.Time // when that was heard last
	last      uint64    // changes when it came or went
	inbound   map[*inbound]struct{}
}

// admitted is what is known of the process of a node that was admitted last.
type admitted struct {
	incarnation uint64
	life        uint64
	replica     uint64   // in that life
	promised    position // here, in that life, by whatever process of the node
	heard       lastHeard
}

func newKnownReplicas(self uint64, recorded func(fsm.Node) (uint64, bool), member func(uint64) bool) *knownReplicas {
	return &knownReplicas{self: self, recorded: recorded, member: member, nodes: make(map[fsm.Node]*knownNode)}
}

// entry finds or makes a node's. The caller holds mu.
func (r *knownReplicas) entry(node fsm.Node) *knownNode {
	s, ok := r.nodes[node]
	if !ok {
		s = &knownNode{admitted: admitted{replica: ReplicaID(node.String())}, inbound: make(map[*inbound]struct{})}
		r.nodes[node] = s
	}
	r.changes++
	s.last = r.changes
	return s
}

// makeRoom makes room for another node, if there must be, many at a time. It reports whether there
// is any. The caller holds mu.
func (r *knownReplicas) makeRoom() bool {
	if len(r.nodes) < heardMax {
		return true
	}
	var gone []fsm.Node
	for node, s := range r.nodes {
		if len(s.inbound) == 0 && !r.member(s.replica) {
			gone = append(gone, node)
		}
	}
	slices.SortFunc(gone, func(a, b fsm.Node) int { return cmp.Compare(r.nodes[a].last, r.nodes[b].last) })
	for _, node := range gone[:min(len(gone), len(r.nodes)-heardMax*3/4)] {
		delete(r.nodes, node)
	}
	return len(r.nodes) < heardMax
}

// heard notes that there was a process of a node: its Hello is in the log, which bounds them.
func (r *knownReplicas) heard(node fsm.Node, incarnation uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.entry(node)
	s.incarnation = max(s.incarnation, incarnation)
}

// current refuses a process that is not the last that is known of its node.
func (r *knownReplicas) current(node fsm.Node, incarnation uint64) error {
	known := uint64(0)
	if recorded, ok := r.recorded(node); ok {
		known = recorded
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.nodes[node]; s != nil && s.incarnation > known {
		known = s.incarnation
	}
	if !after(known, incarnation) {
		return fmt.Errorf("%w: process %#x of node %v, after %#x", ErrSuperseded, incarnation, node, known)
	}
	return nil
}

// admit lets the sender of a new connection in, whose frames come from that inbound then, or
// refuses it. The connections of earlier processes of the node are closed.
func (r *knownReplicas) admit(g greeting, closeConn func()) (*inbound, error) {
	if err := r.current(g.node, g.incarnation); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.nodes[g.node] == nil && !r.makeRoom() {
		return nil, refuse("from node %v, one too many", g.node)
	}
	s := r.entry(g.node)
	if err := s.forgotten(g); err != nil {
		return nil, err
	}
	if s.incarnation != g.incarnation || s.life != g.life {
		s.succeed(g)
	}
	in := &inbound{node: g.node, replica: s.replica, incarnation: g.incarnation, close: closeConn}
	s.inbound[in] = struct{}{}
	s.addr, s.at = g.addr, time.Now()
	return in, nil
}

// presentFor is how long a process is taken to be where it said, after it was last heard. What
// follows the raft leader is heard with every heartbeat; who stands for election is heard when it
// asks, and must get the answers.
const presentFor = 2 * time.Second

// present returns where the process of a node is that was admitted last, if it is connected and was
// heard a moment ago.
func (r *knownReplicas) present(node string) (addr string, ok bool) {
	id, err := fsm.ParseNode(node)
	if err != nil {
		return "", false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.nodes[id]
	if s == nil || len(s.inbound) == 0 || s.addr == "" || time.Since(s.at) > presentFor {
		return "", false
	}
	return s.addr, true
}

// forgotten refuses a process that has forgotten what its node has promised here, one that has
// withdrawn, and what is left of a former life of the same process.
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
	case s.life == g.life && g.began.forgets(s.promised):
		return fmt.Errorf("%w: process %#x of node %v began at %v, but the node had promised %v",
			ErrForgetful, g.incarnation, g.node, g.began, s.promised)
	}
	return nil
}

// succeed makes way for a later process of the node, or a later life: nothing is heard of the
// former any more.
func (s *knownNode) succeed(g greeting) {
	s.before = s.admitted
	if s.life != g.life {
		s.life, s.replica = g.life, ReplicaOf(g.node.String(), g.life)
		s.promised, s.heard = position{}, lastHeard{}
	}
	s.incarnation, s.bound = g.incarnation, false
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

// leave forgets a connection.
func (r *knownReplicas) leave(in *inbound) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !in.gone {
		delete(r.entry(in.node).inbound, in)
	}
}

// accept remembers what a sender's messages promise and prove, before they are delivered. A sender
// that is gone is refused: what it promises now, its successor does not know.
func (r *knownReplicas) accept(in *inbound, messages []raftpb.Message) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if in.gone {
		return fmt.Errorf("%w: process %#x of node %v", ErrSuperseded, in.incarnation, in.node)
	}
	s, now := r.nodes[in.node], time.Now() // the node is kept while it is connected
	s.at = now
	for i := range messages {
		s.heard.message(&messages[i], now)
		if p, ok := promises(&messages[i], r.self); ok {
			s.promised, s.bound = s.promised.advance(p), true
		}
	}
	return nil
}
