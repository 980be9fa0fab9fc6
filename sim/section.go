package sim

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
)

// Section is a critical section of the service under test: what only the holder of a lock may do.
// Each entry is checked while the test runs, and Run fails the test at once if two were in it
// together.
type Section struct {
	s     *Sim
	name  string
	limit int

	mu        sync.Mutex
	inside    []*visit
	highest   holdfast.Token
	entered   int
	overtaken int
}

type visit struct {
	life      *life
	token     holdfast.Token
	since     time.Time
	overtaken bool
}

func (v *visit) String() string {
	return fmt.Sprintf("node %d with token %d since %v", v.life.node.i, v.token, v.life.node.s.since(v.since))
}

// Section returns the critical section of that name. At most one may be in it at a time, see Limit.
func (s *Sim) Section(name string) *Section {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sections[name] == nil {
		s.sections[name] = &Section{s: s, name: name, limit: 1}
	}
	return s.sections[name]
}

// Section is Sim.Section, for code that has the node alone at hand.
func (n *Node) Section(name string) *Section { return n.s.Section(name) }

// Limit lets n be in the section at a time, for locks with WithLimit, and returns the section.
// Default 1.
func (x *Section) Limit(n int) *Section {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.limit = n
	return x
}

// Enter notes that a node is in the section until the returned function is called, and fails the
// test if others are in it too, or if a higher token has been in it before:
//
//	defer s.Section("ledger").Enter(ctx, lease.Token())()
//
// ctx says which node it is: it comes from Options.Service or Node.Context, directly or through
// Lease.Context. Both Enter and leaving wait while the node is paused, as a stopped process does
// nothing. What the code of a crashed node does counts for nothing. A token of 0 is not looked at.
//
// No lock keeps a process that was stopped in its critical section, or between the look at its
// lease and the entry, from waking up there after another was granted the lock: such a stay does
// not count from the pause on, and Overtaken tells how many there were. What such a process still
// writes is refused by the protected resource, if that checks the fencing token: see package fence.
func (x *Section) Enter(ctx context.Context, token holdfast.Token) (leave func()) {
	l, ok := ctx.Value(lifeKey{}).(*life)
	if !ok {
		x.s.t.Errorf("section %q was entered with a context that is of no node: use that of Options.Service or Node.Context", x.name)
		return func() {}
	}
	stopped := l.awake()
	v := &visit{life: l, token: token, since: time.Now()}
	x.enter(v, stopped)
	return func() {
		l.awake()
		x.leave(v)
	}
}

// enter lets v in. stopped says that its process was paused at the door, after it had looked at its
// lease.
func (x *Section) enter(v *visit, stopped bool) {
	x.s.mu.Lock() // nobody dies or is paused meanwhile
	defer x.s.mu.Unlock()
	if v.life.dead {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	var others []*visit
	for _, o := range x.inside {
		switch {
		case o.life.dead || o.overtaken:
		case o.life.node.paused != nil:
			o.overtaken = true
			x.overtaken++
			x.s.note("section %q: %v is overtaken while it is paused", x.name, o)
		default:
			others = append(others, o)
		}
	}
	full, late := len(others) >= x.limit, x.limit == 1 && token(v) < x.highest
	if stopped && (full || late) {
		v.overtaken = true
		x.overtaken++
		x.s.note("section %q: %v was overtaken while it was paused at the door", x.name, v)
		return
	}
	if full {
		x.s.fail("two are in the critical section %q: %v enters, and there is %v", x.name, v, others)
	}
	if late {
		x.s.fail("the critical section %q is entered by %v, after token %d", x.name, v, x.highest)
	}
	x.highest = max(x.highest, v.token)
	x.entered++
	x.inside = append(others, v)
	x.s.note("section %q: entered by node %d with token %d", x.name, v.life.node.i, v.token)
}

// token is what the order is checked by: no token is higher than all.
func token(v *visit) holdfast.Token {
	if v.token == 0 {
		return ^holdfast.Token(0)
	}
	return v.token
}

func (x *Section) leave(v *visit) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for i, o := range x.inside {
		if o == v {
			x.inside = append(x.inside[:i:i], x.inside[i+1:]...)
			x.s.note("section %q: left by node %d with token %d", x.name, v.life.node.i, v.token)
			return
		}
	}
}

// Entered tells how often the section was entered: a test in which that is 0 shows nothing.
func (x *Section) Entered() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.entered
}

// Overtaken tells how many were paused in the section, or at its door, and woke after another had
// been in it.
func (x *Section) Overtaken() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.overtaken
}
