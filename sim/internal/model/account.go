package model

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
)

// account keeps, from the commands and events of the log in the order in which they are first
// applied, when what has an end began in true time: sessions, rests, Once keys; and which grants
// there were. It judges what only true time decides. Holders and waiters it leaves to the
// oracles of the lock table: the reference of fsm's tests, which has every command carried out a
// second time, and sim/internal/history, which has what the callers saw.
type account struct {
	w        *world
	cmd      fsm.Command
	number   uint64 // of the command
	sessions map[fsm.SessionID]*accountSession
	grants   map[uint64]*grantee  // by token, for ever
	rests    map[fsm.Grant]place  // that last
	keys     map[string]*finished // Once keys that are remembered
	promises []promise
	highest  uint64 // token that was granted
	ceiling  uint64 // the lowest counter of a group that was recovered beside this one; 0: none was
}

type accountSession struct {
	ttl     time.Duration
	opened  uint64 // by this command
	at      time.Duration
	ended   bool
	revoked bool // by an operator, with all that its node held
}

type grantee struct {
	session fsm.SessionID
	request uint64
	names   []string // of a set, all of them
	forced  bool     // an operator took it
}

// place is one that stays taken after its holder is gone.
type place struct {
	token uint64
	lasts time.Duration
	at    time.Duration // true time of the entry that began it
}

// promise is a minimum hold in true time: until then nobody else has the place.
type promise struct {
	token  uint64
	until  time.Duration
	names  []string
	mode   fsm.Mode
	weight uint32
}

type finished struct {
	keep time.Duration
	at   time.Duration // true time of the entry that finished it
}

func (a *account) init(w *world) {
	*a = account{
		w: w, sessions: make(map[fsm.SessionID]*accountSession), grants: make(map[uint64]*grantee),
		rests: make(map[fsm.Grant]place), keys: make(map[string]*finished),
	}
}

// recovered takes the counter of a group that an operator has recovered beside this one.
func (a *account) recovered(counter uint64) {
	if a.ceiling == 0 || counter < a.ceiling {
		a.ceiling = counter
	}
	a.apart()
}

// apart judges that all tokens of this group, those granted later among them, are below those of any
// recovered one.
func (a *account) apart() {
	if a.ceiling != 0 && a.highest > a.ceiling {
		a.w.broken("tokens rise through a recovery", "a group is recovered above %d, and this one has granted %d", a.ceiling, a.highest)
	}
}

func (a *account) wrong(rule, format string, args ...any) {
	a.w.broken(rule, "command %d, %s: %s", a.number, describe(a.cmd), fmt.Sprintf(format, args...))
}

// appliedEntry is what an entry of the log did on the replica that applied it first.
type appliedEntry struct {
	before *fsm.Machine // the replica's state
	index  uint64
	by     fsm.Process
	raw    []byte
	out    fsm.Outcome
	events []fsm.Event
}

// entry takes what an entry of the log did, and looks at the replica. Of commands that travelled
// together it looks at each, and at the state that the machine is in after it.
func (a *account) entry(m *fsm.Machine, e appliedEntry) {
	cmd, err := fsm.Decode(e.raw)
	if err != nil {
		a.w.broken("commands are read as they were written", "%v", err)
		return
	}
	several, ok := cmd.(fsm.Batch)
	if !ok {
		a.command(m, cmd, e.out, e.events)
		return
	}
	a.w.stats.Together += uint64(len(several.Commands))
	events := e.events
	for i, one := range several.Commands {
		part := e.before.Fork()
		out, told := part.Apply(e.index, e.by, fsm.Encode(fsm.Batch{Commands: several.Commands[:i+1]}))
		if len(e.out.Each) != len(several.Commands) || digestOf(out.Each[i], nil) != digestOf(e.out.Each[i], nil) {
			a.w.broken("a batch is its commands, one after the other", "entry %d answers %v, its beginning %v", e.index, e.out, out)
			return
		}
		done := len(e.events) - len(events)
		if len(told) < done || len(told) > len(e.events) || digestOf(out.Each[i], told[done:]) != digestOf(out.Each[i], events[:len(told)-done]) {
			a.w.broken("a batch is its commands, one after the other", "entry %d tells %v, its beginning %v", e.index, e.events, told)
			return
		}
		if out.Each[i].Code == fsm.CodeLater {
			continue // it was not carried out
		}
		a.command(part, one, out.Each[i], events[:len(told)-done])
		events = events[len(told)-done:]
	}
}

