package fsm

import (
	"cmp"
	"slices"
	"strings"
)

// The lists of Once keys and of sessions are for people. Each page is of one state, and the next one
// may be of a later state: it has what comes behind the last entry of the page before.

// QueryKeys asks for the Once keys that run or are finished, in the order of the keys.
type QueryKeys struct {
	Prefix string
	After  string // the last key of the page before, "" for the first page
}

// KeysPage is a part of that list: the answer to QueryKeys.
type KeysPage struct {
	At   uint64 // number of the last command in the state
	Keys []KeyState
	Next *QueryKeys // nil: there are no more
}

// KeyState is a Once key.
type KeyState struct {
	Key      string
	By       Holder // that runs it, or has finished it
	Finished bool
}

// QuerySessions asks for the open sessions, by node, incarnation and number.
type QuerySessions struct {
	After SessionID // the last one of the page before, zero for the first page
}

// SessionsPage is a part of that list: the answer to QuerySessions.
type SessionsPage struct {
	At       uint64 // number of the last command in the state
	Sessions []SessionLoad
	Next     *QuerySessions // nil: there are no more
}

// SessionLoad is a session, with how many of its requests hold and wait; a set of locks is one request.
type SessionLoad struct {
	Session
	NodeName        string
	Grants, Waiters int
}

// Long reports that the answer goes through all requests of its sessions, for which commands should not
// wait.
func (QuerySessions) Long() bool { return true }

// State implements Answer.
func (a KeysPage) State() uint64 { return a.At }

// State implements Answer.
func (a SessionsPage) State() uint64 { return a.At }

// Read implements Asks.
func (QueryKeys) Read(a Answer) (KeysPage, bool) { return its[KeysPage](a) }

// Read implements Asks.
func (QuerySessions) Read(a Answer) (SessionsPage, bool) { return its[SessionsPage](a) }

func (q QueryKeys) answer(m *Machine) Answer { return q.page(m, PageItems) }

// page takes the first keys of those that run and of those that are finished, which are two trees.
func (q QueryKeys) page(m *Machine, items int) KeysPage {
	prefix, after := OnceName(q.Prefix), OnceName(q.After)
	var keys []KeyState
	// add takes one more than there is room for, and reports whether the tree shall go on.
	add := func(name string, room int, state func() (KeyState, bool)) bool {
		if !strings.HasPrefix(name, prefix) {
			return false
		}
		if name > after {
			if s, ok := state(); ok {
				keys = append(keys, s)
			}
		}
		return len(keys) < room
	}
	m.keys.Ascend(&onceRecord{name: max(prefix, after)}, func(r *onceRecord) bool {
		return add(r.name, items+1, func() (KeyState, bool) { return KeyState{r.name[len(onceMark):], r.view(), true}, true })
	})
	room := len(keys) + items + 1
	m.locks.Ascend(max(prefix, after), func(name string, l *lock) bool {
		return add(name, room, func() (KeyState, bool) {
			first := m.firstHolder(l)
			if first == nil {
				return KeyState{}, false
			}
			return KeyState{Key: name[len(onceMark):], By: first.view()}, true
		})
	})
	slices.SortFunc(keys, func(a, b KeyState) int { return cmp.Compare(a.Key, b.Key) })
	a := KeysPage{At: m.commands, Keys: keys[:min(items, len(keys))]}
	if len(keys) > items {
		a.Next = &QueryKeys{q.Prefix, keys[items-1].Key}
	}
	return a
}

func (q QuerySessions) answer(m *Machine) Answer { return q.page(m, PageItems) }

func (q QuerySessions) page(m *Machine, items int) SessionsPage {
	a := SessionsPage{At: m.commands}
	m.sessions.Ascend(sessionRef{id: q.After}, func(r sessionRef) bool {
		switch {
		case r.id == q.After || m.ended(r.s):
			return true
		case len(a.Sessions) == items:
			a.Next = &QuerySessions{a.Sessions[items-1].ID}
			return false
		}
		a.Sessions = append(a.Sessions, m.load(r.s))
		return true
	})
	return a
}

// load counts the requests of a session.
func (m *Machine) load(s *session) SessionLoad {
	load := SessionLoad{Session: Session{ID: s.id, TTL: s.ttl, Renewed: s.renewed}, NodeName: s.nodeName}
	m.requests.Ascend(request{opened: s.opened}, func(r request) bool {
		switch {
		case r.opened != s.opened:
			return false
		case r.claim.token != 0:
			load.Grants++
		default:
			load.Waiters++
		}
		return true
	})
	return load
}
