package fsm

import (
	"bytes"
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// stage is a machine under a script. The commands:
//
//	birth, serve, level N, raise N, raise-ttl D, hello NODE inc=N name=S [place=S] [knows=N], goodbye NODE [inc=N] [departure=N]
//	silent NODE for=D seen=N, remove NODE [inc=N] since=N, revoke NODE [upto=N] reason=S,
//	evict NODE seen=N [reason=S] [refusal=N]
//	acquire SESSION r=N lock=S [ttl=D] [acked=N] [mode=M] [limit=N] [weight=N] [prio=N] [label=S] [value=S]
//		[others=S,S] [delay=D] [while=N,N] [refuse=true]
//	try ... (the same, without waiting)
//	withdraw SESSION r=N,N; release SESSION LOCK#TOKEN ... [rest=D] [close=true]; set SESSION r=N LOCK#TOKEN [value=S]
//	keep NODE seq=N [lowest=N] [n=N,N]; close SESSION [lost=true]; expire SESSION renewed=N; force LOCK#TOKEN reason=S; please (the same, as Ask)
//	finish SESSION LOCK#TOKEN keep=D; turn keep=D last=N; sweep keep=D upto=N; endrest LOCK#TOKEN; forget LOCK#TOKEN
//	resize LOCK limit=N [seen=N]
//	continue [last=N]: take the next step of what has ended. steps N: commands take so many claims away at most
//	again N|all: apply a command, by its number, or all so far, once more
//	show LOCK; past LOCK; cycles LOCK; key KEY; classes; sessions; info; ask SESSION r=N; reload: go on from a snapshot
//
// The lock of a Once key is written once:KEY. A node is a letter, with its newest incarnation
// unless inc= says another. A session is NODE/NUMBER.
type stage struct {
	m           *Machine
	steps       int    // 0: as many as the machine takes
	number      uint64 // of commands
	log         []Command
	incarnation map[byte]uint64
}

func (s *stage) run(line string) string {
	fields := strings.Fields(line)
	args := make(map[string]string)
	var bare []string
	for _, w := range fields[1:] {
		if k, v, ok := strings.Cut(w, "="); ok {
			args[k] = v
		} else {
			bare = append(bare, w)
		}
	}
	if out, ok := s.look(fields[0], bare, args); ok {
		return out
	}
	c := s.command(fields[0], bare, args)
	if c == nil {
		return "unknown command\n"
	}
	return s.apply(c)
}

func (s *stage) apply(c Command) string {
	s.log = append(s.log, c)
	o, events := s.carryOut(c)
	var b strings.Builder
	fmt.Fprintf(&b, "%d: %s\n", s.number, describe(o))
	for _, e := range events {
		b.WriteString("   " + tale(e) + "\n")
	}
	return b.String()
}

// carryOut applies a command. Only every third entry of the log is one: what names it is its
// number.
func (s *stage) carryOut(c Command) (Outcome, []Event) {
	s.number++
	return s.m.Apply(3*s.number, ProcessOf(c), Encode(c))
}

func describe(o Outcome) string {
	text := o.Code.String()
	if o.Token != 0 {
		text += fmt.Sprintf(" #%d", o.Token)
	}
	if o.Lost != nil {
		text += fmt.Sprintf(" lost %d", o.Lost)
	}
	if o.Holder != nil {
		text += fmt.Sprintf(" by %s, %d waiting", who(*o.Holder), o.Waiters)
	}
	return text
}

func who(h Holder) string {
	text := short(h.Session) + fmt.Sprintf(" r%d", h.Request)
	if h.Token != 0 {
		text += fmt.Sprintf(" #%d", h.Token)
	}
	if h.Mode != Exclusive {
		text += " " + h.Mode.String()
	}
	if h.Weight != 1 {
		text += fmt.Sprintf(" weight %d", h.Weight)
	}
	if h.Priority != 0 {
		text += fmt.Sprintf(" priority %d", h.Priority)
	}
	if h.Label != "" {
		text += " " + h.Label
	}
	return text
}

func short(id SessionID) string {
	return fmt.Sprintf("%c%d/%d", id.Node[0], id.Incarnation, id.Number)
}

func tale(e Event) string {
	text := e.Kind.String()
	switch e.Kind {
	case EventBorn, EventServing, EventUnfinished:
	case EventSessionRenewed:
		text += fmt.Sprintf(" %s %v", short(e.Session), e.TTL)
	case EventSessionEnded:
		text += " " + short(e.Session)
	case EventEvict:
		text += fmt.Sprintf(" %c of %d", e.Session.Node[0], e.Request)
	case EventSilent:
		text += fmt.Sprintf(" %c for %v", e.Session.Node[0], e.TTL)
	case EventDeparted:
		text += fmt.Sprintf(" %c%d", e.Session.Node[0], e.Session.Incarnation)
	case EventResting:
		text += fmt.Sprintf(" %s#%d for %v", said(e.Name), e.Token, e.TTL)
	case EventResized:
		text += fmt.Sprintf(" %s to %d", said(e.Name), e.Limit)
	case EventRested:
		text += fmt.Sprintf(" %s#%d", said(e.Name), e.Token)
	default:
		text += fmt.Sprintf(" %s: %s", said(e.Name), who(e.Holder()))
	}
	if e.Election {
		text += " election"
	}
	if e.Kind == EventValueSet {
		text += fmt.Sprintf(" %q", e.Value)
	}
	if e.Reason != ReasonNone || e.Detail != "" {
		text += " (" + strings.TrimSpace(strings.TrimPrefix(e.Reason.String(), "none")+" "+e.Detail) + ")"
	}
	return text
}

// said is the inverse of lockName.
func said(name string) string {
	if key, ok := OnceKey(name); ok {
		return "once:" + key
	}
	return name
}

// look carries out the commands that change nothing.
func (s *stage) look(verb string, bare []string, args map[string]string) (string, bool) {
	switch verb {
	case "show":
		return s.show(lockName(bare[0])), true
	case "past":
		return s.past(lockName(bare[0])), true
	case "cycles":
		var b strings.Builder
		for _, cycle := range s.m.Cycles(bare[0]) {
			for _, w := range cycle {
				fmt.Fprintf(&b, "%s waits for %s; ", who(w.Holder), w.Name)
			}
			b.WriteString("\n")
		}
		return b.String(), true
	case "key":
		h, ok := s.m.Key(bare[0])
		return fmt.Sprintf("%v %s at %d\n", ok, who(h), h.Granted), true
	case "classes":
		return fmt.Sprintf("%+v, %d keys\n", s.m.Classes(), s.m.Info().Keys), true
	case "sessions":
		var b strings.Builder
		for x := range s.m.Sessions() {
			fmt.Fprintf(&b, "%s %v renewed at %d\n", short(x.ID), x.TTL, x.Renewed)
		}
		return b.String(), true
	case "info":
		i := s.m.Info()
		start := ""
		if i.Bootstrap > 0 {
			start = fmt.Sprintf(" with %d voters of %d", i.Voters, i.Bootstrap)
		}
		return fmt.Sprintf("serving %v%s level %d counter %d: %d locks, %d grants, %d waiters, %d sessions, %d nodes, %d bytes\n",
			i.Serving, start, i.Level, i.Counter, i.Locks, i.Grants, i.Waiters, i.Sessions, i.Nodes, i.ValueBytes), true
	case "ask":
		state, token := s.m.Request(s.session(bare[0], args), number(args["r"]))
		return fmt.Sprintf("%v %d\n", state, token), true
	case "reload":
		before := snapshot(s.m)
		m, err := ReadSnapshot(bytes.NewReader(before))
		if err != nil {
			return err.Error() + "\n", true
		}
		s.m = m
		s.m.Limit(Limits{Step: s.steps})
		return fmt.Sprintf("same %v\n", bytes.Equal(before, snapshot(m))), true
	case "again":
		return s.again(bare[0]), true
	case "steps":
		s.steps = int(number(bare[0]))
		s.m.Limit(Limits{Step: s.steps})
		return "", true
	case "unfinished":
		last, left := s.m.Unfinished()
		return fmt.Sprintf("%v since %d\n", left, last), true
	}
	return "", false
}

func (s *stage) again(which string) string {
	if which != "all" {
		return s.apply(s.log[number(which)-1])
	}
	before, said := stateOf(s.m), 0
	for _, c := range s.log {
		_, events := s.carryOut(c)
		said += len(events)
	}
	s.log = append(s.log, s.log...)
	return fmt.Sprintf("changed %v, %d events\n", !bytes.Equal(before, stateOf(s.m)), said)
}

func (s *stage) show(name string) string {
	l, ok := s.m.Lock(name)
	if !ok {
		return "nothing\n"
	}
	var b strings.Builder
	limit := fmt.Sprint(l.Limit)
	if l.Former != 0 {
		limit += fmt.Sprintf(" after %d", l.Former)
	}
	fmt.Fprintf(&b, "%s last #%d limit %s value %q wanted %v\n", said(l.Name), l.LastToken, limit, l.Value, l.Wanted)
	for _, h := range l.Holders {
		fmt.Fprintf(&b, "   held by %s\n", who(h))
	}
	for _, r := range l.Rests {
		fmt.Fprintf(&b, "   #%d rests %v since %d\n", r.Token, r.For, r.Since)
	}
	for _, h := range l.Waiters {
		fmt.Fprintf(&b, "   waits: %s\n", who(h))
	}
	return b.String()
}

func (s *stage) past(name string) string {
	var b strings.Builder
	for _, g := range s.m.Past(name) {
		fmt.Fprintf(&b, "%s from %d to %d: %v (%s)\n", who(g.Holder), g.Granted, g.Ended, g.Kind, strings.TrimSpace(g.Reason.String()+" "+g.Detail))
	}
	return b.String()
}

// lockName reads once:KEY, or a lock's name.
func lockName(text string) string {
	if key, ok := strings.CutPrefix(text, "once:"); ok {
		return OnceName(key)
	}
	return text
}

func (s *stage) command(verb string, bare []string, args map[string]string) Command {
	switch verb {
	case "birth":
		return Birth{[16]byte{1}, 100, uint32(number(args["bootstrap"])), uint32(number(args["voters"]))}
	case "serve":
		return Serve{}
	case "silent":
		return Silent{number(args["seen"]), []Silence{{Node{bare[0][0]}, duration(args["for"])}}}
	case "evict":
		return Evict{Node{bare[0][0]}, number(args["seen"]), args["reason"], Reason(number(args["refusal"]))}
	case "level":
		return Level{number(bare[0])}
	case "raise":
		return Raise{number(bare[0])}
	case "raise-ttl":
		return RaiseTTL{duration(bare[0])}
	case "hello":
		inc := number(args["inc"])
		s.incarnation[bare[0][0]] = max(inc, s.incarnation[bare[0][0]])
		return Hello{Node{bare[0][0]}, inc, args["name"], Place{args["place"], 0, 0}, number(args["knows"])}
	case "goodbye":
		return Goodbye{Node{bare[0][0]}, s.session(bare[0]+"/1", args).Incarnation, Departure(number(args["departure"]))}
	case "remove":
		return Remove{Node{bare[0][0]}, s.session(bare[0]+"/1", args).Incarnation, number(args["since"])}
	case "revoke":
		return Revoke{Node{bare[0][0]}, cmp.Or(number(args["upto"]), s.number), args["reason"]}
	case "acquire", "try":
		value, has := args["value"]
		return Acquire{
			Session: s.session(bare[0], args), TTL: duration(args["ttl"]), Request: number(args["r"]),
			Acked: number(args["acked"]), Name: lockName(args["lock"]), Wait: verb == "acquire",
			Terms: Terms{
				Mode: mode(args["mode"]), Limit: uint32(number(args["limit"])), Weight: uint32(number(args["weight"])),
				Priority: int32(signed(args["prio"])), Label: args["label"], Delay: duration(args["delay"]),
				Election: args["election"] == "true",
			},
			HasValue: has, Value: []byte(value), Others: words(args["others"]),
			While: list(args["while"]), Refuse: args["refuse"] == "true",
		}
	case "withdraw":
		return Withdraw{s.session(bare[0], args), number(args["acked"]), list(args["r"])}
	case "release":
		c := Release{Session: s.session(bare[0], args), Acked: number(args["acked"]), Rest: duration(args["rest"]), Close: args["close"] == "true"}
		for _, g := range bare[1:] {
			c.Grants = append(c.Grants, grantOf(g))
		}
		return c
	case "set":
		g := grantOf(bare[1])
		c := SetValue{s.session(bare[0], args), number(args["r"]), number(args["acked"]), g.Name, g.Token, nil}
		if value, has := args["value"]; has {
			c.Value = []byte(value)
		}
		return c
	case "keep":
		return Keep{Node{bare[0][0]}, s.inc(bare[0][0], args), number(args["seq"]), number(args["lowest"]), list(args["n"]), duration(args["ttl"])}
	case "close":
		return CloseSession{s.session(bare[0], args), args["lost"] == "true"}
	case "expire":
		return Expire{s.session(bare[0], args), number(args["renewed"])}
	case "force":
		g := grantOf(bare[0])
		return ForceRelease{g.Name, g.Token, args["reason"]}
	}
	return s.kind(verb, bare, args)
}

func (s *stage) kind(verb string, bare []string, args map[string]string) Command {
	switch verb {
	case "finish":
		g := grantOf(bare[1])
		return Finish{s.session(bare[0], args), number(args["acked"]), g.Name, g.Token, duration(args["keep"])}
	case "turn":
		return Turn{duration(args["keep"]), number(args["last"])}
	case "sweep":
		return Sweep{duration(args["keep"]), number(args["upto"])}
	case "continue":
		last, _ := s.m.Unfinished()
		if args["last"] != "" {
			last = number(args["last"])
		}
		return Continue{last}
	case "forget":
		return Forget(grantOf(bare[0]))
	case "please":
		g := grantOf(bare[0])
		return Ask{g.Name, g.Token, args["reason"]}
	case "resize":
		return Resize{bare[0], uint32(number(args["limit"])), cmp.Or(number(args["seen"]), s.number)}
	case "endrest":
		g := grantOf(bare[0])
		return EndRest(g)
	}
	return nil
}

func (s *stage) session(text string, args map[string]string) SessionID {
	return SessionID{Node{text[0]}, s.inc(text[0], args), number(text[2:])}
}

func (s *stage) inc(node byte, args map[string]string) uint64 {
	if text, ok := args["inc"]; ok {
		return number(text)
	}
	return s.incarnation[node]
}

func grantOf(text string) Grant {
	name, token, _ := strings.Cut(text, "#")
	return Grant{lockName(name), number(token)}
}

func mode(text string) Mode {
	for m := Exclusive; m <= Permit; m++ {
		if m.String() == text {
			return m
		}
	}
	return Exclusive
}

func words(text string) (names []string) {
	for part := range strings.SplitSeq(text, ",") {
		if part != "" {
			names = append(names, part)
		}
	}
	return names
}

func list(text string) (numbers []uint64) {
	for part := range strings.SplitSeq(text, ",") {
		if part != "" {
			numbers = append(numbers, number(part))
		}
	}
	return numbers
}

// number reads a number of a script; what is missing is 0.
func number(text string) uint64 { return uint64(signed(text)) }

func signed(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

func duration(text string) time.Duration {
	d, _ := time.ParseDuration(text)
	return d
}
