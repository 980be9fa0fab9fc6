package consensus

import (
	"errors"
	"maps"
	"sync"

	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/raftio"
)

// shard is the engine's number of the one group.
const shard = 1

var errUnresolved = errors.New("holdfast: node has no known address")

// registry knows which node every replica belongs to, and where nodes are. The engine tells it
// about members as it applies them; a replica that has just joined and applied nothing yet answers
// whoever it heard from. It implements raftio.INodeRegistry, whose methods must never panic nor
// block.
type registry struct {
	resolve func(node string) (string, bool) // by gossip
	present func(node string) (string, bool) // by whom Raft hears: see knownReplicas.present
	removed chan uint64                      // the last replica that was removed and not looked at yet

	mu      sync.RWMutex
	members map[uint64]string // as applied here, self included
	former  map[uint64]string // members before the last snapshot that was received
	heard   map[uint64]string // senders of validated messages
	last    map[string]string // last known address by node
}

// heardMax bounds the nodes remembered that are no members of the group: those that are no more,
// and senders that are none yet, or never.
const heardMax = 4096

func newRegistry(resolve func(node string) (string, bool)) *registry {
	return &registry{
		resolve: resolve,
		present: func(string) (string, bool) { return "", false },
		removed: make(chan uint64, 1),
		members: make(map[uint64]string),
		heard:   make(map[uint64]string),
		last:    make(map[string]string),
	}
}

// Create returns the registry itself: it is its own factory.
func (r *registry) Create(string, uint64, config.TargetValidator) (raftio.INodeRegistry, error) {
	return r, nil
}

// Add notes a member.
func (r *registry) Add(_, replica uint64, node string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.members[replica] = node
	maps.DeleteFunc(r.heard, func(_ uint64, other string) bool { return other == node }) // in former lives
}

// Remove forgets a member that was removed from the group.
func (r *registry) Remove(_, replica uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.last, r.members[replica])
	delete(r.members, replica)
	delete(r.former, replica)
	delete(r.heard, replica)
	select {
	case <-r.removed: // the later one counts
	default:
	}
	r.removed <- replica // there is room: mu is held
}

// RemoveShard does nothing: this replica was removed, and what it knows harms nobody.
func (r *registry) RemoveShard(uint64) {}

// Close does nothing.
func (r *registry) Close() error { return nil }

// reset forgets the members: a snapshot is about to bring them all.
func (r *registry) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.former, r.members = r.members, make(map[uint64]string)
}

// belongs reports whether a replica is a member, or was before a snapshot that brings the members
// one by one. Before any are known, all may be.
func (r *registry) belongs(replica uint64) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(r.members) == 0 || r.isKnown(replica)
}

// includes reports whether a replica is a member as applied here, or was before a snapshot that
// brings the members one by one. Replica 0 stands for any.
func (r *registry) includes(replica uint64) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if replica == 0 {
		return len(r.members)+len(r.former) > 0
	}
	return r.isKnown(replica)
}

// isKnown reports whether a replica is in either map. The caller holds mu.
func (r *registry) isKnown(replica uint64) bool {
	return r.members[replica] != "" || r.former[replica] != ""
}

// shed makes room in a full map, for one at least: it drops any that need not be kept, a quarter of
// them all at most. Those that are still there are heard again.
func shed[K comparable](m map[K]string, keep func(K) bool) {
	if len(m) < heardMax {
		return
	}
	for k := range m {
		if len(m) <= heardMax*3/4 {
			return
		}
		if !keep(k) {
			delete(m, k)
		}
	}
}

// isMember reports of nodes whether they have a replica that is a member. The caller holds mu.
func (r *registry) isMember() func(node string) bool {
	nodes := make(map[string]bool, len(r.members))
	for _, node := range r.members {
		nodes[node] = true
	}
	return func(node string) bool { return nodes[node] }
}

// note notes where a node is. The caller holds mu.
func (r *registry) note(node, addr string) {
	if _, ok := r.last[node]; !ok {
		if len(r.last) >= heardMax {
			shed(r.last, r.isMember())
		}
	}
	r.last[node] = addr
}

// hear notes the sender of a validated message.
func (r *registry) hear(replica uint64, node string) {
	r.mu.RLock()
	known := r.members[replica] == node || r.heard[replica] == node
	r.mu.RUnlock()
	if known {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	shed(r.heard, func(replica uint64) bool { return r.members[replica] != "" })
	r.heard[replica] = node
}

// met notes where a node said that it is. It counts as long as gossip has not told: that says
// nothing of a node whose life is in doubt to one that has just started, which could then not
// answer it.
func (r *registry) met(node, addr string) {
	if _, ok := r.resolve(node); ok || addr == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.note(node, addr)
}

// address is where a node is by gossip, "" if that does not know.
func (r *registry) address(node string) string {
	addr, ok := r.resolve(node)
	if !ok || len(addr) > greetingAddrMax {
		return ""
	}
	return addr
}

// node returns the node of a replica.
func (r *registry) node(replica uint64) (string, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if node, ok := r.members[replica]; ok {
		return node, true
	}
	node, ok := r.heard[replica]
	return node, ok
}

// known returns a copy of the members.
func (r *registry) known() map[uint64]string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	members := make(map[uint64]string, len(r.members))
	for replica, node := range r.members {
		members[replica] = node
	}
	return members
}

// Resolve returns where a replica is, and the key of the queue for it: a node that moves gets a new
// one. The word of a process that is heard on a connection counts before gossip's, which tells of
// another one if there is a copy of the node's directory, whether or not anybody hears that.
func (r *registry) Resolve(_, replica uint64) (addr, key string, err error) {
	node, ok := r.node(replica)
	if !ok {
		return "", "", errUnresolved
	}
	if addr, ok = r.present(node); !ok {
		addr, ok = r.resolve(node)
	}
	r.mu.RLock()
	last := r.last[node]
	r.mu.RUnlock()
	switch {
	case !ok && last == "":
		return "", "", errUnresolved
	case !ok:
		addr = last
	case addr != last:
		r.mu.Lock()
		r.note(node, addr)
		r.mu.Unlock()
	}
	return addr, node + "@" + addr, nil
}