func (a *account) command(m *fsm.Machine, cmd fsm.Command, out fsm.Outcome, events []fsm.Event) {
	a.cmd, a.number = cmd, m.Commands()
	if a.w.trace != nil {
		a.w.tell("%4d %s: %s%s", a.number, describe(cmd), describeOutcome(out), describeEvents(events))
	}
	if out.Over != nil {
		a.w.stats.OverQuota++
	}
	for i := range events {
		a.event(&events[i])
	}
	for i := range events {
		if events[i].Kind == fsm.EventGranted {
			a.kept(m, &events[i])
		}
	}
	switch c := cmd.(type) {
	case fsm.Revoke:
		for id, s := range a.sessions {
			s.revoked = s.revoked || id.Node == c.Node && s.opened <= c.Upto && !s.ended
		}
	case fsm.Finish:
		if slices.ContainsFunc(events, func(e fsm.Event) bool { return e.Kind == fsm.EventReleased && e.Token == c.Token }) {
			a.keys[c.Name] = &finished{c.Keep, a.w.now}
		}
		a.remembered(m)
	case fsm.Sweep:
		a.remembered(m)
	}
	a.w.stats.Checks++
	if err := m.Check(); err != nil {
		a.wrong("the machine keeps its invariants", "%v", err)
	}
}

func (a *account) event(e *fsm.Event) {
	if e.Index != a.number {
		a.wrong("events name their command", "%v names %d", e.Kind, e.Index)
	}
	grant := fsm.Grant{Name: e.Name, Token: e.Token}
	switch e.Kind {
	case fsm.EventSessionRenewed:
		s := a.sessions[e.Session]
		if s == nil {
			s = &accountSession{opened: a.number}
			a.sessions[e.Session] = s
		}
		s.ttl, s.at = e.TTL, a.w.now
	case fsm.EventSessionEnded:
		a.ended(e)
	case fsm.EventGranted:
		a.highest = max(a.highest, e.Token)
		a.apart()
		if g := a.grants[e.Token]; g != nil {
			g.names = append(g.names, e.Name)
		} else {
			a.grants[e.Token] = &grantee{session: e.Session, request: e.Request, names: []string{e.Name}}
		}
	case fsm.EventForced, fsm.EventLost: // what ends so is promised to nobody
		if g := a.grants[e.Token]; g != nil {
			g.forced = g.forced || e.Kind == fsm.EventForced
		}
		a.promises = slices.DeleteFunc(a.promises, func(p promise) bool { return p.token == e.Token })
	case fsm.EventResting:
		a.rests[grant] = place{e.Token, e.TTL, a.w.now}
	case fsm.EventRested:
		a.w.rested(a.rests[grant])
		delete(a.rests, grant)
	}
}

func (a *account) ended(e *fsm.Event) {
	s := a.sessions[e.Session]
	if s == nil || s.ended {
		a.wrong("a session ends once", "session %s", brief(e.Session))
		return
	}
	s.ended = true
	switch e.Reason {
	case fsm.ReasonExpired:
		a.w.expired(e.Session, s.at, s.ttl)
	case fsm.ReasonRevoked:
		s.revoked = true
		a.w.stats.Revoked++
	case fsm.ReasonIncarnation:
		if c, ok := a.cmd.(fsm.Hello); ok {
			if !a.w.dead(e.Session.Process(), c) {
				a.wrong("only proof ends the sessions of a former process", "session %s", brief(e.Session))
			}
			a.w.stats.Proven++
		}
	}
}

// kept asks whether a grant takes a place that was promised to somebody for longer.
func (a *account) kept(m *fsm.Machine, e *fsm.Event) {
	a.promises = slices.DeleteFunc(a.promises, func(p promise) bool { return p.until <= a.w.now })
	l, _ := m.Lock(e.Name)
	used := uint64(0)
	for _, h := range l.Holders {
		used += uint64(h.Weight)
	}
	for _, p := range a.promises {
		if !slices.Contains(p.names, e.Name) || slices.ContainsFunc(l.Holders, func(h fsm.Holder) bool { return h.Token == p.token }) {
			continue
		}
		used += uint64(p.weight)
		if e.Mode != p.mode || e.Mode == fsm.Exclusive || e.Mode == fsm.Permit && used > uint64(a.w.limitOf(e.Name)) {
			a.wrong("a lock stays taken for its minimum hold", "%q is granted %v too early after token %d", e.Name, p.until-a.w.now, p.token)
		}
	}
}

// remembered looks which Once keys are gone, which no event tells, and asks whether it was time.
func (a *account) remembered(m *fsm.Machine) {
	for _, name := range a.w.names {
		f := a.keys[name]
		if f == nil {
			continue
		}
		key, _ := fsm.OnceKey(name)
		if _, ok := m.Key(key); !ok {
			delete(a.keys, name)
			a.w.forgotten(key, f)
		}
	}
}

func (a *account) granted(id fsm.SessionID, request uint64, name string, token uint64) string {
	g := a.grants[token]
	switch {
	case g == nil:
		return "no entry granted it"
	case g.session != id || g.request != request || !slices.Contains(g.names, name):
		return fmt.Sprintf("it was granted to request %d of %s for %q", g.request, brief(g.session), g.names)
	}
	return ""
}
