package model

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
)

// shadow is a second account of the group's sessions and locks, kept from the commands and events
// of the log in the order in which they are first applied. It is written without a look at fsm's
// code: what an event may say follows from what was said before.
type shadow struct {
	w        *world
	cmd      fsm.Command
	events   []fsm.Event
	number   uint64          // of the command
	applied  []time.Duration // when each command was, by number
	sessions map[fsm.SessionID]*shadowSession
	latest   map[fsm.Node]uint64    // incarnation that has said Hello or Goodbye last
	removed  map[fsm.Process]uint64 // the command that said last that it has no replica: what it waited for is withdrawn then, or in steps
	locks    map[string]*shadowLock
	grants   map[uint64]grantee // by token, for ever
	highest  uint64             // token
	touched  []string           // names, by this entry
	parts    []part             // of sets, by this entry
	keys     map[string]*record // Once keys that are finished
	promises []promise
	values   map[string][]byte
}

// shadowSession is a session. Its record stays when it has ended: it may never come back.
type shadowSession struct {
	ttl      time.Duration
	opened   uint64 // by this command
	renewed  uint64 // by this one
	at       time.Duration
	seq      uint64
	acked    uint64
	ended    bool       // said
	doomed   fsm.Reason // why it has ended though it was not said yet
	requests map[uint64]fate
}

type fate uint8

const (
	waiting fate = iota + 1
	holding
	finished
)

// shadowLock is a lock.
type shadowLock struct {
	holders, waiters []share
	rests            []place
}

// share is a holder or a waiter.
type share struct {
	names    []string // of its set, all of them; nil: it is of none
	delay    time.Duration
	sets     bool // value, at the grant
	leads    bool // is a candidate's
	value    []byte
	session  fsm.SessionID
	request  uint64
	token    uint64
	mode     fsm.Mode
	weight   uint32
	limit    uint32
	priority int32
	index    uint64
}

type grantee struct {
	session fsm.SessionID
	request uint64
	name    string
	names   []string // of a set
	index   uint64
	forced  bool // an operator took it
}

func (sh *shadow) init(w *world) {
	*sh = shadow{
		w: w, latest: make(map[fsm.Node]uint64), removed: make(map[fsm.Process]uint64), sessions: make(map[fsm.SessionID]*shadowSession), locks: make(map[string]*shadowLock), grants: make(map[uint64]grantee),
		keys: make(map[string]*record), values: make(map[string][]byte),
	}
}

