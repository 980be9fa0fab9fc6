package model_test

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/fsm"
)

// Two clients on two nodes, one lock, one crash, one duplicate: every order in which their commands
// can reach the log, be lost or come twice, in which their leases can lapse and replicas propose
// expiries. Time is a choice like any other, kept to what internal/lease promises:
//
//   - a holder's validity ends at any time (lapse), and always before a replica proposes the end of
//     the session by the renewal that the holder relies on;
//   - a replica that lags behind proposes the end by an older renewal at any time.
func TestEveryHistoryOfTwoClientsOneLockOneCrashAndOneDuplicateIsSafe(t *testing.T) {
	t.Parallel()
	budget := budget{asks: 2, renewals: 1, gives: 1, crashes: 1, dups: 1}
	if testing.Short() || raced {
		budget.renewals = 0
	}
	explore(t, budget, wish{names: []string{"x"}}, wish{names: []string{"x"}})
}

// explore goes every way that two clients with their wishes can go.
func explore(t *testing.T, b budget, wishes ...wish) *explorer {
	x := &explorer{t: t, seed: maphash.MakeSeed(), seen: make(map[uint64]struct{})}
	first := newScope(b, wishes)
	x.visit(&first)
	t.Logf("%d states, %d steps, at most %d deep; in %d states a lock is held by nobody who knows",
		len(x.seen), x.steps, x.deepest, x.orphans)
	if x.grants == 0 || x.expired == 0 || x.orphans == 0 {
		t.Error("nothing was granted, expired or left behind: the exploration sees nothing")
	}
	return x
}

// budget is what may still happen, of all clients together. A command that is lost is one that
// never comes: every state is looked at as if it were the last.
type budget struct{ asks, renewals, gives, crashes, dups, turns int }

type explorer struct {
	t                                        *testing.T
	seed                                     maphash.Seed
	seen                                     map[uint64]struct{}
	steps, deepest, orphans, grants, expired int
	rests, runs, refused                     int // that were seen
	path                                     []move
}

// move is one step, for people.
type move struct {
	who  int
	what string
	cmd  fsm.Command
}

// scope is one state of the small world.
type scope struct {
	m       *fsm.Machine
	index   uint64
	clients []client
	flying  []fsm.Command
	budget  budget
	highest uint64 // token that a client heard of
	rest    resting
	key     finished
}

// client is one node and its only caller.
type client struct {
	wish    *wish // never changed
	id      fsm.SessionID
	request uint64
	asking  bool // request is under way or queued
	token   uint64
	valid   bool // holds the lock, as far as it can know
	renewed bool // a keepalive was sent
	seq     uint64
}

func newScope(b budget, wishes []wish) scope {
	s := scope{m: fsm.New(), budget: b, clients: make([]client, len(wishes))}
	for i := range s.clients {
		s.clients[i].wish = &wishes[i]
		s.clients[i].id = fsm.SessionID{Node: fsm.Node{byte(i + 1)}, Incarnation: 1, Number: 1}
	}
	begin := []fsm.Command{fsm.Birth{Cluster: [16]byte{1}}, fsm.Serve{}}
	for _, c := range s.clients {
		begin = append(begin, fsm.Hello{Node: c.id.Node, Incarnation: 1, Place: c.place()})
	}
	for _, c := range begin {
		s.index++
		s.m.Apply(s.index, fsm.ProcessOf(c), fsm.Encode(c))
	}
	return s
}

// branch is a copy that can go another way.
func (s *scope) branch() *scope {
	c := *s
	c.m = s.m.Fork()
	c.flying, c.clients = slices.Clone(s.flying), slices.Clone(s.clients)
	return &c
}

// visit goes every way from s that was not gone before.
func (x *explorer) visit(s *scope) {
	h := x.hash(s)
	if _, ok := x.seen[h]; ok || x.t.Failed() {
		return
	}
	x.seen[h] = struct{}{}
	x.deepest = max(x.deepest, len(x.path))
	x.check(s)
	step := func(what move, change func(*scope)) {
		x.steps++
		next := s.branch()
		x.path = append(x.path, what)
		change(next)
		x.visit(next)
		x.path = x.path[:len(x.path)-1]
	}
	for i := range s.clients {
		x.clientSteps(s, i, step)
	}
	for i, c := range s.flying {
		if i > 0 && fmt.Sprint(c) == fmt.Sprint(s.flying[i-1]) {
			continue
		}
		step(move{what: "apply", cmd: c}, func(s *scope) {
			s.flying = slices.Delete(s.flying, i, i+1)
			x.apply(s, c)
		})
		if s.budget.dups > 0 {
			step(move{what: "apply, and it will come again,", cmd: c}, func(s *scope) { s.budget.dups--; x.apply(s, c) })
		}
	}
	x.expirySteps(s, step)
	x.timeSteps(s, step)
}

