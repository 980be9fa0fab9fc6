package fsm

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// naive is a second implementation of the commands, made to be read: flat lists, searched from end
// to end. It knows nothing of forks and snapshots. naive_lock_test.go has its locks,
// naive_limits_test.go its bounds.
type naive struct {
	number         uint64 // of the command
	born, serving  bool
	cluster        [16]byte
	bootstrap      uint32
	voters         uint32
	silentSeen     uint64
	evicted        uint64
	counter, level uint64
	runs           []*naiveRun     // processes, in the order of their Hellos
	sessions       []*naiveSession // in the order of their ids
	claims         []*naiveClaim   // in the order of arrival
	values         map[string]string
	last           map[string]uint64 // of locks in use
	rests          []naiveRest       // in the order of their tokens
	keys           map[string]naiveKey
	turns          map[uint64][]uint64 // of classes of keys, all of them
	past           []naivePast
	events         []Event
	ends           []*naiveEnd // in the order in which they are carried out
	stepped        uint64
	maxTTL         time.Duration
	limits         limits
	via            bool // the command came through another's replica
	work           int  // of this entry
	left           int  // for those whom this command serves
	unsettled      map[string]bool
	naiveResizes
	quotas  []Quota
	writers map[string]Node // of values, since level 2
	limited uint64
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

// naiveRun is a process of a node, or the memory of it.
type naiveRun struct {
	Process
	lowest    uint64
	since     uint64 // of its Hello or of its return
	name      string
	place     Place
	level     uint64
	over      bool // superseded, or it said good-bye
	departure Departure
	client    bool // it said Hello through another's replica, and not through its own since
	back      bool // it does not count that it leaves
	gone      bool
	goneAt    uint64
	used      map[uint64]bool
	ended     uint64 // sessions opened up to it have ended
	withdrawn uint64 // what was queued up to it is withdrawn
}

type naiveSession struct {
	Session
	opened     uint64
	seq, acked uint64
	over       map[uint64]bool
	ended      bool // said
}

type naiveClaim struct {
	Acquire
	s              *naiveSession
	token, arrived uint64
	index          uint64
	queued         bool
	asked          string
	told           []string // the names of which it has heard that somebody wants them
}

func newNaive() *naive {
	return &naive{
		values: make(map[string]string), writers: make(map[string]Node), last: make(map[string]uint64),
		keys: make(map[string]naiveKey), turns: make(map[uint64][]uint64), unsettled: make(map[string]bool),
		naiveResizes: naiveResizes{sifting: make(map[string]sift), resizes: make(map[string]resize)},
	}
}

func (o *naive) apply(c Command) (Outcome, []Event) {
	o.events, o.work = nil, 0
	b, several := c.(Batch)
	if !several {
		return o.one(c), o.events
	}
	if !b.sound() {
		o.number++
		return Outcome{Code: CodeInvalid}, nil
	}
	var out Outcome
	for _, one := range b.Commands {
		if o.work >= 5*16*o.limits.step {
			out.Each = append(out.Each, Outcome{Code: CodeLater})
			continue
		}
		if by := ProcessOf(one); by != ProcessOf(b) && by != (Process{}) {
			o.number++
			out.Each = append(out.Each, Outcome{Code: CodeForbidden})
			continue
		}
		out.Each = append(out.Each, o.one(one))
	}
	return out, o.events
}

// sound says whether a batch is one at all.
func (c Batch) sound() bool {
	for _, one := range c.Commands {
		if v, via := one.(Via); via {
			one = v.Command
		}
		switch one.(type) {
		case Acquire, Withdraw, Release, SetValue, CloseSession, Finish:
		default:
			return false
		}
	}
	return len(c.Commands) > 0 && len(c.Commands) <= BatchMax
}

func (o *naive) one(one Command) Outcome {
	c := one
	o.number++
	if v, via := c.(Via); via {
		if !v.sound() {
			return Outcome{Code: CodeForbidden}
		}
		c = v.Command
	}
	_, o.via = one.(Via)
	left := o.unfinished()
	o.left = 16 * o.limits.step
	out := o.do(c)
	if !left && o.unfinished() {
		o.say(Event{Kind: EventUnfinished})
	}
	for name := range o.last {
		if !o.used(name) {
			delete(o.last, name)
		}
	}
	return out
}

func (o *naive) do(c Command) Outcome {
	switch c := c.(type) {
	case Birth:
		if c.Cluster == [16]byte{} || o.born && o.cluster != c.Cluster || c.Voters > c.Bootstrap || c.Counter > o.limits.token {
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
	case Silent, Raise, Evict:
		return o.report(c)
	case RaiseTTL:
		o.maxTTL = max(o.maxTTL, c.TTL)
	case Level:
		return o.rise(c.Level)
	case Hello:
		return o.hello(c)
	case Goodbye:
		return o.goodbye(c)
	case Remove:
		return o.removeNode(c)
	case Revoke:
		return o.revoke(c)
	case Continue:
		return o.goOn(c)
	case Keep:
		return o.keep(c)
	case CloseSession:
		s := o.session(c.Session)
		if s == nil {
			return Outcome{Code: o.retire(c.Session)}
		}
		how := ending{reason: ReasonClosed}
		if c.Lost {
			how.reason = ReasonAbandoned
		}
		o.endSession(s, how, o.number)
		o.carryOut(o.number)
	case Expire:
		s := o.session(c.Session)
		switch {
		case s == nil:
			return Outcome{Code: CodeSessionLost}
		case s.Renewed != c.Renewed:
			return Outcome{Code: CodeFinished}
		}
		o.endSession(s, ending{reason: ReasonExpired}, o.number)
		o.carryOut(o.number)
	default:
		return o.doLock(c)
	}
	return Outcome{}
}

// report carries out what a raft leader tells of the world outside.
func (o *naive) report(c Command) Outcome {
	switch c := c.(type) {
	case Silent:
		if len(c.Nodes) == 0 || c.Seen == 0 || c.Seen >= o.number {
			return Outcome{Code: CodeInvalid}
		}
		if c.Seen <= o.silentSeen {
			return Outcome{Code: CodeFinished}
		}
		o.silentSeen = c.Seen
		for _, s := range c.Nodes {
			o.say(Event{Kind: EventSilent, Session: SessionID{Node: s.Node}, TTL: s.For})
		}
	case Evict:
		order := c.Reason != "" && c.Refusal == ReasonNone
		refusal := c.Reason == "" && (c.Refusal == ReasonHeard || c.Refusal == ReasonLast)
		if c.Node == (Node{}) || c.Seen == 0 || c.Seen >= o.number || !order && !refusal {
			return Outcome{Code: CodeInvalid}
		}
		if c.Seen < o.evicted || refusal && c.Seen > o.evicted {
			return Outcome{Code: CodeFinished}
		}
		e := Event{Kind: EventEvict, Session: SessionID{Node: c.Node}, Reason: c.Refusal, Detail: c.Reason}
		if refusal {
			e.Request = c.Seen
		}
		o.evicted = o.number
		o.say(e)
	case Raise:
		_, waiters := o.count()
		if !o.born || c.Counter > o.limits.token || c.Counter > o.counter && c.Counter+uint64(waiters) > o.limits.token {
			return Outcome{Code: CodeInvalid}
		}
		o.counter = max(o.counter, c.Counter)
	}
	return Outcome{}
}

func (o *naive) say(e Event) {
	e.Index = o.number
	o.events = append(o.events, e)
}

func (o *naive) goodbye(c Goodbye) Outcome {
	if r := o.run(ProcessOf(c)); r != nil {
		o.endSessions(r, false, o.number, ending{reason: ReasonLeft})
		o.carryOut(o.number)
	}
	last := o.latest(c.Node)
	if last != nil && (c.Incarnation < last.Incarnation || last.departure == Gone && c.Incarnation > last.Incarnation) {
		return Outcome{Code: CodeStaleIncarnation}
	}
	if last == nil || last.Incarnation != c.Incarnation {
		o.succeed(Hello{Node: c.Node})
		last = &naiveRun{Process: ProcessOf(c), ended: o.lastEnd(ProcessOf(c), false), withdrawn: o.lastEnd(ProcessOf(c), true)}
		o.runs = append(o.runs, last)
	}
	if c.Departure > last.departure {
		last.departure = c.Departure
		o.say(Event{Kind: EventDeparted, Session: SessionID{Node: c.Node, Incarnation: c.Incarnation}, NodeName: last.name})
	}
	last.leave(o.number)
	last.over = true
	o.boundMemory()
	return Outcome{}
}

func (o *naive) removeNode(c Remove) Outcome {
	r := o.run(Process{c.Node, c.Incarnation})
	if c.Node == (Node{}) || c.Incarnation == 0 || c.Since == 0 {
		return Outcome{Code: CodeInvalid}
	}
	if r == nil || r.gone || r.since != c.Since {
		return Outcome{Code: CodeFinished}
	}
	r.leave(o.number)
	o.endSessions(r, true, o.number, ending{reason: ReasonRemoved})
	o.carryOut(o.number)
	o.boundMemory()
	return Outcome{}
}

func (n *naiveRun) leave(index uint64) {
	n.gone, n.goneAt = true, cmp.Or(n.goneAt, index)
}

// run is the record of a process, nil if there is none.
func (o *naive) run(p Process) (found *naiveRun) {
	for _, r := range o.runs {
		if r.Process == p {
			found = r
		}
	}
	return found
}

// latest is the last process of a node.
func (o *naive) latest(id Node) (last *naiveRun) {
	for _, r := range o.runs {
		if r.Node == id && (last == nil || r.Incarnation > last.Incarnation) {
			last = r
		}
	}
	return last
}

func (o *naive) node(id Node, incarnation uint64) (*naiveRun, Code) {
	r := o.run(Process{id, incarnation})
	last := o.latest(id)
	switch {
	case r != nil && !r.over:
		return r, CodeOK
	case r != nil, last != nil && (incarnation < last.Incarnation || last.departure == Gone):
		return nil, CodeStaleIncarnation
	}
	return nil, CodeUnknownNode
}

// session is an open one.
func (o *naive) session(id SessionID) *naiveSession {
	if s := o.anySession(id); s != nil && !o.ended(s) {
		return s
	}
	return nil
}

// anySession is one that is there.
func (o *naive) anySession(id SessionID) *naiveSession {
	for _, s := range o.sessions {
		if s.ID == id {
			return s
		}
	}
	return nil
}

func (n *naiveRun) spent(number uint64) bool { return number < n.lowest || n.used[number] }

// roomForSession says whether one more session number can be remembered: one next to another takes none.
func (o *naive) roomForSession(n *naiveRun, number uint64) bool {
	return runs(n.used, n.lowest) < o.limits.numbers || number > n.lowest && n.used[number-1] || n.used[number+1]
}

// retire spends a number that is not open.
func (o *naive) retire(id SessionID) Code {
	n, code := o.node(id.Node, id.Incarnation)
	if code != CodeOK || n.spent(id.Number) {
		return code
	}
	if !o.roomForSession(n, id.Number) {
		return CodeTooManySessions
	}
	n.used[id.Number] = true
	return CodeOK
}

func (o *naive) open(c Acquire) (*naiveSession, Outcome) {
	if s := o.session(c.Session); s != nil {
		if o.run(s.ID.Process()).over {
			return nil, Outcome{Code: CodeStaleIncarnation}
		}
		return s, Outcome{}
	}
	n, code := o.node(c.Session.Node, c.Session.Incarnation)
	if code != CodeOK {
		return nil, Outcome{Code: code}
	}
	if n.spent(c.Session.Number) {
		return nil, Outcome{Code: CodeSessionLost}
	}
	over := o.overSessions(n.Node)
	switch {
	case !o.roomForSession(n, c.Session.Number):
		return nil, Outcome{Code: CodeTooManySessions}
	case c.TTL == 0:
		n.used[c.Session.Number] = true
		return nil, Outcome{Code: CodeSessionLost}
	case len(o.sessions) >= o.limits.sessions:
		return nil, Outcome{Code: CodeTooManySessions}
	case over != nil:
		return nil, Outcome{Code: CodeSessionsOverQuota, Over: over}
	case n.gone && o.here() >= o.roomFor(n.client):
		return nil, Outcome{Code: CodeTooManyNodes}
	case n.gone && o.level > max(n.level, 1):
		return nil, Outcome{Code: CodeTooOld}
	}
	n.used[c.Session.Number] = true
	if n.gone {
		n.gone, n.goneAt, n.since = false, 0, o.number
	}
	s := &naiveSession{Session: Session{c.Session, c.TTL, o.number}, opened: o.number, over: make(map[uint64]bool)}
	o.sessions = append(o.sessions, s)
	slices.SortFunc(o.sessions, func(a, b *naiveSession) int {
		return cmp.Or(strings.Compare(string(a.ID.Node[:]), string(b.ID.Node[:])),
			cmp.Compare(a.ID.Incarnation, b.ID.Incarnation), cmp.Compare(a.ID.Number, b.ID.Number))
	})
	o.renewed(s)
	return s, Outcome{}
}

func (o *naive) renewed(s *naiveSession) {
	o.say(Event{Kind: EventSessionRenewed, Session: s.ID, TTL: s.TTL, NodeName: o.run(s.ID.Process()).name})
}

func (o *naive) keep(c Keep) Outcome {
	if o.maxTTL > 0 && c.TTL > o.maxTTL {
		return Outcome{Code: CodeInvalid}
	}
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
			s.seq, s.Renewed, s.TTL = c.Seq, o.number, cmp.Or(c.TTL, s.TTL)
			o.renewed(s)
		} else if c.Seq < s.seq && c.TTL > 0 {
			out.Code = CodeFinished
		}
	}
	return out
}

// claimsOf are a session's, by the numbers of their requests.
func (o *naive) claimsOf(s *naiveSession) []*naiveClaim {
	mine := slices.DeleteFunc(slices.Clone(o.claims), func(c *naiveClaim) bool { return c.s != s })
	slices.SortFunc(mine, func(a, b *naiveClaim) int { return cmp.Compare(a.Request, b.Request) })
	return mine
}
