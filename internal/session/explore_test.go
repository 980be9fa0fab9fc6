package session

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/lease"
)

const exploreTTL = time.Second

// limits are what may still happen.
type limits struct{ asks, gives, losses, forces, steps, aways, retimes int }

// flight is a command under way: first to the group, then its answer to whoever has sent it.
type flight struct {
	what     string
	cmd      []byte
	by       fsm.Process
	answered bool
	unknown  bool // an earlier answer was lost
	out      fsm.Outcome
	done     func(out fsm.Outcome, unknown bool)
}

// asker is a call and what came of it.
type asker struct {
	call  Call
	told  *call
	fly   *flight
	waits bool
	hold  *hold
}

// small is one state of a small world: a node's side of its sessions, and a group of which it and
// another node are.
type small struct {
	limits
	manual  bool
	m       *fsm.Machine
	table   *Table
	now     lease.Instant
	flying  []*flight
	askers  []*asker
	away    bool // the replica lags behind, and will have the state as a whole
	cleans  bool // a debt is being paid
	renewed map[uint64]lease.Instant
	other   uint64 // token of the other node's grant
	wrong   string
}

func newSmall(l limits, manual bool) *small {
	x := &small{limits: l, manual: manual, m: fsm.New(), table: newTable(), now: begins, renewed: make(map[uint64]lease.Instant)}
	other := fsm.SessionID{Node: fsm.Node{2}, Incarnation: 1, Number: 1}
	for _, cmd := range []fsm.Command{
		fsm.Birth{Cluster: [16]byte{1}}, fsm.Serve{}, fsm.Hello{Node: fsm.Node{1}, Incarnation: 1}, fsm.Hello{Node: fsm.Node{2}, Incarnation: 1},
		fsm.Acquire{Session: other, TTL: time.Hour, Request: 1, Name: "held"},
	} {
		x.other = x.apply(fsm.Encode(cmd), fsm.ProcessOf(cmd)).Token
	}
	return x
}

// apply carries a command out, and tells the node's side if its replica keeps up.
func (x *small) apply(cmd []byte, by fsm.Process) fsm.Outcome {
	out, events := x.m.Apply(x.m.Applied()+1, by, cmd)
	for i := range events {
		e := &events[i]
		if e.Kind == fsm.EventSessionRenewed {
			x.renewed[e.Session.Number] = x.now
		}
		if !x.away {
			x.table.Note(e)
		}
	}
	return out
}

func (x *small) send(what string, cmd fsm.Command, done func(fsm.Outcome, bool)) *flight {
	return x.sendRaw(what, fsm.Encode(cmd), done)
}

func (x *small) sendRaw(what string, cmd []byte, done func(fsm.Outcome, bool)) *flight {
	f := &flight{what: what, cmd: cmd, by: x.table.self, done: done}
	x.flying = append(x.flying, f)
	return f
}

func (x *small) land(f *flight) {
	x.flying = slices.DeleteFunc(x.flying, func(o *flight) bool { return o == f })
}

// move is a step that the world can take.
type move struct {
	what string
	do   func()
}

// moves are all of them, in an order that does not change.
func (x *small) moves() (list []move) {
	can := func(left *int, what string, do func()) {
		switch {
		case left == nil:
			list = append(list, move{what, do})
		case *left > 0:
			list = append(list, move{what, func() { *left--; do() }})
		}
	}
	can(&x.asks, "ask", x.ask)
	for _, f := range x.flying {
		if !f.answered {
			can(nil, "apply "+f.what, func() {
				if f.out, f.answered = x.apply(f.cmd, f.by), true; f.done == nil {
					x.land(f)
				}
			})
			continue
		}
		can(nil, "answer "+f.what, func() { x.land(f); f.done(f.out, f.unknown) })
		can(&x.losses, "lose the answer of "+f.what, func() { f.answered, f.unknown = false, true })
	}
	for i, a := range x.askers {
		x.askerMoves(fmt.Sprintf("call %d ", i), a, can)
	}
	if x.table.Urgent() {
		can(nil, "step", x.step)
	}
	can(&x.steps, "half a TTL passes", func() { x.now = x.now.Add(exploreTTL / 2); x.step() })
	if x.table.Owes() && !x.cleans {
		can(nil, "clean", func() { x.cleans = true; x.pay(x.table.Owed()) })
	}
	for s := range x.m.Sessions() {
		if s.ID.Node == x.table.self.Node && x.now >= x.renewed[s.ID.Number].Add(s.TTL) {
			can(nil, "expire", func() { x.apply(fsm.Encode(fsm.Expire{Session: s.ID, Renewed: s.Renewed}), fsm.Process{}) })
		}
	}
	if l, _ := x.m.Lock("held"); len(l.Holders) > 0 {
		can(&x.forces, "force", func() {
			x.apply(fsm.Encode(fsm.ForceRelease{Name: "held", Token: l.Holders[0].Token, Reason: "test"}), fsm.Process{})
		})
	}
	if x.away {
		can(nil, "catch up", func() { x.away = false; restore(x.table, x.m) })
	} else {
		can(&x.aways, "lag", func() { x.away = true })
	}
	return list
}