func (sh *shadow) wrong(rule, format string, args ...any) {
	sh.w.broken(rule, "command %d, %s: %s", sh.number, describe(sh.cmd), fmt.Sprintf(format, args...))
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
func (sh *shadow) entry(m *fsm.Machine, a appliedEntry) {
	cmd, err := fsm.Decode(a.raw)
	if err != nil {
		sh.w.broken("commands are read as they were written", "%v", err)
		return
	}
	several, ok := cmd.(fsm.Batch)
	if !ok {
		sh.command(m, cmd, a.out, a.events)
		return
	}
	sh.w.stats.Together += uint64(len(several.Commands))
	events := a.events
	for i, one := range several.Commands {
		part := a.before.Fork()
		out, told := part.Apply(a.index, a.by, fsm.Encode(fsm.Batch{Commands: several.Commands[:i+1]}))
		if len(a.out.Each) != len(several.Commands) || digestOf(out.Each[i], nil) != digestOf(a.out.Each[i], nil) {
			sh.w.broken("a batch is its commands, one after the other", "entry %d answers %v, its beginning %v", a.index, a.out, out)
			return
		}
		done := len(a.events) - len(events)
		if len(told) < done || len(told) > len(a.events) || digestOf(out.Each[i], told[done:]) != digestOf(out.Each[i], events[:len(told)-done]) {
			sh.w.broken("a batch is its commands, one after the other", "entry %d tells %v, its beginning %v", a.index, a.events, told)
			return
		}
		if out.Each[i].Code == fsm.CodeLater {
			continue // it was not carried out
		}
		sh.command(part, one, out.Each[i], events[:len(told)-done])
		events = events[len(told)-done:]
	}
}

// command takes what one command did, and looks at the state after it.
func (sh *shadow) command(m *fsm.Machine, cmd fsm.Command, out fsm.Outcome, events []fsm.Event) {
	sh.cmd, sh.number, sh.events, sh.touched, sh.parts = cmd, m.Commands(), events, sh.touched[:0], sh.parts[:0]
	for uint64(len(sh.applied)) <= sh.number {
		sh.applied = append(sh.applied, sh.w.now)
	}
	if c, ok := cmd.(fsm.Remove); ok && out.Code == fsm.CodeOK {
		sh.removed[fsm.Process{Node: c.Node, Incarnation: c.Incarnation}] = sh.number
	}
	switch cmd.(type) {
	case fsm.Hello, fsm.Goodbye:
		of := fsm.ProcessOf(cmd)
		sh.latest[of.Node] = max(sh.latest[of.Node], of.Incarnation)
	}
	if sh.w.trace != nil {
		sh.w.tell("%4d %s: %s%s", sh.number, describe(cmd), describeOutcome(out), describeEvents(events))
	}
	for i := range events {
		sh.event(&events[i])
	}
	sh.complete()
	sh.doom(out)
	sh.gone(m)
	sh.outcome(out)
	sh.remembered(m, out)
	sh.settled(m)
	sh.w.stats.Checks++
	if err := m.Check(); err != nil {
		sh.wrong("the machine keeps its invariants", "%v", err)
	}
}

// granted says what is wrong with a grant that a caller heard of.
func (sh *shadow) granted(id fsm.SessionID, request uint64, name string, token uint64) string {
	g, ok := sh.grants[token]
	switch {
	case !ok:
		return "no entry granted it"
	case g.session != id || g.request != request || g.name != name && !slices.Contains(g.names, name):
		return fmt.Sprintf("it was granted to request %d of %s for %s", g.request, brief(g.session), g.name)
	}
	return ""
}

func (sh *shadow) lock(name string) *shadowLock {
	l := sh.locks[name]
	if l == nil {
		l = &shadowLock{}
		sh.locks[name] = l
	}
	if !slices.Contains(sh.touched, name) {
		sh.touched = append(sh.touched, name)
	}
	return l
}

func (sh *shadow) event(e *fsm.Event) {
	if e.Index != sh.number {
		sh.wrong("events name their command", "%v names %d", e.Kind, e.Index)
	}
	switch e.Kind {
	case fsm.EventBorn, fsm.EventServing, fsm.EventWanted, fsm.EventUnfinished:
	case fsm.EventValueSet:
		sh.valued(e)
	case fsm.EventSessionRenewed:
		sh.renewed(e)
	case fsm.EventSessionEnded:
		sh.ended(e)
	case fsm.EventQueued:
		sh.queued(e)
	case fsm.EventGranted:
		sh.grant(e)
	case fsm.EventReleased, fsm.EventLost, fsm.EventForced, fsm.EventWithdrawn:
		sh.over(e)
	case fsm.EventResting:
		sh.resting(e)
	case fsm.EventRested:
		sh.rested(e)
	}
}

func (sh *shadow) renewed(e *fsm.Event) {
	a := sh.sessions[e.Session]
	switch {
	case a == nil:
		c, ok := sh.cmd.(fsm.Acquire)
		if !ok || c.Session != e.Session || c.TTL != e.TTL {
			sh.wrong("only an Acquire opens its session", "session %s", brief(e.Session))
		}
		a = &shadowSession{ttl: e.TTL, opened: sh.number, requests: make(map[uint64]fate)}
		sh.sessions[e.Session] = a
	case a.ended || a.doomed != 0:
		sh.wrong("a session that has ended stays so", "session %s is renewed", brief(e.Session))
	default:
		c, ok := sh.cmd.(fsm.Keep)
		if !ok || c.Node != e.Session.Node || c.Incarnation != e.Session.Incarnation || !slices.Contains(c.Sessions, e.Session.Number) {
			sh.wrong("only a Keep of its node renews a session", "session %s", brief(e.Session))
		} else if c.Seq <= a.seq {
			sh.wrong("a late keepalive renews nothing", "session %s by number %d after %d", brief(e.Session), c.Seq, a.seq)
		} else if e.TTL != cmp.Or(c.TTL, a.ttl) {
			sh.wrong("only its holder changes a TTL", "session %s has %v, not %v", brief(e.Session), e.TTL, cmp.Or(c.TTL, a.ttl))
		} else {
			a.seq, a.ttl = c.Seq, e.TTL
		}
	}
	a.renewed, a.at = sh.number, sh.w.now
}

func (sh *shadow) ended(e *fsm.Event) {
	a := sh.sessions[e.Session]
	if a == nil || a.ended {
		sh.wrong("a session ends once", "session %s", brief(e.Session))
		return
	}
	a.ended = true
	if e.Reason == fsm.ReasonRevoked {
		sh.w.stats.Revoked++
	}
	allowed := false
	switch c := sh.cmd.(type) {
	case fsm.Expire:
		allowed = e.Reason == fsm.ReasonExpired && c.Session == e.Session
		if c.Renewed != a.renewed {
			sh.wrong("a renewed session does not expire", "session %s was renewed at %d", brief(e.Session), a.renewed)
		}
		sh.w.expired(e.Session, a.at, a.ttl)
	case fsm.CloseSession:
		want := fsm.ReasonClosed
		if c.Lost {
			want = fsm.ReasonAbandoned
		}
		allowed = e.Reason == want && c.Session == e.Session
	case fsm.Release:
		allowed = c.Close && e.Reason == fsm.ReasonClosed && c.Session == e.Session
	case fsm.Hello:
		allowed = e.Reason == fsm.ReasonIncarnation && c.Node == e.Session.Node && c.Incarnation > e.Session.Incarnation &&
			sh.w.dead(e.Session.Process(), c)
		sh.w.stats.Proven++
	case fsm.Goodbye:
		allowed = e.Reason == fsm.ReasonLeft && c.Node == e.Session.Node && c.Incarnation == e.Session.Incarnation
	case fsm.Revoke:
		allowed = e.Reason == fsm.ReasonRevoked && c.Node == e.Session.Node && a.opened <= c.Upto
	case fsm.Continue:
		allowed = e.Reason == a.doomed
	}
	if !allowed {
		sh.wrong("a session ends for its reason", "session %s, %v", brief(e.Session), e.Reason)
	}
}

// settled compares the locks of an entry with the machine's, and looks for who waits for what is
// free.
func (sh *shadow) settled(m *fsm.Machine) {
	_, left := m.Unfinished()
	for _, name := range sh.touched {
		l := sh.locks[name]
		for _, s := range slices.Concat(l.holders, l.waiters) {
			if sh.sessions[s.session].ended && !left {
				sh.wrong("nobody has or waits for a lock without a session", "request %d of %s has %s", s.request, brief(s.session), name)
			}
		}
		if len(l.waiters) > 0 && !left && sh.served(name, &l.waiters[0]) {
			sh.wrong("nobody waits for what is free", "request %d of %s for %s", l.waiters[0].request, brief(l.waiters[0].session), name)
		}
		real, _ := m.Lock(name)
		same := func(s share, h fsm.Holder) bool {
			return s.session == h.Session && s.request == h.Request && s.token == h.Token && s.mode == h.Mode && s.weight == h.Weight
		}
		if !slices.EqualFunc(l.holders, real.Holders, same) || !slices.EqualFunc(l.waiters, real.Waiters, same) {
			sh.wrong("events tell all that changes", "%s has holders %v and waiters %v, by the events %v and %v",
				name, real.Holders, real.Waiters, l.holders, l.waiters)
		}
		resting := func(p place, r fsm.Rest) bool { return p.token == r.Token && p.mode == r.Mode && p.lasts == r.For }
		if !slices.EqualFunc(l.rests, real.Rests, resting) {
			sh.wrong("events tell all that changes", "%q has rests %v, by the events %v", name, real.Rests, l.rests)
		}
		if !bytes.Equal(sh.values[name], real.Value) {
			sh.wrong("only its holder writes a value", "%q has %q, not %q", name, real.Value, sh.values[name])
		}
		if len(l.holders)+len(l.waiters)+len(l.rests) == 0 {
			delete(sh.locks, name)
		}
	}
}