func (x *explorer) clientSteps(s *scope, i int, step func(move, func(*scope))) {
	c := s.clients[i]
	if !c.asking && !c.valid && s.budget.asks > 0 {
		step(move{who: i, what: "asks"}, func(s *scope) {
			c := &s.clients[i]
			s.budget.asks--
			c.request++
			c.asking = true
			s.send(c.acquire())
		})
	}
	if c.asking && s.budget.gives > 0 {
		step(move{who: i, what: "gives up"}, func(s *scope) {
			c := &s.clients[i]
			s.budget.gives--
			c.asking = false
			s.send(fsm.Withdraw{Session: c.id, Requests: []uint64{c.request}})
		})
	}
	if c.valid {
		for _, end := range c.ends() {
			step(move{who: i, what: "is done with it"}, func(s *scope) {
				s.clients[i].valid = false
				s.send(end)
			})
		}
	}
	if (c.valid || c.asking) && s.budget.renewals > 0 {
		step(move{who: i, what: "renews"}, func(s *scope) {
			c := &s.clients[i]
			s.budget.renewals--
			c.renewed = true
			c.seq++
			s.send(fsm.Keep{Node: c.id.Node, Incarnation: c.id.Incarnation, Seq: c.seq, Lowest: 1, Sessions: []uint64{c.id.Number}})
		})
	}
	if c.valid || c.asking {
		step(move{who: i, what: "its lease lapses"}, func(s *scope) { s.clients[i].lapse() })
	}
	if s.budget.crashes > 0 {
		step(move{who: i, what: "crashes"}, func(s *scope) {
			s.budget.crashes--
			c := &s.clients[i]
			c.valid, c.asking, c.seq, c.request = false, false, 0, 0
			c.id.Incarnation++
			c.id.Number = 1
			s.send(fsm.Hello{Node: c.id.Node, Incarnation: c.id.Incarnation, Place: c.place()})
		})
	}
}

// place is where the client's process runs: the first one's later processes prove that the earlier
// ones are dead.
func (c *client) place() fsm.Place {
	if c.id.Node[0] != 1 {
		return fsm.Place{}
	}
	return fsm.Place{Boot: "boot"}
}

// lapse ends the client's session in its own eyes; it goes on under a new one.
func (c *client) lapse() {
	c.valid, c.asking = false, false
	c.id.Number++
	c.request = 0
}

// expirySteps lets replicas propose the end of sessions, as early as time allows.
func (x *explorer) expirySteps(s *scope, step func(move, func(*scope))) {
	for session := range s.m.Sessions() {
		owner := &s.clients[session.ID.Node[0]-1]
		propose := func(renewed uint64) {
			e := fsm.Expire{Session: session.ID, Renewed: renewed}
			if !slices.ContainsFunc(s.flying, func(c fsm.Command) bool { return c == fsm.Command(e) }) {
				step(move{what: "or another node proposes", cmd: e}, func(s *scope) {
					// As much time has passed: its holder, if it has nothing on it now, knows that
					// it is over.
					if c := &s.clients[session.ID.Node[0]-1]; c.id == e.Session && e.Renewed == session.Renewed {
						c.lapse()
					}
					s.send(e)
				})
			}
		}
		if session.ID != owner.id || !owner.valid && !owner.asking {
			propose(session.Renewed)
		}
		if owner.renewed && session.ID == owner.id {
			propose(session.Renewed - 1) // a replica that lags behind; no entry in between was a renewal but the last
		}
	}
}

func (s *scope) send(c fsm.Command) {
	s.flying = append(s.flying, c)
	slices.SortStableFunc(s.flying, func(a, b fsm.Command) int { return bytes.Compare(fsm.Encode(a), fsm.Encode(b)) })
}

// apply carries out a command and tells the clients at once: a later answer only shortens what they
// have.
func (x *explorer) apply(s *scope, c fsm.Command) {
	s.index++
	stale := s.stale(c)
	out, events := s.m.Apply(s.index, fsm.ProcessOf(c), fsm.Encode(c))
	x.answer(s, c, out, stale)
	for _, e := range events {
		x.kind(s, &e)
		if e.Session.Node == (fsm.Node{}) {
			continue // of no session
		}
		owner := &s.clients[e.Session.Node[0]-1]
		if e.Kind == fsm.EventGranted && e.Session == owner.id && e.Request == owner.request && owner.asking {
			x.grants++
			owner.asking, owner.valid, owner.token = false, true, e.Token
			if e.Token <= s.highest {
				x.fail(s, fmt.Sprintf("token %d after %d", e.Token, s.highest))
			}
			s.highest = e.Token
		}
		if e.Kind == fsm.EventSessionEnded && e.Reason == fsm.ReasonExpired {
			x.expired++
			if e.Session == owner.id && (owner.valid || owner.asking) {
				x.fail(s, "a session expired whose holder relies on it")
			}
		}
	}
}

