package fsm

import (
	"slices"
	"strings"

	"github.com/tidwall/btree"
)

// past remembers the last PastMax grants of a lock that have ended, for the PastLocksMax locks of
// which one has ended last: a busy lock takes no room from a quiet one. Once keys have records
// instead.
type past struct {
	locks index[pastLock]
	aged  *btree.BTreeG[*pastLock] // the same by what was their last end when they came into it
}

type pastLock struct {
	name   string
	epoch  uint64
	queued uint64      // its place in aged: of its last end, or before
	grants []pastGrant // a ring once there are PastMax: at counts from the oldest
	oldest int         // its place in grants
}

type pastGrant struct {
	Terms                 // remembered
	detail         string // of EventForced: the operator's words
	owner          *owner
	token          uint64
	granted, ended uint64 // by these commands
	kind           EventKind
	reason         Reason
}

// PastGrant is a grant that has ended.
type PastGrant struct {
	Holder           // Granted is the number of the command that granted it
	Ended  uint64    // by this command
	Kind   EventKind // EventReleased, EventLost or EventForced
	Reason Reason
	Detail string // of EventForced: the operator's words
}

func newPast() past {
	return past{newIndex[pastLock](), newTree(lessByQueued)}
}

func (p *past) fork() past { return past{p.locks.fork(), p.aged.Copy()} }

func lessByQueued(a, b *pastLock) bool {
	if a.queued != b.queued {
		return a.queued < b.queued
	}
	return strings.Compare(a.name, b.name) < 0
}

// last is the command of its last end.
func (l *pastLock) last() uint64 { return l.at(len(l.grants) - 1).ended }

// at is the i-th of its grants, from the oldest on.
func (l *pastLock) at(i int) *pastGrant { return &l.grants[(l.oldest+i)%len(l.grants)] }

// add adds a grant, in place of the oldest if there are as many as may be.
func (l *pastLock) add(g pastGrant, most int) {
	if len(l.grants) < most {
		l.grants = append(l.grants, g)
		return
	}
	l.grants[l.oldest] = g
	l.oldest = (l.oldest + 1) % len(l.grants)
}

func (p *past) add(epoch uint64, bounds *limits, c *claim, how ending, index uint64) {
	if isOnce(c.name) {
		return
	}
	p.put(epoch, bounds, c.name, pastGrant{
		Terms: c.remembered(), detail: how.detail, owner: c.owner, token: c.token, granted: c.index, ended: index,
		kind: how.kind, reason: how.reason,
	})
}

func (p *past) put(epoch uint64, bounds *limits, name string, g pastGrant) {
	l := p.locks.find(name)
	switch {
	case l == nil:
		l = p.place(epoch, &pastLock{name: name}, g.ended)
	case l.epoch != epoch:
		p.aged.Delete(l)
		l = p.place(epoch, l, g.ended)
	}
	l.add(g, bounds.past)
	if p.locks.Len() > bounds.pastLocks {
		p.dropOldest(epoch)
	}
}

// place puts a copy of a lock that is not in aged into its place there. The copy is this machine's
// own to change.
func (p *past) place(epoch uint64, l *pastLock, queued uint64) *pastLock {
	mine := &pastLock{name: l.name, epoch: epoch, queued: queued, grants: slices.Clone(l.grants), oldest: l.oldest}
	p.locks.Set(mine.name, mine)
	p.aged.Set(mine)
	return mine
}

// dropOldest drops the lock whose last grant ended first. A lock with a later end than its place in
// the order says is moved first.
func (p *past) dropOldest(epoch uint64) {
	for {
		l, _ := p.aged.PopMin()
		if l.queued == l.last() {
			p.locks.Delete(l.name)
			return
		}
		p.place(epoch, l, l.last())
	}
}

// scan visits every grant that is remembered, by the names of the locks, until visit returns false.
func (p *past) scan(visit func(name string, g *pastGrant) bool) {
	p.locks.Scan(func(name string, l *pastLock) bool {
		for i := range l.grants {
			if !visit(name, l.at(i)) {
				return false
			}
		}
		return true
	})
}

// Past are the last grants of a lock that have ended, the last first: PastMax at most, and none if
// the last of PastLocksMax other locks ended later.
func (m *Machine) Past(name string) []PastGrant {
	l, ok := m.past.locks.Get(name)
	if !ok {
		return nil
	}
	grants := make([]PastGrant, len(l.grants))
	for i := range l.grants {
		grants[len(grants)-1-i] = l.at(i).view()
	}
	return grants
}

// EndOf is how the grant of a lock with this token ended; false if it has not, or is not
// remembered. Of one that has ended and is still there, Ended is the number of the command that
// ended its session.
func (m *Machine) EndOf(name string, token uint64) (PastGrant, bool) {
	if g := m.past.find(name, token); g != nil {
		return g.view(), true
	}
	c := m.grantOf(name, token)
	if c == nil || !m.gone(c) {
		return PastGrant{}, false
	}
	ref, _ := m.sessions.Get(sessionRef{id: c.owner.id})
	t := m.endOf(ref.s)
	how := t.how.of(c)
	return PastGrant{Holder: c.view(), Ended: t.began, Kind: how.kind, Reason: how.reason, Detail: how.detail}, true
}

// find is the grant of a lock with this token, nil if it is not remembered.
func (p *past) find(name string, token uint64) *pastGrant {
	if l, ok := p.locks.Get(name); ok {
		for i := range l.grants {
			if l.grants[i].token == token {
				return &l.grants[i]
			}
		}
	}
	return nil
}

func (g *pastGrant) view() PastGrant {
	return PastGrant{
		Holder: Holder{
			Session: g.owner.id, NodeName: g.owner.nodeName, Terms: g.Terms, Token: g.token, Granted: g.granted,
		},
		Ended: g.ended, Kind: g.kind, Reason: g.reason, Detail: g.detail,
	}
}
