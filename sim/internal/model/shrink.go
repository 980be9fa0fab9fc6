package model

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
)

// Shrink looks for a smaller plan that breaks the same rule, in at most tries runs. It returns the
// plan itself if that breaks nothing.
func Shrink(p Plan, tries int) Plan {
	first := Run(p).Violation
	if first == nil {
		return p
	}
	s := &shrinker{best: p, rule: first.Rule, at: first.At, tries: tries}
	for before := -1; before != s.size() && s.tries > 0; {
		before = s.size()
		s.cutShort()
		s.calm()
		remove(s, func(p *Plan) *[]Fault { return &p.Faults })
		remove(s, func(p *Plan) *[]Call { return &p.Calls })
		s.simplify()
		s.sooner()
	}
	return s.best
}

type shrinker struct {
	best  Plan
	rule  string
	at    time.Duration
	tries int
}

func (s *shrinker) size() int { return len(s.best.Calls) + len(s.best.Faults) + s.best.Nodes }

func (s *shrinker) keep(p Plan) bool {
	if s.tries <= 0 {
		return false
	}
	s.tries--
	v := Run(p).Violation
	if v == nil || v.Rule != s.rule {
		return false
	}
	s.best, s.at = p, v.At
	return true
}

func (s *shrinker) cutShort() {
	p := s.best
	p.Duration = min(p.Duration, s.at+time.Millisecond)
	p.Faults = slices.DeleteFunc(slices.Clone(p.Faults), func(f Fault) bool { return f.At > p.Duration })
	s.keep(p)
}

// calm takes away what goes wrong all the time, and nodes.
func (s *shrinker) calm() {
	for _, change := range []func(*Plan){
		func(p *Plan) { p.Net.Loss = 0 },
		func(p *Plan) { p.Net.Dup = 0 },
		func(p *Plan) { p.Net.Straggle = 0 },
		func(p *Plan) { p.Net.Jitter = 0 },
		func(p *Plan) { p.Snapshot = 1 << 30 },
		func(p *Plan) { p.Nowhere = false },
		func(p *Plan) { p.Clumsy, p.Frail = false, false },
		func(p *Plan) { p.Standbys = 0 },
		func(p *Plan) { p.Voters = min(p.Voters, 3) },
		func(p *Plan) { p.fewer(3) },
		func(p *Plan) { p.fewer(4) },
		func(p *Plan) { p.fewer(5) },
		func(p *Plan) {
			for i := range p.Rates {
				p.Rates[i] = 1
			}
		},
	} {
		p := s.best
		p.Rates, p.Calls, p.Faults = slices.Clone(p.Rates), slices.Clone(p.Calls), slices.Clone(p.Faults)
		change(&p)
		s.keep(p)
	}
}

func (p *Plan) fewer(nodes int) {
	if nodes >= p.Nodes || nodes < p.Voters {
		return
	}
	p.Spares = p.Spares[:max(0, len(p.Spares)-(p.Nodes-nodes))]
	p.Nodes, p.Rates = nodes, p.Rates[:nodes]
	p.Calls = slices.DeleteFunc(p.Calls, func(c Call) bool { return c.Node >= nodes })
	p.Faults = slices.DeleteFunc(p.Faults, func(f Fault) bool { return f.Node >= nodes || f.Other >= nodes })
	for i := range p.Calls {
		if p.Calls[i].Asker >= nodes {
			p.Calls[i].Asker = -1
		}
	}
}

func remove[T any](s *shrinker, of func(*Plan) *[]T) {
	for size := len(*of(&s.best)); size > 0; size /= 2 {
		for from := 0; from < len(*of(&s.best)) && s.tries > 0; {
			p := s.best
			list := of(&p)
			*list = slices.Delete(slices.Clone(*list), from, min(from+size, len(*list)))
			if !s.keep(p) {
				from += size
			}
		}
	}
}

func (s *shrinker) sooner() {
	for by := s.best.Duration; by > 10*time.Millisecond && s.tries > 0; by /= 2 {
		for s.tries > 0 {
			p := s.best
			p.Calls, p.Faults = slices.Clone(p.Calls), slices.Clone(p.Faults)
			for i := range p.Calls {
				p.Calls[i].At -= by
			}
			for i := range p.Faults {
				p.Faults[i].At -= by
			}
			first := p.Duration
			for _, c := range p.Calls {
				first = min(first, c.At)
			}
			for _, f := range p.Faults {
				first = min(first, f.At)
			}
			p.Duration -= by
			if first < 0 || !s.keep(p) {
				break
			}
		}
	}
}

