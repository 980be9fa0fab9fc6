package holdfast

import (
	"maps"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/consensus"
	"github.com/holdfast-go/holdfast/internal/lease"
)

const (
	// silentAfter is when the raft leader tells the others that it does not hear a replica, and how often it says so.
	silentAfter = 2 * time.Second
	// staleAfter is for how long a node takes over what a former raft leader said of a silent replica. Who was
	// heard again meanwhile, and not reported so, is taken for silent longer than it was by this at most.
	staleAfter = 10 * time.Second
)

// hearing is whom the raft leader heard through Raft, and when. A raft leader asks its own replica (consensus.Heard),
// and publishes in the log who is silent; so its successor goes on counting, and a dead voter is replaced in time also
// where raft leaders change more often than that. Durations may be too short, hardly ever too long.
type hearing struct {
	mu        sync.Mutex
	published map[string]unheard // by node, from the log

	// Of the goroutine of the pilot, while this node is raft leader:
	last map[uint64]lease.Instant // when a replica was heard
	from lease.Instant            // since when this node is raft leader; 0: it is not
	said lease.Instant            // when it published last
	told map[string]bool          // which nodes' replicas are published as silent
}

// unheard is since when a replica was silent, as a raft leader said at some time.
type unheard struct{ since, said lease.Instant }

func newHearing() *hearing { return &hearing{published: make(map[string]unheard)} }

// note takes what a raft leader has published.
func (h *hearing) note(e *fsm.Event, now lease.Instant) {
	h.mu.Lock()
	defer h.mu.Unlock()
	node := e.Session.Node.String()
	if e.TTL == 0 {
		delete(h.published, node)
		return
	}
	h.published[node] = unheard{now - lease.Instant(e.TTL), now}
}

// lead begins the time of this node as raft leader, unless it has begun. What was published of a node is of the replica that
// it has in the group: one that is removed is published as silent no more.
func (h *hearing) lead(members consensus.Members, now lease.Instant) {
	if h.from != 0 {
		return
	}
	h.from, h.said = now, 0
	h.last, h.told = make(map[uint64]lease.Instant), make(map[string]bool)
	h.mu.Lock()
	defer h.mu.Unlock()
	for node, s := range h.published {
		h.told[node] = true
		if replica, ok := members.Replica(node); ok && now-s.said <= lease.Instant(staleAfter) {
			h.last[replica] = s.since
		}
	}
}

// follow ends it.
func (h *hearing) follow() { h.from = 0 }

// listening is for how long this node has been raft leader.
func (h *hearing) listening(now lease.Instant) time.Duration { return time.Duration(now - h.from) }

// take notes what the replica has heard of the members in the present term. Of one that is new to this raft leader it counts
// from now: it was taken in a moment ago, or heard by a former raft leader as far as that has said.
func (h *hearing) take(heard map[uint64]consensus.Heard, members consensus.Members, now lease.Instant) {
	maps.DeleteFunc(h.last, func(replica uint64, _ lease.Instant) bool { return !members.Includes(replica) })
	for replica := range members.All() {
		last, known := h.last[replica]
		if one, ok := heard[replica]; ok {
			at := now - lease.Instant(max(0, time.Since(one.At)))
			h.last[replica] = max(last, at)
		} else if !known {
			h.last[replica] = now
		}
	}
}

// since is for how long a member's replica was not heard.
func (h *hearing) since(replica uint64, now lease.Instant) time.Duration {
	return time.Duration(now - h.last[replica])
}

// report is what is to be published now, nil if nothing is: who is silent, and who is no more. commands is how many
// this replica has applied.
func (h *hearing) report(members consensus.Members, self string, commands uint64, now lease.Instant) *fsm.Silent {
	if now-h.said < lease.Instant(silentAfter) {
		return nil
	}
	silent := fsm.Silent{Seen: commands}
	told := make(map[string]bool)
	add := func(node string, d time.Duration) {
		if id, err := fsm.ParseNode(node); err == nil && len(silent.Nodes) < fsm.SilentMax {
			silent.Nodes = append(silent.Nodes, fsm.Silence{Node: id, For: d.Truncate(time.Millisecond)})
		}
	}
	for replica, node := range members.All() {
		if d := h.since(replica, now); node != self && d >= silentAfter {
			add(node, d)
			told[node] = true
		}
	}
	for node := range h.told {
		if !told[node] {
			add(node, 0)
		}
	}
	if len(silent.Nodes) == 0 {
		return nil
	}
	h.said, h.told = now, told
	return &silent
}
