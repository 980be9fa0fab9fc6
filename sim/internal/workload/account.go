package workload

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast"
)

// account is what follows from what a watcher was told. The zero value is empty.
type account struct {
	mu    sync.Mutex
	locks map[string]state
}

// state is one lock.
type state struct {
	holders map[holdfast.Token]bool
	waiters map[string]bool
	value   string
}

func newState() state {
	return state{holders: make(map[holdfast.Token]bool), waiters: make(map[string]bool)}
}

// states are the locks as a read tells them.
func states(infos map[string]holdfast.LockInfo) map[string]state {
	locks := make(map[string]state)
	for name, info := range infos {
		s := newState()
		s.value = valueOf(info.Value)
		for _, h := range info.Holders {
			s.holders[h.Token] = true
		}
		for _, h := range info.Waiters {
			s.waiters[waiter(h)] = true
		}
		locks[name] = s
	}
	return locks
}

// waiter tells one who waits from the others.
func waiter(h holdfast.Holder) string { return h.NodeID + " " + h.Label }

func (a *account) set(infos map[string]holdfast.LockInfo) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.locks = states(infos)
}

func (a *account) apply(e holdfast.Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.locks == nil {
		a.locks = make(map[string]state)
	}
	s, ok := a.locks[e.Name]
	if !ok {
		s = newState()
	}
	switch e.Kind {
	case holdfast.EventGranted:
		s.holders[e.Holder.Token] = true
		delete(s.waiters, waiter(e.Holder))
	case holdfast.EventReleased, holdfast.EventExpired, holdfast.EventLost, holdfast.EventForced:
		delete(s.holders, e.Holder.Token)
	case holdfast.EventQueued:
		s.waiters[waiter(e.Holder)] = true
	case holdfast.EventWithdrawn:
		delete(s.waiters, waiter(e.Holder))
	case holdfast.EventValue:
		s.value = valueOf(e.Holder.Value)
	}
	a.locks[e.Name] = s
}

// compare says in words where the account differs from what a read tells, "" if it does not.
func (a *account) compare(infos map[string]holdfast.LockInfo) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var differ []string
	locks := states(infos)
	names := maps.Clone(locks)
	maps.Copy(names, a.locks)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		told, read := a.locks[name], locks[name]
		if !maps.Equal(told.holders, read.holders) || !maps.Equal(told.waiters, read.waiters) || told.value != read.value {
			differ = append(differ, fmt.Sprintf("%s: %+v and %+v", name, told, read))
		}
	}
	return strings.Join(differ, "; ")
}
