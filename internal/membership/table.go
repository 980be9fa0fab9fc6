package membership

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/autopilot"
	"github.com/holdfast-go/holdfast/internal/member"
)

// State is member.State.
type State = member.State

// The states of a member.
const (
	Alive   = member.Alive
	Suspect = member.Suspect
	Failed  = member.Failed
	Left    = member.Left
)

// Member is a node as gossip sees it. Meta and Addr outlive the member.
type Member struct {
	Meta
	Addr  string // host:port it advertises
	State State
	Since time.Time // of the last change of State or of incarnation, on this node's clock
	Local bool      // this node itself
}

// Here reports whether the member takes part: Alive or Suspect.
func (m Member) Here() bool { return m.State == Alive || m.State == Suspect }

// departedMax bounds the remembered members that are not Here. Nodes without a disk have a new
// identity at each start.
const departedMax = 256

// lives are the incarnations of a node that are Here, and its highest, which comes first.
type lives []*Member

// member is the incarnation that stands for the node: the highest that is Here, or else the
// highest.
func (l lives) member() *Member {
	for _, m := range l {
		if m.Here() {
			return m
		}
	}
	return l[0]
}

// find returns the member of an incarnation, or nil.
func (l lives) find(incarnation uint64) *Member {
	for _, m := range l {
		if m.Incarnation == incarnation {
			return m
		}
	}
	return nil
}

// with is l with m in place of the same incarnation, without incarnations that need not be kept.
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
//  1. The member of a node is its highest incarnation that is Here, or else its highest. The highest
//     may be a copy of the node's directory that the group refuses: when that has ended, the lower
//     one is the member again.
//  2. News of a lower incarnation change nothing while a higher one is Here.
//  3. A member's address outlives it, as long as the member is remembered.
//  4. At most departedMax remembered members are not Here.
//
// No method blocks or calls out: memberlist calls them under its own lock.
type table struct {
	self    Meta // identity only
	changed chan struct{}

	mu      sync.Mutex
	members map[string]lives // joinLimit bounds those that are here
	sorted  []Member         // what list returned last; nil after a change
}

func newTable(self Meta) *table {
	return &table{self: self, changed: make(chan struct{}, 1), members: make(map[string]lives)}
}

// signal comes after each change of members. It wakes the goroutine that calls OnChange; pending
// signals merge.
func (t *table) signal() {
	t.sorted = nil
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

// alive notes that a member joined or changed its meta.
func (t *table) alive(meta Meta, addr string, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	local := meta.Node == t.self.Node
	if local && meta.Incarnation != t.self.Incarnation {
		return // another process with this identity; the delegate reports it
	}
	m := &Member{Meta: meta, Addr: addr, State: Alive, Since: now, Local: local}
	if old := t.members[meta.Node].find(meta.Incarnation); old != nil && old.State == Alive {
		m.Since = old.Since
	}
	t.members[meta.Node] = t.members[meta.Node].with(m)
	t.signal()
}

// announced notes the meta that a member has sent before gossip brings it. Only gossip makes a
// member, and knows its address.
func (t *table) announced(meta Meta) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if m := t.members[meta.Node].find(meta.Incarnation); m != nil && m.Here() && !m.Local && !isLate(meta, m.Meta) {
		m.Meta = meta
		t.signal()
	}
}

// isLate reports whether a member sent meta before now, which gossip has brought meanwhile: a stream may
// take seconds, and gossip tells nothing twice.
func isLate(meta, now Meta) bool {
	return meta.Phase == autopilot.PhaseJoining && meta.Replica == now.Replica && (now.Phase.Runs() || now.Phase == autopilot.PhaseLeaving)
}

// gone notes that memberlist gave this incarnation up, or that it left.
func (t *table) gone(node string, incarnation uint64, now time.Time) {
	t.move(node, incarnation, now, func(m *Member) State {
		if m.Phase == autopilot.PhaseLeaving {
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

// prune keeps invariant 4: members that left go first, then those gone longest.
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

func (t *table) get(node string) (Member, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l, ok := t.members[node]; ok {
		return *l.member(), true
	}
	return Member{}, false
}

// list returns all members, ordered by node id. The next call returns the same slice unless a member
// has changed: a node looks at the list many times a second, and it is long in a large fleet.
func (t *table) list() []Member {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sorted != nil {
		return t.sorted
	}
	members := make([]Member, 0, len(t.members))
	for _, l := range t.members {
		members = append(members, *l.member())
	}
	slices.SortFunc(members, func(a, b Member) int { return strings.Compare(a.Node, b.Node) })
	t.sorted = members
	return members
}

// alone reports whether no other member is here.
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
