package consensus

import (
	"errors"
	"sync"

	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/raftio"
)

// shard is the engine's number of the one group.
const shard = 1

var errUnresolved = errors.New("holdfast: node has no known address")

// registry knows which node every replica belongs to, and where nodes are. The engine tells it about
// members as it applies them; a replica that has just joined and applied nothing yet answers whoever it
// heard from. It implements raftio.INodeRegistry, whose methods must never panic nor block.
type registry struct {
	resolve func(node string) (string, bool)

	mu      sync.RWMutex
	members map[uint64]string // as applied here, self included
	heard   map[uint64]string // senders of vetted messages
	last    map[string]string // last known address by node
}

// heardMax bounds the senders remembered: more than a group can have.
const heardMax = 4096

func newRegistry(resolve func(node string) (string, bool)) *registry {
	return &registry{
		resolve: resolve,
		members: make(map[uint64]string),
		heard:   make(map[uint64]string),
		last:    make(map[string]string),
	}
}

// Create answers the registry itself: it is its own factory.
func (r *registry) Create(string, uint64, config.TargetValidator) (raftio.INodeRegistry, error) {
	return r, nil
}

// Add notes a member.
func (r *registry) Add(_, replica uint64, node string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.members[replica] = node
}

// Remove forgets a member that was removed from the group.
func (r *registry) Remove(_, replica uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.members, replica)
	delete(r.heard, replica)
}

// RemoveShard does nothing: this replica was removed, and what it knows harms nobody.
func (r *registry) RemoveShard(uint64) {}

// Close does nothing.
func (r *registry) Close() error { return nil }

// reset forgets the members: a snapshot is about to bring them all.
func (r *registry) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.members)
}

// hear notes the sender of a vetted message.
func (r *registry) hear(replica uint64, node string) {
	r.mu.RLock()
	known := r.members[replica] == node || r.heard[replica] == node
	r.mu.RUnlock()
	if known {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.heard) < heardMax {
		r.heard[replica] = node
	}
}

// met notes where a node said that it is. It counts as long as gossip has not told: that says nothing of a node
// whose life is in doubt to one that has just started, which could then not answer it.
func (r *registry) met(node, addr string) {
	if _, ok := r.resolve(node); ok || addr == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.last) < heardMax {
		r.last[node] = addr
	}
}

// address is where a node is by gossip, "" if that does not know.
func (r *registry) address(node string) string {
	addr, ok := r.resolve(node)
	if !ok || len(addr) > greetingAddrMax {
		return ""
	}
	return addr
}

// node answers the node of a replica.
func (r *registry) node(replica uint64) (string, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if node, ok := r.members[replica]; ok {
		return node, true
	}
	node, ok := r.heard[replica]
	return node, ok
}

// known answers a copy of the members.
func (r *registry) known() map[uint64]string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	members := make(map[uint64]string, len(r.members))
	for replica, node := range r.members {
		members[replica] = node
	}
	return members
}

// Resolve answers where a replica is, and the key of the queue for it: a node that moves gets a new one.
func (r *registry) Resolve(_, replica uint64) (addr, key string, err error) {
	node, ok := r.node(replica)
	if !ok {
		return "", "", errUnresolved
	}
	addr, ok = r.resolve(node)
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
		r.last[node] = addr
		r.mu.Unlock()
	}
	return addr, node + "@" + addr, nil
}
