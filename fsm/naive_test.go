package fsm

import (
	"cmp"
	"slices"
	"strings"
)

// naive is a second implementation of the commands, made to be read: flat lists, searched from end to
// end. It knows nothing of forks, snapshots or bounds. naive_lock_test.go has its locks.
type naive struct {
	index          uint64
	born, serving  bool
	cluster        [16]byte
	bootstrap      uint32
	voters         uint32
	counter, level uint64
	nodes          map[Node]*naiveNode
	sessions       []*naiveSession // in the order of their ids
	claims         []*naiveClaim   // in the order of arrival
	values         map[string]string
	last           map[string]uint64 // of locks in use
	told           map[string]bool
	rests          []naiveRest // in the order of their tokens
	keys           map[string]naiveKey
	turns          map[uint64][]uint64 // of classes of keys, all of them
	past           []naivePast
	events         []Event
}

type naiveRest struct {
	Rest
	weight, limit uint32
}

type naiveKey struct {
	Holder
	keep uint64
}

type naivePast struct {
	name string
	PastGrant
}

type naiveNode struct {
	incarnation, lowest uint64
	name                string
	gone                bool
	used                map[uint64]bool
}

type naiveSession struct {
	Session
	seq, acked uint64
	over       map[uint64]bool
}

type naiveClaim struct {
	Acquire
	s              *naiveSession
	token, arrived uint64
	index          uint64
	queued         bool
}

func newNaive() *naive {
	return &naive{
		nodes: make(map[Node]*naiveNode), values: make(map[string]string),
		last: make(map[string]uint64), told: make(map[string]bool),
		keys: make(map[string]naiveKey), turns: make(map[uint64][]uint64),
	}
}

func (o *naive) apply(index uint64, c Command) (Outcome, []Event) {
	o.index, o.events = index, nil
	out := o.do(c)
	for name := range o.last {
		if !o.used(name) {
			delete(o.last, name)
			delete(o.told, name)
		}
	}
	return out, o.events
}

func (o *naive) do(c Command) Outcome {
	switch c := c.(type) {
	case Birth:
		if c.Cluster == [16]byte{} || o.born && o.cluster != c.Cluster || c.Voters > c.Bootstrap {
			return Outcome{Code: CodeInvalid}
		}
		if !o.born {
			o.born, o.cluster, o.counter, o.bootstrap, o.voters = true, c.Cluster, c.Counter, c.Bootstrap, c.Voters
			o.say(Event{Kind: EventBorn})
		}
	case Serve:
		if !o.born {
			return Outcome{Code: CodeInvalid}
		}
		if !o.serving {
			o.serving = true
			o.say(Event{Kind: EventServing})
		}
	case Level:
		o.level = max(o.level, c.Level)
	case Hello:
		return o.hello(c)
	case Forget:
		return o.forget(c)
	case Keep:
		return o.keep(c)
	case CloseSession:
		s := o.session(c.Session)
		if s == nil {
			return Outcome{Code: o.retire(c.Session)}
		}
		reason := ReasonClosed
		if c.Lost {
			reason = ReasonAbandoned
		}
		o.endSessions(reason, func(x *naiveSession) bool { return x == s })
	case Expire:
		s := o.session(c.Session)
		switch {
		case s == nil:
			return Outcome{Code: CodeSessionLost}
		case s.Renewed != c.Renewed:
			return Outcome{Code: CodeFinished}
		}
		o.endSessions(ReasonExpired, func(x *naiveSession) bool { return x == s })
	default:
		return o.doLock(c)
	}
	return Outcome{}
}

func (o *naive) say(e Event) {
	e.Index = o.index
	o.events = append(o.events, e)
}

func (o *naive) hello(c Hello) Outcome {
	n := o.nodes[c.Node]
	if n != nil && (c.Incarnation < n.incarnation || c.Incarnation == n.incarnation && n.gone) {
		return Outcome{Code: CodeStaleIncarnation}
	}
	if n != nil && c.Incarnation == n.incarnation {
		return Outcome{}
	}
	o.endSessions(ReasonIncarnation, func(s *naiveSession) bool { return s.ID.Node == c.Node })
	o.nodes[c.Node] = &naiveNode{incarnation: c.Incarnation, name: c.Name, used: make(map[uint64]bool)}
	return Outcome{}
}

