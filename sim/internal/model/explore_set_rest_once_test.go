package model_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
)

// wish is what a client asks for: the first client's names are all that there are.
type wish struct {
	names []string      // one, or a set
	rests time.Duration // how long its place stays taken, after a release as after a loss
}

// resting is what the small world knows of a place that stays taken.
type resting struct {
	token uint64 // 0: none
	over  bool   // by the clock of a replica
}

// finished is what it knows of a Once key.
type finished struct {
	done  bool
	turns int // carried out since
}

var once = fsm.OnceName("k")

// One client wants two names at once, two others want one of them each.
func TestEveryHistoryOfASetAndItsNamesIsSafe(t *testing.T) {
	t.Parallel()
	b := budget{asks: 3, gives: 1, dups: 1}
	if testing.Short() || raced {
		b.dups = 0
	}
	explore(t, b, wish{names: []string{"x", "y"}}, wish{names: []string{"x"}}, wish{names: []string{"y"}})
}

// One client's place stays taken after it, whether it released it or lost it. How long is a choice:
// a replica may find at any time that it was long enough.
func TestEveryHistoryOfARestIsSafe(t *testing.T) {
	t.Parallel()
	b := budget{asks: 2, gives: 1, crashes: 1, dups: 1}
	if testing.Short() || raced {
		b.gives = 0
	}
	x := explore(t, b, wish{names: []string{"x"}, rests: time.Second}, wish{names: []string{"x"}})
	if x.rests == 0 {
		t.Error("nothing rested: the exploration sees nothing")
	}
}

// Two clients want to run one key, which is remembered for two turns and forgotten after them.
func TestEveryHistoryOfAOnceKeyIsSafe(t *testing.T) {
	t.Parallel()
	b := budget{asks: 2, crashes: 1, dups: 1, turns: 2}
	if testing.Short() || raced {
		b.crashes = 0
	}
	x := explore(t, b, wish{names: []string{once}}, wish{names: []string{once}})
	if x.runs == 0 || x.refused == 0 {
		t.Errorf("%d runs finished, %d calls were told so: the exploration sees nothing", x.runs, x.refused)
	}
}

// keep is how long a Once key is remembered here: one period, which a key comes into the middle of.
const keep = time.Millisecond

func (c *client) acquire() fsm.Acquire {
	return fsm.Acquire{
		Session: c.id, TTL: time.Second, Request: c.request, Acked: c.request,
		Name: c.wish.names[0], Others: c.wish.names[1:], Wait: true,
		Terms: fsm.Terms{Delay: c.wish.rests},
	}
}

// ends are the ways in which a client can be done with what it holds.
func (c *client) ends() []fsm.Command {
	name := c.wish.names[len(c.wish.names)-1] // any name of a set stands for all of it
	ends := []fsm.Command{fsm.Release{Session: c.id, Rest: c.wish.rests, Grants: []fsm.Grant{{Name: name, Token: c.token}}}}
	if name == once {
		ends = append(ends, fsm.Finish{Session: c.id, Name: name, Token: c.token, Keep: keep})
	}
	return ends
}

// timeSteps let time pass for what hangs on no session.
func (x *explorer) timeSteps(s *scope, step func(move, func(*scope))) {
	if s.rest.token != 0 && !s.rest.over {
		end := fsm.EndRest{Name: s.clients[0].wish.names[0], Token: s.rest.token}
		step(move{what: "or a replica finds that the rest is over, and proposes", cmd: end}, func(s *scope) {
			s.rest.over = true
			s.send(end)
		})
	}
	for _, k := range s.m.Classes() {
		if s.budget.turns > 0 {
			turn := fsm.Turn{Keep: k.Keep, Last: k.Last}
			step(move{what: "or a replica finds that a period is over, and proposes", cmd: turn}, func(s *scope) {
				s.budget.turns--
				s.send(turn)
			})
		}
		sweep := fsm.Sweep{Keep: k.Keep, Upto: k.Over}
		if k.Over != 0 && !slices.ContainsFunc(s.flying, func(c fsm.Command) bool { return c == fsm.Command(sweep) }) {
			step(move{what: "or the raft leader proposes", cmd: sweep}, func(s *scope) { s.send(sweep) })
		}
	}
}

// stale says whether a command is a turn that another one came before.
func (s *scope) stale(c fsm.Command) bool {
	turn, ok := c.(fsm.Turn)
	current := func(k fsm.Class) bool { return k.Keep == turn.Keep && k.Last == turn.Last }
	return ok && !slices.ContainsFunc(s.m.Classes(), current)
}

