package fsm

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// stage is a machine under a script. The commands:
//
//	birth, serve, level N, hello NODE inc=N name=S, forget NODE inc=N
//	acquire SESSION r=N lock=S [ttl=D] [acked=N] [mode=M] [limit=N] [weight=N] [prio=N] [label=S] [value=S]
//	try ... (the same, without waiting)
//	withdraw SESSION r=N,N; release SESSION LOCK#TOKEN ...; set SESSION r=N LOCK#TOKEN [value=S]
//	keep NODE seq=N [lowest=N] [n=N,N]; close SESSION; expire SESSION renewed=N; force LOCK#TOKEN reason=S
//	again N|all: apply the command at an index, or all so far, once more
//	show LOCK; sessions; info; ask SESSION r=N; reload: go on from a snapshot
//
// A node is a letter, with its newest incarnation unless inc= says another. A session is NODE/NUMBER.
type stage struct {
	m           *Machine
	index       uint64
	log         []Command
	incarnation map[byte]uint64
}

func (s *stage) run(line string) string {
	words := strings.Fields(line)
	args := make(map[string]string)
	var bare []string
	for _, w := range words[1:] {
		if k, v, ok := strings.Cut(w, "="); ok {
			args[k] = v
		} else {
			bare = append(bare, w)
		}
	}
	if out, ok := s.look(words[0], bare, args); ok {
		return out
	}
	c := s.command(words[0], bare, args)
	if c == nil {
		return "unknown command\n"
	}
	return s.apply(c)
}

func (s *stage) apply(c Command) string {
	s.index++
	s.log = append(s.log, c)
	o, events := s.m.Apply(s.index, Encode(c))
	var b strings.Builder
	fmt.Fprintf(&b, "%d: %s\n", s.index, describe(o))
	for _, e := range events {
		b.WriteString("   " + tale(e) + "\n")
	}
	return b.String()
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
	case EventBorn, EventServing:
	case EventSessionRenewed:
		text += fmt.Sprintf(" %s %v", short(e.Session), e.TTL)
	case EventSessionEnded:
		text += " " + short(e.Session)
	default:
		text += fmt.Sprintf(" %s: %s", e.Name, who(e.Holder()))
	}
	if e.Kind == EventValueSet {
		text += fmt.Sprintf(" %q", e.Value)
	}
	if e.Reason != ReasonNone {
		text += " (" + strings.TrimSpace(e.Reason.String()+" "+e.Detail) + ")"
	}
	return text
}

// look answers the commands that change nothing.
func (s *stage) look(verb string, bare []string, args map[string]string) (string, bool) {
	switch verb {
	case "show":
		return s.show(bare[0]), true
	case "sessions":
		var b strings.Builder
		for x := range s.m.Sessions() {
			fmt.Fprintf(&b, "%s %v renewed at %d\n", short(x.ID), x.TTL, x.Renewed)
		}
		return b.String(), true
	case "info":
		i := s.m.Info()
		return fmt.Sprintf("serving %v level %d counter %d: %d locks, %d grants, %d waiters, %d sessions, %d nodes, %d bytes\n",
			i.Serving, i.Level, i.Counter, i.Locks, i.Grants, i.Waiters, i.Sessions, i.Nodes, i.ValueBytes), true
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
		return fmt.Sprintf("same %v\n", bytes.Equal(before, snapshot(m))), true
	case "again":
		return s.again(bare[0]), true
	}
	return "", false
}

func (s *stage) again(which string) string {
	if which != "all" {
		return s.apply(s.log[number(which)-1])
	}
	before, said := stateOf(s.m), 0
	for _, c := range s.log {
		s.index++
		_, events := s.m.Apply(s.index, Encode(c))
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
	fmt.Fprintf(&b, "%s last #%d limit %d value %q wanted %v\n", l.Name, l.LastToken, l.Limit, l.Value, l.Wanted)
	for _, h := range l.Holders {
		fmt.Fprintf(&b, "   held by %s\n", who(h))
	}
	for _, h := range l.Waiters {
		fmt.Fprintf(&b, "   waits: %s\n", who(h))
	}
	return b.String()
}

func (s *stage) command(verb string, bare []string, args map[string]string) Command {
	switch verb {
	case "birth":
		return Birth{Cluster: [16]byte{1}, Counter: 100}
	case "serve":
		return Serve{}
	case "level":
		return Level{number(bare[0])}
	case "hello":
		inc := number(args["inc"])
		s.incarnation[bare[0][0]] = max(inc, s.incarnation[bare[0][0]])
		return Hello{Node{bare[0][0]}, inc, args["name"]}
	case "forget":
		return Forget{Node{bare[0][0]}, number(args["inc"])}
	case "acquire", "try":
		value, has := args["value"]
		return Acquire{
			Session: s.session(bare[0], args), TTL: duration(args["ttl"]), Request: number(args["r"]),
			Acked: number(args["acked"]), Name: args["lock"], Wait: verb == "acquire", Mode: mode(args["mode"]),
			Limit: uint32(number(args["limit"])), Weight: uint32(number(args["weight"])),
			Priority: int32(signed(args["prio"])), Label: args["label"], HasValue: has, Value: []byte(value),
		}
	case "withdraw":
		return Withdraw{s.session(bare[0], args), number(args["acked"]), list(args["r"])}
	case "release":
		c := Release{Session: s.session(bare[0], args), Acked: number(args["acked"])}
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
		return Keep{Node{bare[0][0]}, s.inc(bare[0][0], args), number(args["seq"]), number(args["lowest"]), list(args["n"])}
	case "close":
		return CloseSession{s.session(bare[0], args)}
	case "expire":
		return Expire{s.session(bare[0], args), number(args["renewed"])}
	case "force":
		g := grantOf(bare[0])
		return ForceRelease{g.Name, g.Token, args["reason"]}
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
	return Grant{name, number(token)}
}

func mode(text string) Mode {
	for m := Exclusive; m <= Permit; m++ {
		if m.String() == text {
			return m
		}
	}
	return Exclusive
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