func (s *shrinker) simplify() {
	for i := range s.best.Calls {
		for _, change := range []func(*Call){
			func(c *Call) { c.MaxHold = 0 },
			func(c *Call) { c.Manual = false },
			func(c *Call) { c.Retime = 0 },
			func(c *Call) { c.Value = false },
			func(c *Call) { c.Priority = 0 },
			func(c *Call) { c.Works = 0 },
			func(c *Call) { c.Asker = -1 },
			func(c *Call) { c.TTL = 0 },
			func(c *Call) { c.Others = 0 },
			func(c *Call) { c.MinHold = 0 },
			func(c *Call) { c.Delay = 0 },
			func(c *Call) { c.Lead = false },
			func(c *Call) { c.Fails = false },
			func(c *Call) { c.Keep = min(c.Keep, time.Millisecond) },
		} {
			p := s.best
			p.Calls = slices.Clone(p.Calls)
			was := p.Calls[i]
			change(&p.Calls[i])
			if p.Calls[i] != was {
				s.keep(p)
			}
		}
	}
}

type trace struct{ lines []string }

// tell adds a line. Callers on hot paths look first whether there is a trace.
func (w *world) tell(format string, args ...any) {
	if w.trace != nil {
		w.trace.lines = append(w.trace.lines, fmt.Sprintf("%10.4fs  ", w.now.Seconds())+fmt.Sprintf(format, args...))
	}
}

// lockNames are the names of a plan's locks: letters, and Once keys among them.
func lockNames(kinds []Kind) []string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		if names[i] = string(rune('a' + i)); k.Once {
			names[i] = fsm.OnceName(names[i])
		}
	}
	return names
}

func (w *world) lockName(i int) string { return w.names[i] }

func (w *world) limitOf(name string) uint32 {
	if i := int(name[0]) - 'a'; i >= 0 && i < len(w.plan.Locks) {
		return w.plan.Locks[i].Permits
	}
	return 0
}

func brief(id fsm.SessionID) string {
	return fmt.Sprintf("%d/%d/%d", int(id.Node[0])-1, id.Incarnation, id.Number)
}

func describe(c fsm.Command) string {
	switch c := c.(type) {
	case fsm.Acquire:
		wait := "try"
		if c.Wait {
			wait = "wait"
		}
		if c.Delay > 0 {
			wait += fmt.Sprint(" delay ", c.Delay)
		}
		return fmt.Sprintf("Acquire(%s request %d acked %d: %q %v %s)", brief(c.Session), c.Request, c.Acked, append([]string{c.Name}, c.Others...), c.Mode, wait)
	case fsm.Withdraw:
		return fmt.Sprintf("Withdraw(%s requests %v)", brief(c.Session), c.Requests)
	case fsm.Release:
		rest := ""
		if c.Rest > 0 {
			rest = fmt.Sprint(" rest ", c.Rest)
		}
		if c.Close {
			rest += " and the session"
		}
		return fmt.Sprintf("Release(%s %v%s)", brief(c.Session), c.Grants, rest)
	case fsm.SetValue:
		return fmt.Sprintf("SetValue(%s request %d: %s token %d %q)", brief(c.Session), c.Request, c.Name, c.Token, c.Value)
	case fsm.Finish:
		return fmt.Sprintf("Finish(%s %q token %d keep %v)", brief(c.Session), c.Name, c.Token, c.Keep)
	case fsm.Keep:
		return fmt.Sprintf("Keep(%d/%d sessions %v, number %d, lowest %d)", int(c.Node[0])-1, c.Incarnation, c.Sessions, c.Seq, c.Lowest)
	case fsm.Expire:
		return fmt.Sprintf("Expire(%s renewed at %d)", brief(c.Session), c.Renewed)
	case fsm.CloseSession:
		return fmt.Sprintf("CloseSession(%s)", brief(c.Session))
	case fsm.Hello:
		return fmt.Sprintf("Hello(%d/%d)", int(c.Node[0])-1, c.Incarnation)
	case fsm.Goodbye:
		return fmt.Sprintf("Goodbye(%d/%d)", int(c.Node[0])-1, c.Incarnation)
	}
	return strings.TrimPrefix(fmt.Sprintf("%T%+v", c, c), "fsm.")
}

func describeOutcome(o fsm.Outcome) string {
	s := o.Code.String()
	if o.Token != 0 {
		s += fmt.Sprint(" token ", o.Token)
	}
	if len(o.Lost) > 0 {
		s += fmt.Sprint(" lost ", o.Lost)
	}
	return s
}

func describeEvents(events []fsm.Event) (s string) {
	for i := range events {
		e := &events[i]
		switch e.Kind {
		case fsm.EventGranted, fsm.EventReleased, fsm.EventLost, fsm.EventForced:
			s += fmt.Sprintf("; %q %v: %s token %d", e.Name, e.Kind, brief(e.Session), e.Token)
		case fsm.EventResting, fsm.EventRested:
			s += fmt.Sprintf("; %q %v: token %d", e.Name, e.Kind, e.Token)
		case fsm.EventQueued, fsm.EventWithdrawn:
			s += fmt.Sprintf("; %q %v: %s", e.Name, e.Kind, brief(e.Session))
		case fsm.EventSessionEnded:
			s += fmt.Sprintf("; session %s ended (%v)", brief(e.Session), e.Reason)
		}
	}
	return s
}