func (x *small) ask() {
	a := &asker{told: &call{}}
	var err error
	if a.call, err = x.table.Ask(exploreTTL, x.manual, a.told, x.now); err != nil {
		x.wrong = err.Error()
		return
	}
	x.askers = append(x.askers, a)
	c := a.call
	cmd := fsm.Acquire{Session: c.Session.ID(), TTL: exploreTTL, Request: c.Request, Acked: c.Acked, Name: "held", Wait: true}
	a.fly = x.send("acquire", cmd, func(out fsm.Outcome, unknown bool) {
		a.fly = nil
		switch c.Answered(out, unknown, x.now) {
		case Take:
			x.take(a, out.Token)
		case Wait:
			a.waits = true
		}
	})
}

func (x *small) take(a *asker, token uint64) {
	a.waits, a.hold = false, &hold{}
	if !a.hold.take(a.call, token, Terms{}, x.now) {
		a.hold = nil
	}
}

func (x *small) askerMoves(who string, a *asker, can func(*int, string, func())) {
	if a.waits && a.told.told {
		can(nil, who+"is woken", func() {
			if a.waits = false; a.told.err != nil {
				a.call.GiveUp(false)
				return
			}
			if x.manual {
				x.table.HandOver(a.call.Session, x.now)
			}
			x.take(a, a.told.token)
		})
	}
	if a.waits || a.fly != nil {
		can(&x.gives, who+"gives up", func() {
			a.waits = false
			if f := a.fly; f != nil {
				f.done, a.fly = nil, nil // it may be carried out at any time
				if f.answered {
					x.land(f)
				}
			}
			a.call.GiveUp(true)
		})
	}
	if h := a.hold; h != nil && h.valid(x.now) && x.manual {
		for _, ttl := range []time.Duration{exploreTTL / 2, 2 * exploreTTL} {
			can(&x.retimes, fmt.Sprint(who, "renews for ", ttl), func() {
				k := x.table.Retiming(x.now, a.call.Session, ttl)
				x.send("retiming", k.Command, func(out fsm.Outcome, _ bool) { x.table.Answered(k, out, x.now) })
			})
		}
	}
	if h := a.hold; h != nil && h.valid(x.now) {
		can(nil, who+"releases", func() {
			h.grant.Leave(ErrReleased)
			a.hold = nil
			x.sendRaw("release", h.grant.AppendRelease(nil, x.now), func(out fsm.Outcome, unknown bool) {
				h.grant.ReleaseAnswered(out, unknown, func() *fsm.PastGrant {
					return x.m.Answer(fsm.QueryName{Name: "held", Token: h.grant.Token()}).(fsm.NameState).End
				})
			})
		})
	}
}

func (x *small) step() {
	for _, k := range x.table.Step(x.now).Keepalives {
		x.send("keepalive", k.Command, func(out fsm.Outcome, _ bool) { x.table.Answered(k, out, x.now) })
	}
}

func (x *small) pay(d *Debt) {
	cmd := d.Command()
	if cmd == nil {
		x.cleans = false
		return
	}
	x.send(fmt.Sprintf("%T", cmd), cmd, func(out fsm.Outcome, _ bool) {
		d.Paid(out, x.now)
		x.pay(d)
	})
}

// check is what must hold in every state.
func (x *small) check() string {
	if x.wrong != "" {
		return x.wrong
	}
	if err := x.table.Check(x.now); err != nil {
		return err.Error()
	}
	for s := range x.m.Sessions() {
		if own := x.table.Get(s.ID.Number); s.ID.Node == x.table.self.Node && own != nil && own.Until() >= x.renewed[s.ID.Number].Add(s.TTL) {
			return "a session is relied on for longer than the group keeps it"
		}
	}
	for i, a := range x.askers {
		id, request := a.call.Session.ID(), a.call.Request
		state, _ := x.m.Request(id, request)
		switch {
		case a.waits && !a.told.told && a.call.Session.Ended() != nil:
			return fmt.Sprintf("call %d waits on a session that is over", i)
		case x.away:
		case a.waits && !a.told.told && a.call.Session.Until() != 0 && state != fsm.RequestWaiting:
			return fmt.Sprintf("call %d waits in no queue, and was not told", i)
		case a.hold != nil && a.hold.valid(x.now) && !x.m.Granted("held", a.hold.grant.Token()):
			return fmt.Sprintf("call %d relies on a grant that is gone", i)
		case a.hold != nil && a.hold.valid(x.now) && !a.hold.isWanted && x.m.Wanted(id, request):
			return fmt.Sprintf("call %d does not know that it is wanted", i)
		}
	}
	return ""
}

