package consensus

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync"

	"github.com/lni/dragonboat/v4/raftpb"

	"github.com/holdfast-go/holdfast/fsm"
)

// A replica that has forgotten votes or entries, because an older copy of its directory was put back, must
// never vote or acknowledge again: what it had promised others may be all that keeps a committed entry. So
// every connection begins with a greeting, and the receiver compares it with all that it knows of the node:
//
//   - the process that was heard last on connections here, the one that the replicated state has on record,
//     and those in the log behind it: only that one or a process after it is heard;
//   - what the node has promised here since this replica started: a process that comes back with less is not
//     heard.
//
// Whoever is refused is told so, and stops for good.
//
// What this cannot see: a copy made while the last process of its node was running, put back after that has
// ended, when all replicas that this process made promises to are gone, too, or have restarted since.

// RunBits of an incarnation, the lowest, are random, so that two processes that counted as many starts of the
// node's directory, because one of them has a copy of it, are not taken for one.
const RunBits = 24

// after reports whether process next of a node is known, or may come after known. Of two that have counted as
// many starts, the one that is known stays.
func after(known, next uint64) bool {
	return known == 0 || next == known || next>>RunBits > known>>RunBits
}

// greeting is the first frame of a connection: who sends there.
type greeting struct {
	deployment  uint64
	node        fsm.Node
	incarnation uint64
	began       position // what the replica's directory held when this process started it
	addr        string   // where the node is, "" if it does not know
}

const (
	greetingVersion = 2
	greetingBytes   = 1 + 8 + 16 + 8 + 3*8 // before the address
	greetingAddrMax = greetingMax - greetingBytes
)

// Size is that of a greeting on the wire.
func (g greeting) Size() int { return greetingBytes + len(g.addr) }

// MarshalTo writes the greeting.
func (g greeting) MarshalTo(b []byte) (int, error) {
	out := append(b[:0], greetingVersion)
	out = binary.LittleEndian.AppendUint64(out, g.deployment)
	out = append(out, g.node[:]...)
	for _, v := range []uint64{g.incarnation, g.began.term, g.began.vote, g.began.index} {
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
	numbers := [4]uint64{}
	for i := range numbers {
		numbers[i] = binary.LittleEndian.Uint64(b[25+8*i:])
	}
	g.incarnation, g.began = numbers[0], position{numbers[1], numbers[2], numbers[3]}
	g.addr = string(b[greetingBytes:])
	return g, nil
}

// guest is who sends on an incoming connection.
type guest struct {
	node        fsm.Node
	replica     uint64
	incarnation uint64
	close       func()
	gone        bool // a later process of the node was admitted
}

// roster knows what was heard of each node.
type roster struct {
	self     uint64                             // this replica
	recorded func(node fsm.Node) (uint64, bool) // the incarnation in the replicated state
	mu       sync.Mutex
	nodes    map[fsm.Node]*standing
}

// standing is what is known of a node besides the replicated state.
type standing struct {
	incarnation uint64
	promised    position // here, by whatever process of it
	guests      map[*guest]struct{}
}

func newRoster(self uint64, recorded func(fsm.Node) (uint64, bool)) *roster {
	return &roster{self: self, recorded: recorded, nodes: make(map[fsm.Node]*standing)}
}

// standing finds or makes a node's. The caller holds mu.
func (r *roster) standing(node fsm.Node) *standing {
	s, ok := r.nodes[node]
	if !ok {
		s = &standing{guests: make(map[*guest]struct{})}
		r.nodes[node] = s
	}
	return s
}

// heard notes that there was a process of a node: its Hello is in the log.
func (r *roster) heard(node fsm.Node, incarnation uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.standing(node)
	s.incarnation = max(s.incarnation, incarnation)
}

// current refuses a process that is not the last that is known of its node.
func (r *roster) current(node fsm.Node, incarnation uint64) error {
	known := uint64(0)
	// A node that the group has removed is on record as if a last process of it had been there. It is told
	// elsewhere that it was removed.
	if recorded, ok := r.recorded(node); ok && recorded != math.MaxUint64 {
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

// admit lets the sender of a new connection in, whose frames come from the guest then, or refuses it. The
// connections of earlier processes of the node are closed.
func (r *roster) admit(g greeting, hangUp func()) (*guest, error) {
	if err := r.current(g.node, g.incarnation); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.nodes) >= heardMax && r.nodes[g.node] == nil {
		return nil, refuse("from node %v, one too many", g.node)
	}
	s := r.standing(g.node)
	if s.incarnation != g.incarnation {
		if g.began.forgets(s.promised) {
			return nil, fmt.Errorf("%w: process %#x of node %v began at %v, but the node had promised %v",
				ErrForgetful, g.incarnation, g.node, g.began, s.promised)
		}
		s.incarnation = g.incarnation
		for old := range s.guests {
			old.gone = true
			old.close()
		}
		clear(s.guests)
	}
	in := &guest{node: g.node, replica: ReplicaID(g.node.String()), incarnation: g.incarnation, close: hangUp}
	s.guests[in] = struct{}{}
	return in, nil
}

// leave forgets a connection.
func (r *roster) leave(in *guest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.standing(in.node).guests, in)
}

// accept remembers what a guest's messages promise, before they are delivered. A guest that is gone is refused:
// what it promises now, its successor does not know.
func (r *roster) accept(in *guest, messages []raftpb.Message) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if in.gone {
		return fmt.Errorf("%w: process %#x of node %v", ErrSuperseded, in.incarnation, in.node)
	}
	s := r.standing(in.node)
	for i := range messages {
		if p, ok := promises(&messages[i], r.self); ok {
			s.promised = s.promised.advance(p)
		}
	}
	return nil
}