func (o *naive) forget(c Forget) Outcome {
	if n := o.nodes[c.Node]; n != nil && c.Incarnation < n.incarnation {
		return Outcome{Code: CodeStaleIncarnation}
	}
	o.endSessions(ReasonForgotten, func(s *naiveSession) bool { return s.ID.Node == c.Node })
	o.nodes[c.Node] = &naiveNode{incarnation: c.Incarnation, gone: true}
	return Outcome{}
}

func (o *naive) node(id Node, incarnation uint64) (*naiveNode, Code) {
	n := o.nodes[id]
	if n == nil || n.incarnation < incarnation {
		return nil, CodeUnknownNode
	}
	if n.incarnation > incarnation || n.gone {
		return nil, CodeStaleIncarnation
	}
	return n, CodeOK
}

func (o *naive) session(id SessionID) *naiveSession {
	for _, s := range o.sessions {
		if s.ID == id {
			return s
		}
	}
	return nil
}

func (n *naiveNode) spent(number uint64) bool { return number < n.lowest || n.used[number] }

// retire spends a number that is not open.
func (o *naive) retire(id SessionID) Code {
	n, code := o.node(id.Node, id.Incarnation)
	if code == CodeOK && n.lowest <= id.Number {
		n.used[id.Number] = true
	}
	return code
}

func (o *naive) open(c Acquire) (*naiveSession, Code) {
	if s := o.session(c.Session); s != nil {
		return s, CodeOK
	}
	n, code := o.node(c.Session.Node, c.Session.Incarnation)
	if code != CodeOK {
		return nil, code
	}
	if n.spent(c.Session.Number) {
		return nil, CodeSessionLost
	}
	n.used[c.Session.Number] = true
	if c.TTL == 0 {
		return nil, CodeSessionLost
	}
	s := &naiveSession{Session: Session{c.Session, c.TTL, o.index}, over: make(map[uint64]bool)}
	o.sessions = append(o.sessions, s)
	slices.SortFunc(o.sessions, func(a, b *naiveSession) int {
		return cmp.Or(strings.Compare(string(a.ID.Node[:]), string(b.ID.Node[:])),
			cmp.Compare(a.ID.Incarnation, b.ID.Incarnation), cmp.Compare(a.ID.Number, b.ID.Number))
	})
	o.renewed(s)
	return s, CodeOK
}

func (o *naive) renewed(s *naiveSession) {
	o.say(Event{Kind: EventSessionRenewed, Session: s.ID, TTL: s.TTL, NodeName: o.nodes[s.ID.Node].name})
}

func (o *naive) keep(c Keep) Outcome {
	n, code := o.node(c.Node, c.Incarnation)
	if code != CodeOK {
		return Outcome{Code: code}
	}
	n.lowest = max(n.lowest, c.Lowest)
	var out Outcome
	for _, number := range c.Sessions {
		id := SessionID{c.Node, c.Incarnation, number}
		s := o.session(id)
		if s == nil {
			o.retire(id)
			out.Lost = append(out.Lost, number)
		} else if c.Seq > s.seq {
			s.seq, s.Renewed = c.Seq, o.index
			o.renewed(s)
		}
	}
	return out
}

// endSessions ends all that match: first they and their claims go, then others are served.
func (o *naive) endSessions(reason Reason, match func(*naiveSession) bool) {
	var names []string
	for _, s := range slices.Clone(o.sessions) {
		if !match(s) {
			continue
		}
		o.say(Event{Kind: EventSessionEnded, Session: s.ID, TTL: s.TTL, Reason: reason, NodeName: o.nodes[s.ID.Node].name})
		mine := slices.DeleteFunc(slices.Clone(o.claims), func(c *naiveClaim) bool { return c.s != s })
		slices.SortFunc(mine, func(a, b *naiveClaim) int { return cmp.Compare(a.Request, b.Request) })
		for _, c := range mine {
			kind, rest := EventLost, c.Delay
			if c.token == 0 {
				kind, rest = EventWithdrawn, 0
			} else if reason == ReasonClosed {
				kind, rest = EventReleased, 0
			}
			o.remove(c, kind, reason, rest)
			names = append(names, c.names()...)
		}
		o.sessions = slices.DeleteFunc(o.sessions, func(x *naiveSession) bool { return x == s })
	}
	for _, name := range names {
		o.settle(name)
	}
}
