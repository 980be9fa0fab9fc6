package model

import (
	"slices"
	"time"
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

// keep runs a candidate, and keeps it if it breaks the same rule.
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

// cutShort ends the faults where the rule was broken.
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
		func(p *Plan) { p.Watches = nil },
		func(p *Plan) { p.Nowhere = false },
		func(p *Plan) { p.Clumsy, p.Frail = false, false },
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

// fewer takes away the last nodes and what happens on them.
func (p *Plan) fewer(nodes int) {
	if nodes >= p.Nodes || nodes < p.Voters {
		return
	}
	p.Spares = p.Spares[:max(0, len(p.Spares)-(p.Nodes-nodes))]
	p.Nodes, p.Rates = nodes, p.Rates[:nodes]
	p.Calls = slices.DeleteFunc(p.Calls, func(c Call) bool { return c.Node >= nodes })
	p.Faults = slices.DeleteFunc(p.Faults, func(f Fault) bool { return f.Node >= nodes || f.Other >= nodes })
	p.Watches = slices.DeleteFunc(slices.Clone(p.Watches), func(w Watch) bool { return w.Node >= nodes })
	for i := range p.Calls {
		if p.Calls[i].Asker >= nodes {
			p.Calls[i].Asker = -1
		}
	}
}

// remove leaves out parts of a list, large ones first, as long as the rule is broken.
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

// sooner lets everything begin earlier, by as much as it can.
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

// simplify makes single calls plainer.
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