// check tests what must hold in every state.
func (x *explorer) check(s *scope) {
	for i, c := range s.clients {
		for _, o := range s.clients[:i] {
			if c.valid && o.valid && slices.ContainsFunc(c.wish.names, func(n string) bool { return slices.Contains(o.wish.names, n) }) {
				x.fail(s, "two hold a lock that both want")
			}
		}
		for _, name := range c.wish.names {
			if c.valid && !s.m.Granted(name, c.token) {
				x.fail(s, fmt.Sprintf("client %d holds token %d, which the group does not know for %q", i, c.token, name))
			}
		}
	}
	x.whole(s)
	if err := s.m.Check(); err != nil {
		x.fail(s, err.Error())
	}
	x.end(s.branch())
}

// end lets all sessions expire: nothing is left then, whatever is lost or comes too late.
func (x *explorer) end(s *scope) {
	if s.m.Info().Grants > 0 && !slices.ContainsFunc(s.clients, func(c client) bool { return c.valid }) {
		x.orphans++
	}
	for session := range s.m.Fork().Sessions() {
		s.index++
		s.m.Apply(s.index, fsm.Process{}, fsm.Encode(fsm.Expire{Session: session.ID, Renewed: session.Renewed}))
	}
	s.pass()
	if info := s.m.Info(); info.Grants+info.Waiters+info.Sessions+info.Locks+info.Rests+info.Keys > 0 {
		x.fail(s, fmt.Sprintf("left over: %+v", info))
	}
}

func (x *explorer) fail(s *scope, what string) {
	if !x.t.Failed() {
		x.t.Errorf("%s, after", what)
		for _, p := range x.path {
			x.t.Logf("client %d %s %T%+v", p.who, p.what, p.cmd, p.cmd)
		}
	}
}

// hash sums up what matters of a state: not the indexes and tokens themselves, only which is the
// later one.
func (x *explorer) hash(s *scope) uint64 {
	var h maphash.Hash
	h.SetSeed(x.seed)
	w := func(numbers ...uint64) {
		for _, n := range numbers {
			maphash.WriteComparable(&h, n)
		}
	}
	for session := range s.m.Sessions() {
		w(uint64(session.ID.Node[0]), session.ID.Incarnation, session.ID.Number)
		for r := range uint64(4) {
			state, _ := s.m.Request(session.ID, r+1)
			w(uint64(state))
		}
	}
	for i, c := range s.clients {
		incarnation, _ := s.m.Incarnation(c.id.Node)
		w(uint64(i), incarnation)
		for n := range uint64(5) {
			state, _ := s.m.Request(fsm.SessionID{Node: c.id.Node, Incarnation: incarnation, Number: n + 1}, 1)
			w(uint64(state))
		}
		c.token = 0 // known to be the current one if valid
		maphash.WriteComparable(&h, c)
	}
	for _, name := range s.clients[0].wish.names {
		if l, ok := s.m.Lock(name); ok {
			for _, c := range slices.Concat(l.Holders, l.Waiters) {
				w(uint64(c.Session.Node[0]), c.Session.Incarnation, c.Session.Number, c.Request, min(c.Token, 1))
			}
			w(uint64(len(l.Holders)), uint64(len(l.Rests)))
		}
	}
	w(s.kinds()...)
	for _, c := range s.flying {
		switch c := c.(type) {
		case fsm.Expire:
			w(1, uint64(c.Session.Node[0]), c.Session.Incarnation, c.Session.Number)
			maphash.WriteComparable(&h, s.current(c))
		case fsm.Release:
			w(2, uint64(c.Session.Node[0]), c.Session.Incarnation, c.Session.Number)
			maphash.WriteComparable(&h, s.m.Granted(c.Grants[0].Name, c.Grants[0].Token))
		case fsm.EndRest, fsm.Finish, fsm.Turn, fsm.Sweep:
			w(s.standing(c)...)
		default:
			h.Write(fsm.Encode(c))
		}
	}
	maphash.WriteComparable(&h, s.budget)
	return h.Sum64()
}

// current says whether an Expire would be carried out now.
func (s *scope) current(e fsm.Expire) bool {
	for session := range s.m.Sessions() {
		if session.ID == e.Session {
			return session.Renewed == e.Renewed
		}
	}
	return false
}