// end lets everything come to its end, without any more trouble: nothing of the node's sessions is
// left then.
func (x *small) end() string {
	x.limits = limits{gives: len(x.askers)} // nobody waits for ever
	for range 200 {
		list := x.moves()
		if len(list) == 0 {
			if x.table.Empty() {
				return ""
			}
			x.now = x.now.Add(exploreTTL / 2)
			x.step()
			continue
		}
		list[0].do()
		if what := x.check(); what != "" {
			return what
		}
	}
	return "something is left for ever"
}

// hash sums up what matters of a state.
func (x *small) hash() string {
	var b strings.Builder
	fmt.Fprint(&b, x.limits, x.now, x.away, x.cleans, x.table.Urgent(), len(x.table.ended), len(x.table.revoked), x.table.flights)
	for _, s := range x.table.All() {
		fmt.Fprint(&b, ";", s.id.Number, s.opened, s.over != nil, s.Until(), s.groupCause.Load() != nil, s.closing, s.pins, s.first, s.idle,
			s.requests.Lowest(), s.requests.Open())
		for _, n := range s.sorted() {
			c := s.claims[n]
			fmt.Fprint(&b, ",", n, c.waiter != nil, c.grant != nil, c.revoked != nil, c.wanted)
		}
		if d := x.table.debts.jobs[s]; d != nil {
			fmt.Fprint(&b, "owes", d.close, d.withdraw, len(d.release))
		}
		planned, ok := x.table.plan.ValidUntil(s.id.Number)
		fmt.Fprint(&b, s.TTL(), x.table.seq.Load())
		fmt.Fprint(&b, planned, ok, x.renewed[s.id.Number], x.m.SessionEnded(s.id))
	}
	for _, a := range x.askers {
		state, _ := x.m.Request(a.call.Session.ID(), a.call.Request)
		fmt.Fprint(&b, ";", a.told.told, a.told.err != nil, a.fly != nil, a.waits, a.hold != nil, state)
		if a.hold != nil {
			fmt.Fprint(&b, a.hold.grant.Over(), a.hold.grant.ended(), a.hold.isWanted)
		}
	}
	for _, f := range x.flying {
		fmt.Fprintf(&b, ";%s %x %v %v %v", f.what, f.cmd, f.answered, f.unknown, f.done != nil)
	}
	return b.String()
}

// One node, one lock that another has, two calls: every order in which their commands reach the
// group and are answered, in which answers are lost, calls give up, an operator frees the lock, the
// replica falls behind and is given the state as a whole, half a TTL goes by and sessions expire.
func TestEveryHistoryOfANodesSideIsSound(t *testing.T) {
	t.Parallel()
	worlds := []limits{
		{asks: 1, forces: 2, gives: 1, losses: 1},
		{asks: 1, forces: 2, gives: 1, aways: 1},
		{asks: 2, forces: 1, gives: 1},
		{asks: 2, forces: 1, aways: 1},
		{asks: 1, gives: 1, losses: 1, steps: 2},
	}
	if !testing.Short() {
		worlds = append(worlds, limits{asks: 1, forces: 1, gives: 1, aways: 1, steps: 2})
	}
	for _, manual := range []bool{false, true} {
		if manual {
			worlds = append(worlds, limits{asks: 1, forces: 1, retimes: 2, steps: 1}, limits{asks: 1, forces: 1, retimes: 3})
		}
		for _, l := range worlds {
			e := &exploration{seen: make(map[string]bool), start: func() *small { return newSmall(l, manual) }}
			if what := e.visit(nil); what != "" {
				t.Errorf("%+v, manual %v: %s, after\n%s", l, manual, what, strings.Join(e.story, "\n"))
			}
			t.Logf("%+v, manual %v: %d states", l, manual, len(e.seen))
			if len(e.seen) < 300 {
				t.Error("so few states: the exploration sees nothing")
			}
		}
	}
}

// exploration goes every way that was not gone before. It comes to a state by going there again
// from the start: a table cannot be copied.
type exploration struct {
	start func() *small
	seen  map[string]bool
	story []string // of what went wrong
}

// at is the state that the choices lead to.
func (e *exploration) at(choices []int) (x *small, story []string) {
	x = e.start()
	for _, c := range choices {
		m := x.moves()[c]
		m.do()
		story = append(story, m.what)
	}
	return x, story
}

func (e *exploration) visit(choices []int) string {
	x, story := e.at(choices)
	h := x.hash()
	if e.seen[h] {
		return ""
	}
	e.seen[h] = true
	e.story = story
	if what := x.check(); what != "" {
		return what
	}
	n := len(x.moves())
	if what := x.end(); what != "" {
		return what
	}
	for c := range n {
		if what := e.visit(append(slices.Clone(choices), c)); what != "" {
			return what
		}
	}
	return ""
}