// answer takes what a command was answered.
func (x *explorer) answer(s *scope, c fsm.Command, out fsm.Outcome, stale bool) {
	switch c := c.(type) {
	case fsm.Acquire:
		owner := &s.clients[c.Session.Node[0]-1]
		if out.Code != fsm.CodeDone || c.Session != owner.id || c.Request != owner.request {
			return
		}
		if x.refused++; !s.key.done {
			x.fail(s, "a key is said to be finished that is not")
		}
		owner.asking = false
	case fsm.Turn:
		if out.Code == fsm.CodeOK {
			s.key.turns++
		}
		if stale == (out.Code == fsm.CodeOK) {
			x.fail(s, fmt.Sprintf("a turn is answered %v, stale: %v", out.Code, stale))
		}
	}
}

// kind looks at the events of what is not a plain lock.
func (x *explorer) kind(s *scope, e *fsm.Event) {
	switch {
	case e.Kind == fsm.EventResting:
		x.rests++
		s.rest = resting{token: e.Token}
	case e.Kind == fsm.EventRested:
		if !s.rest.over || e.Token != s.rest.token {
			x.fail(s, "a rest ends that was not over")
		}
		s.rest = resting{}
	case e.Kind == fsm.EventGranted && s.rest.token != 0:
		x.fail(s, "a place that rests is granted")
	case e.Kind == fsm.EventGranted && e.Name == once && s.key.done:
		if s.key.turns < 2 {
			x.fail(s, fmt.Sprintf("a key is run again %d turns after it was finished", s.key.turns))
		}
		s.key = finished{}
	case e.Reason == fsm.ReasonFinished && e.Kind == fsm.EventReleased:
		x.runs++
		s.key = finished{done: true}
	case e.Reason == fsm.ReasonFinished && e.Session == s.clients[e.Session.Node[0]-1].id:
		s.clients[e.Session.Node[0]-1].asking = false // sent away
	}
}

// whole asks whether sets are held and waited for as a whole.
func (x *explorer) whole(s *scope) {
	for i, c := range s.clients {
		if len(c.wish.names) == 1 {
			continue
		}
		var first []fsm.Holder
		for n, name := range c.wish.names {
			l, _ := s.m.Lock(name)
			own := slices.DeleteFunc(slices.Concat(l.Holders, l.Waiters), func(h fsm.Holder) bool { return h.Session.Node != c.id.Node })
			if n == 0 {
				first = own
			} else if !slices.Equal(own, first) {
				x.fail(s, fmt.Sprintf("client %d has or waits for %v of %q, but %v of %q", i, first, c.wish.names[0], own, name))
			}
		}
	}
}

// pass lets all time pass that hangs on no session.
func (s *scope) pass() {
	apply := func(c fsm.Command) {
		s.index++
		s.m.Apply(s.index, fsm.ProcessOf(c), fsm.Encode(c))
	}
	for r := range s.m.Fork().Rests() {
		apply(fsm.EndRest{Name: r.Name, Token: r.Token})
	}
	for range 2 {
		for _, k := range s.m.Classes() {
			apply(fsm.Turn{Keep: k.Keep, Last: k.Last})
		}
	}
	for _, k := range s.m.Classes() {
		apply(fsm.Sweep{Keep: k.Keep, Upto: k.Over})
	}
}

// kinds are what matters of the state besides sessions and claims.
func (s *scope) kinds() (list []uint64) {
	flag := func(yes bool) {
		list = append(list, 0)
		if yes {
			list[len(list)-1] = 1
		}
	}
	flag(s.rest.token != 0)
	flag(s.rest.over)
	flag(s.key.done)
	_, known := s.m.Key("k")
	flag(known)
	for _, k := range s.m.Classes() {
		flag(k.Over != 0)
	}
	return append(list, uint64(min(s.key.turns, 2)))
}

// standing is what matters of a command about time that is under way: whether it would do something
// now.
func (s *scope) standing(c fsm.Command) []uint64 {
	switch c := c.(type) {
	case fsm.EndRest:
		return []uint64{3, min(1, s.rest.token^c.Token)}
	case fsm.Finish:
		held := uint64(0)
		if s.m.Granted(c.Name, c.Token) {
			held = 1
		}
		by, _ := s.m.Key("k")
		return []uint64{4, uint64(c.Session.Node[0]), c.Session.Incarnation, c.Session.Number, held, min(1, by.Token^c.Token)}
	case fsm.Turn:
		for _, k := range s.m.Classes() {
			return []uint64{5, min(1, k.Last^c.Last)}
		}
		return []uint64{5, 2}
	case fsm.Sweep:
		for _, k := range s.m.Classes() {
			if k.Over <= c.Upto {
				return []uint64{6, min(k.Over, 1)}
			}
		}
		return []uint64{6, 2}
	}
	return nil
}
