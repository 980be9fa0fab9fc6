package autopilot

import (
	"bytes"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/lease"
)

const (
	// silentAfter is when the raft leader tells the others that it does not hear a replica, and how
	// often it says so.
	silentAfter = 2 * time.Second
	// staleAfter is for how long a raft leader goes on from the silence of a replica that a former
	// raft leader has published.
	staleAfter = 10 * time.Second
)

// silences has the time at which the raft leader last heard each replica through Raft. A raft leader
// asks its own replica (Heard), and publishes the silent replicas in the log; so its successor goes
// on counting, and a dead voter is replaced in time also where raft leaders change more often than
// that. Durations may be too short. They are too long where a raft leader hears a replica again and
// cannot publish that any more: its successor uses the last published silence.
type silences struct {
	published map[string]unheard       // by node, from the log
	again     map[string]lease.Instant // when the log said last that a node's replica is heard

	// While this node is raft leader:
	last map[uint64]lease.Instant // when a replica was heard
	from lease.Instant            // since when this node is raft leader; 0: it is not
	back lease.Instant            // when it ran again after it stood still as raft leader; 0: it never stood
	said lease.Instant            // when it published last
	told map[string]bool          // nodes whose replicas are published as silent
	over map[string]bool          // those of them that a former raft leader has published
}

// unheard is the beginning of a replica's silence, and when a raft leader published it.
type unheard struct{ since, said lease.Instant }

func newSilences() *silences {
	return &silences{published: make(map[string]unheard), again: make(map[string]lease.Instant)}
}

// note records a published silence, or that a replica is heard again, of now; it need not be the last of both
// that was applied. No silence is longer than since the log said that the replica is heard: a raft leader
// publishes what it took over before it has applied all that a former one committed.
func (h *silences) note(e *fsm.Event, now lease.Instant) {
	node := e.Session.Node.String()
	if e.TTL == 0 {
		h.again[node] = max(h.again[node], now)
	} else if last := h.published[node]; last.said <= now {
		h.published[node] = unheard{now - lease.Instant(e.TTL), now}
	}
	heard, again := h.again[node]
	switch s, silent := h.published[node]; {
	case !silent, !again:
	case s.said < heard, s.said == heard && e.TTL == 0:
		delete(h.published, node)
	default:
		h.published[node] = unheard{max(s.since, heard), s.said}
	}
}

// lead begins the time of this node as raft leader, unless it has begun. A published silence of a
// node is that of its member in the group: a removed replica is not published as silent any more.
func (h *silences) lead(members Members, now lease.Instant) {
	if h.from != 0 {
		return
	}
	maps.DeleteFunc(h.again, func(node string, _ lease.Instant) bool { return !members.Has(node) })
	before := h.last
	h.from, h.said = now, 0
	h.last, h.told, h.over = make(map[uint64]lease.Instant), make(map[string]bool), make(map[string]bool)
	for node, s := range h.published {
		h.told[node] = true
		if replica, ok := members.Replica(node); ok && now-s.said <= lease.Instant(staleAfter) {
			h.last[replica] = max(s.since, before[replica]) // it may have heard it itself since then
			h.over[node] = true
		}
	}
}

// stoodStill has the raft leader listen anew: what came meanwhile is heard only now, and late.
func (h *silences) stoodStill(now lease.Instant) { h.from, h.back = now, now }

// follow ends it.
func (h *silences) follow() { h.from, h.back = 0, 0 }

// heardAll reports whether every other voter was heard in the present term, and since this node stood
// still last.
func (h *silences) heardAll(heard map[uint64]Heard, members Members, self string) bool {
	for replica, node := range members.Voters {
		if one, ok := heard[replica]; node != self && (!ok || one.At < h.back) {
			return false
		}
	}
	return true
}

// listening is for how long this node has been raft leader.
func (h *silences) listening(now lease.Instant) time.Duration { return time.Duration(now - h.from) }

// take notes what the replica has heard of the members in the present term. Of one that is new to
// this raft leader it counts from now: it was taken in a moment ago, or heard by a former raft
// leader as far as that has said.
func (h *silences) take(heard map[uint64]Heard, members Members, now lease.Instant) {
	maps.DeleteFunc(h.last, func(replica uint64, _ lease.Instant) bool { return !members.Includes(replica) })
	for replica, node := range members.All() {
		last, known := h.last[replica]
		if h.over[node] { // what was committed before, and is applied only now, may know better
			since := h.from
			if s, ok := h.published[node]; ok {
				since = s.since
			}
			last = max(last, since)
			h.last[replica] = last
		}
		if one, ok := heard[replica]; ok {
			h.last[replica] = max(last, min(one.At, now))
		} else if !known {
			h.last[replica] = now
		}
	}
}

// since is how long ago a member's replica was heard.
func (h *silences) since(replica uint64, now lease.Instant) time.Duration {
	return time.Duration(now - h.last[replica])
}

// report returns the silences to publish now, or nil: each silentAfter, and at once when a replica is
// heard again. commands is the number of commands that this replica has applied.
func (h *silences) report(members Members, self string, commands uint64, now lease.Instant) *fsm.Silent {
	if now-h.said < lease.Instant(silentAfter) && !h.heardAgain(members, now) {
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
	slices.SortFunc(silent.Nodes, func(a, b fsm.Silence) int { return bytes.Compare(a.Node[:], b.Node[:]) })
	h.said, h.told = now, told
	return &silent
}

// heardAgain reports whether a replica that is published as silent is not.
func (h *silences) heardAgain(members Members, now lease.Instant) bool {
	for node := range h.told {
		if replica, ok := members.Replica(node); !ok || h.since(replica, now) < silentAfter {
			return true
		}
	}
	return false
}
