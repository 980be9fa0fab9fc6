package fsm

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// An operator who looks for a key, or for the node that holds too much, must not miss it because a page
// ended there.
func TestListsOfKeysAndSessionsHaveEachOnceWhereverTheirPagesEnd(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := run(New(), history(t, 80))
		items, prefix := rapid.IntRange(1, 5).Draw(t, "items"), rapid.SampledFrom([]string{"", "a", "k"}).Draw(t, "prefix")
		var keys []KeyState
		for q := (&QueryKeys{Prefix: prefix}); q != nil; {
			page := q.page(m, items)
			if len(page.Keys) > items || page.Next != nil && len(page.Keys) < items {
				t.Fatalf("a page of %d keys, which may be %d", len(page.Keys), items)
			}
			keys, q = append(keys, page.Keys...), page.Next
		}
		if want := everyKey(m, prefix); !reflect.DeepEqual(keys, want) {
			t.Fatalf("the pages have\n%+v\nand the state\n%+v", keys, want)
		}
		var sessions, want []SessionLoad
		for q := (&QuerySessions{}); q != nil; {
			page := q.page(m, items)
			sessions, q = append(sessions, page.Sessions...), page.Next
		}
		for s := range m.Sessions() {
			want = append(want, loadOf(m, s))
		}
		if !reflect.DeepEqual(sessions, want) {
			t.Fatalf("the pages have\n%+v\nand the state\n%+v", sessions, want)
		}
	})
}

func TestAProcessRenewedLastWithTheLastOfItsSessions(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := run(New(), history(t, 80))
		last := make(map[Process]uint64)
		for s := range m.Sessions() {
			last[s.ID.Process()] = max(last[s.ID.Process()], s.Renewed)
		}
		for n := range m.Nodes() {
			if got, want := m.Renewed(n.Node, n.Incarnation), last[Process{Node: n.Node, Incarnation: n.Incarnation}]; got != want {
				t.Fatalf("%v renewed last at %d, want %d", n.Node, got, want)
			}
		}
	})
}

// everyKey goes through all that has a Once key for its name.
func everyKey(m *Machine, prefix string) (keys []KeyState) {
	names := make(map[string]bool)
	m.keys.Scan(func(r *onceRecord) bool { names[r.name] = true; return true })
	m.locks.Scan(func(name string, _ *lock) bool {
		if isOnce(name) {
			names[name] = true
		}
		return true
	})
	for _, name := range slices.Sorted(maps.Keys(names)) {
		key, _ := OnceKey(name)
		if len(key) < len(prefix) || key[:len(prefix)] != prefix {
			continue
		}
		if by, finished := m.Key(key); finished {
			keys = append(keys, KeyState{key, by, true})
		} else if head, held := m.Head(name); held {
			keys = append(keys, KeyState{Key: key, By: head.Holder})
		}
	}
	return keys
}

// loadOf counts what each lock has of a session.
func loadOf(m *Machine, s Session) SessionLoad {
	holds, waits := make(map[uint64]bool), make(map[uint64]bool)
	load := SessionLoad{Session: s}
	m.sessions.Scan(func(r sessionRef) bool {
		if r.id == s.ID {
			load.NodeName = r.s.nodeName
		}
		return true
	})
	m.locks.Scan(func(_ string, l *lock) bool {
		of := m.view(l)
		for _, h := range of.Holders {
			if h.Session == s.ID {
				holds[h.Request] = true
			}
		}
		for _, h := range of.Waiters {
			if h.Session == s.ID {
				waits[h.Request] = true
			}
		}
		return true
	})
	load.Grants, load.Waiters = len(holds), len(waits)
	return load
}
