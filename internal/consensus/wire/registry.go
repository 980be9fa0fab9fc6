package wire

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/raftio"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/lease"
)

var errUnresolved = errors.New("holdfast: node has no known address")

// Registry is the one table of the nodes that this replica knows: the members of the group, which
// the engine adds as it applies them; every node that connects here (see known.go); and the address
// of each. It implements raftio.INodeRegistry, whose methods must neither panic nor block.
type Registry struct {
	self     uint64                                       // this replica
	resolve  func(node string) (string, bool)             // an address, by gossip
	recorded func(fsm.Node) (incarnation uint64, ok bool) // in the replicated state
	told     func()                                       // a replica was removed; it never blocks

	mu      sync.Mutex
	members map[uint64]string // as applied here, self included
	former  map[uint64]string // members before the last snapshot that was received
	changes uint64            // counts arrivals and departures
	nodes   map[fsm.Node]*knownNode
	sent    map[uint64]sent // by replica, as raft leader
	removed uint64          // the last replica that was removed
	behind  lease.Instant   // when the own clock was last found to be behind; 0: never
	backs   setBacks        // of the wall clock

	confirmed time.Time // see Confirmed
}

// heardMax bounds the nodes that are remembered. Nodes without a directory are new ones at each
// start, so they add up.
const heardMax = 4096

func newRegistry(self uint64, resolve func(string) (string, bool), recorded func(fsm.Node) (uint64, bool), removed func()) *Registry {
	return &Registry{
		self: self, resolve: resolve, recorded: recorded, told: removed,
		members: make(map[uint64]string), nodes: make(map[fsm.Node]*knownNode), sent: make(map[uint64]sent),
		backs: newSetBacks(),
	}
}

// Create returns the registry, which is its own factory.
func (r *Registry) Create(string, uint64, config.TargetValidator) (raftio.INodeRegistry, error) {
	return r, nil
}

// Add adds a member. No replica of a former life of its node is answered any more.
func (r *Registry) Add(_, replica uint64, node string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.members[replica] = node
	if s := r.find(node); s != nil {
		s.speaks = false
	}
}

// Remove forgets a member that was removed from the group, and its address.
func (r *Registry) Remove(_, replica uint64) {
	r.remove(replica)
	r.told()
}

func (r *Registry) remove(replica uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.find(cmp.Or(r.members[replica], r.former[replica])); s != nil {
		s.last, s.speaks = "", false
	}
	delete(r.members, replica)
	delete(r.former, replica)
	delete(r.sent, replica)
	r.removed = replica
}

// RemoveShard does nothing: this replica was removed, and its table harms no node.
func (r *Registry) RemoveShard(uint64) {}

// Close does nothing.
func (r *Registry) Close() error { return nil }

// Reset forgets the members: a snapshot is about to bring them all, one by one.
func (r *Registry) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.former, r.members = r.members, make(map[uint64]string)
	clear(r.sent) // this replica leads no term that it has sent in
}

// Len is how many replicas or nodes the larger of the maps has.
func (r *Registry) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return max(len(r.nodes), len(r.members))
}

// Includes reports whether a replica is a member as applied here, or was before the last snapshot.
// Replica 0 stands for any.
func (r *Registry) Includes(replica uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if replica == 0 {
		return len(r.members)+len(r.former) > 0
	}
	return r.members[replica] != "" || r.former[replica] != ""
}

// find returns what is known of a node; nil: nothing. The caller holds mu.
func (r *Registry) find(node string) *knownNode {
	id, err := fsm.ParseNode(node)
	if err != nil {
		return nil
	}
	return r.nodes[id]
}

// entry finds or makes the entry of a node. The caller holds mu.
func (r *Registry) entry(node fsm.Node) *knownNode {
	s, ok := r.nodes[node]
	if !ok {
		s = &knownNode{admitted: admitted{replica: ReplicaID(node.String())}, inbound: make(map[*inbound]struct{})}
		r.nodes[node] = s
	}
	r.changes++
	s.changed = r.changes
	return s
}

// makeRoom reports whether the table has room for another node. A full table drops a quarter, the
// nodes that were here longest ago first, but no node that is connected, and no member: its promises
// count until it is removed. Before any member is known, each node may be one. The caller holds mu.
func (r *Registry) makeRoom() bool {
	if len(r.nodes) < heardMax {
		return true
	}
	kept := make(map[string]bool, len(r.members))
	for _, members := range []map[uint64]string{r.members, r.former} {
		for _, node := range members {
			kept[node] = true
		}
	}
	var gone []fsm.Node
	for node, s := range r.nodes {
		if len(s.inbound) == 0 && len(r.members) > 0 && !kept[node.String()] {
			gone = append(gone, node)
		}
	}
	slices.SortFunc(gone, func(a, b fsm.Node) int { return cmp.Compare(r.nodes[a].changed, r.nodes[b].changed) })
	for _, node := range gone[:min(len(gone), len(r.nodes)-heardMax*3/4)] {
		delete(r.nodes, node)
	}
	return len(r.nodes) < heardMax
}

// address is where a node is by gossip, "" if gossip does not know.
func (r *Registry) address(node string) string {
	addr, ok := r.resolve(node)
	if !ok || len(addr) > greetingAddrMax {
		return ""
	}
	return addr
}

// Node returns the node of a replica. A replica that has just joined has applied no membership yet:
// it answers each node that sends to it.
func (r *Registry) Node(replica uint64) (string, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if node, ok := r.members[replica]; ok {
		return node, true
	}
	for node, s := range r.nodes {
		if s.speaks && s.replica == replica {
			return node.String(), true
		}
	}
	return "", false
}

// Members returns a copy of the members.
func (r *Registry) Members() map[uint64]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.members)
}

// Removed is the last replica that was removed.
func (r *Registry) Removed() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.removed
}

// presentFor is how long the address in a greeting counts after its process was last heard. A
// follower hears the raft leader with every heartbeat; a candidate is heard when it asks for votes,
// and must get the answers.
const presentFor = 2 * time.Second

// Resolve returns for the engine where a replica is, and the key of its send queue: a node that moves gets
// a new one. The address has another text after each step back of the wall clock.
func (r *Registry) Resolve(_, replica uint64) (addr, key string, err error) {
	node, addr, err := r.locate(replica)
	if err != nil {
		return "", "", err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return addr + r.backs.mark(), node + "@" + addr, nil
}

// Locate returns where a replica is.
func (r *Registry) Locate(replica uint64) (addr string, err error) {
	_, addr, err = r.locate(replica)
	return addr, err
}

// locate returns the node of a replica, and where it is. The word of a process that is connected counts
// before gossip, which may name the address of a copy of the node's directory. Without either, the last
// known address counts.
func (r *Registry) locate(replica uint64) (node, addr string, err error) {
	node, ok := r.Node(replica)
	id, parsed := fsm.ParseNode(node)
	if !ok || parsed != nil {
		return "", "", errUnresolved
	}
	if addr = r.connected(id); addr == "" {
		if addr, ok = r.resolve(node); !ok { // not under mu
			addr = ""
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.nodes[id]
	switch {
	case addr == "" && (s == nil || s.last == ""):
		return "", "", errUnresolved
	case addr == "":
		addr = s.last
	case s != nil && s.last == addr:
	case s != nil || r.makeRoom():
		r.entry(id).last = addr
	}
	return node, addr, nil
}

// connected returns the address that a node's process has greeted with, if it is connected and was
// heard within presentFor.
func (r *Registry) connected(node fsm.Node) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.nodes[node]
	if s == nil || len(s.inbound) == 0 || time.Since(s.at) > presentFor {
		return ""
	}
	return s.addr
}
