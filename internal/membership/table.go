package membership

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"
)

// State is what gossip thinks of a member. It is an opinion: a member that has
// Failed may be alive behind a cut network.
type State uint8

// The states of a member.
const (
	Alive   State = iota + 1 // answers
	Suspect                  // did not answer this node's last probe; not yet given up
	Failed                   // given up by the others, without having said good-bye
	Left                     // said good-bye
)

// String returns the state in lower case.
func (s State) String() string {
	switch s {
	case Alive:
		return "alive"
	case Suspect:
		return "suspect"
	case Failed:
		return "failed"
	case Left:
		return "left"
	}
	return "unknown"
}

// Member is a node as gossip sees it. Meta and Addr are the last known ones,
// also after the member has gone.
type Member struct {
	Meta
	Addr  string // host:port it advertises
	State State
	Since time.Time // of the last change of State or of incarnation, on this node's clock
	Local bool      // this node itself
}

// Here tells whether the member takes part: it is Alive or Suspect.
func (m Member) Here() bool { return m.State == Alive || m.State == Suspect }

// departedMax bounds the members that are remembered although they have gone.
// Nodes without a disk have a new identity at each start, so these add up.
const departedMax = 256

// lives are those of a node: all that are here, and the one of the highest incarnation, which comes
// first.
type lives []*Member

// member is the life that stands for the node: the highest incarnation that is here, or, where none
// is, the highest.
func (l lives) member() *Member {
	for _, m := range l {
		if m.Here() {
			return m
		}
	}
	return l[0]
}

// find returns the life of an incarnation, nil if that is not known.
func (l lives) find(incarnation uint64) *Member {
	for _, m := range l {
		if m.Incarnation == incarnation {
			return m
		}
	}
	return nil
}

// with is l with m in the place of an earlier state of that life, and without what need not be
// kept.
func (l lives) with(m *Member) lives {
	kept := lives{m}
	for _, old := range l {
		if old.Incarnation != m.Incarnation {
			kept = append(kept, old)
		}
	}
	slices.SortFunc(kept, func(a, b *Member) int { return cmp.Compare(b.Incarnation, a.Incarnation) })
	first := kept[0]
	return slices.DeleteFunc(kept, func(m *Member) bool { return m != first && !m.Here() })
}

// table holds one Member for each node. Invariants:
//  1. The member of a node is its life of the highest incarnation that is here, or, where none is,
//     of the highest that was. The higher one may be a copy of the node's directory that the group
//     refuses: when that has ended, the lower one, which never went away, has its place back.
//  2. What is heard of a lower incarnation changes nothing as long as a higher one is here.
//  3. A member's address outlives it, as long as the member is remembered.
//  4. At most departedMax members are remembered that are not Here.
//
// No method blocks or calls out: memberlist calls them under its own lock.
type table struct {
	self    Meta // identity only
	changed chan struct{}

	mu      sync.Mutex
	members map[string]lives // joinLimit bounds those that are here
}

func newTable(self Meta) *table {
	return &table{self: self, changed: make(chan struct{}, 1), members: make(map[string]lives)}
}

// signal wakes the one that calls OnChange; signals that were not yet seen merge.
func (t *table) signal() {
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

// alive notes that a member joined, or that it changed its meta.
func (t *table) alive(meta Meta, addr string, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	local := meta.Node == t.self.Node
	if local && meta.Incarnation != t.self.Incarnation {
		return // somebody else under our identity; seen by the delegate
	}
	m := &Member{Meta: meta, Addr: addr, State: Alive, Since: now, Local: local}
	if old := t.members[meta.Node].find(meta.Incarnation); old != nil && old.State == Alive {
		m.Since = old.Since
	}
	t.members[meta.Node] = t.members[meta.Node].with(m)
	t.signal()
}

// gone notes that memberlist gave this life of the node up, or heard it leave.
func (t *table) gone(node string, incarnation uint64, now time.Time) {
	t.move(node, incarnation, now, func(m *Member) State {
		if m.Phase == PhaseLeaving {
			return Left
		}
		return Failed
	})
}

// suspect notes that the member did not answer this node's probe.
func (t *table) suspect(node string, incarnation uint64, now time.Time) {
	t.move(node, incarnation, now, func(m *Member) State {
		if m.State == Alive {
			return Suspect
		}
		return m.State
	})
}

// answered notes that the member answered this node's probe.
func (t *table) answered(node string, incarnation uint64, now time.Time) {
	t.move(node, incarnation, now, func(m *Member) State {
		if m.State == Suspect {
			return Alive
		}
		return m.State
	})
}

func (t *table) move(node string, incarnation uint64, now time.Time, to func(*Member) State) {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := t.members[node].find(incarnation)
	if m == nil {
		return
	}
	state := to(m)
	if state == m.State {
		return
	}
	m.State, m.Since = state, now
	t.members[node] = t.members[node].with(m)
	if !m.Here() {
		t.prune()
	}
	t.signal()
}

// prune keeps invariant 4: those that left go first, then the longest gone.
func (t *table) prune() {
	var departed []*Member
	for _, l := range t.members {
		if m := l.member(); !m.Here() && !m.Local {
			departed = append(departed, m)
		}
	}
	if len(departed) <= departedMax {
		return
	}
	slices.SortFunc(departed, func(a, b *Member) int {
		return cmp.Or(cmp.Compare(b.State, a.State), a.Since.Compare(b.Since), strings.Compare(a.Node, b.Node))
	})
	for _, m := range departed[:len(departed)-departedMax] {
		delete(t.members, m.Node)
	}
}

// forget drops a member that has gone; one that is here stays.
func (t *table) forget(node string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l, ok := t.members[node]
	if !ok {
		return
	}
	if m := l.member(); !m.Here() && !m.Local {
		delete(t.members, node)
		t.signal()
	}
}

func (t *table) get(node string) (Member, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l, ok := t.members[node]; ok {
		return *l.member(), true
	}
	return Member{}, false
}

// list returns all members, ordered by node id.
func (t *table) list() []Member {
	t.mu.Lock()
	members := make([]Member, 0, len(t.members))
	for _, l := range t.members {
		members = append(members, *l.member())
	}
	t.mu.Unlock()
	slices.SortFunc(members, func(a, b Member) int { return strings.Compare(a.Node, b.Node) })
	return members
}

// alone tells whether no other member is here.
func (t *table) alone() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range t.members {
		if m := l.member(); m.Here() && !m.Local {
			return false
		}
	}
	return true
}
