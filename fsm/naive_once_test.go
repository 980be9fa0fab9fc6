package fsm

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// doOnceOrRest carries out what belongs to Once keys and rests.
func (o *naive) doOnceOrRest(c Command) Outcome {
	switch c := c.(type) {
	case Finish:
		return o.finishKey(c)
	case Forget:
		if k, done := o.keys[c.Name]; done && k.Token == c.Token {
			delete(o.keys, c.Name)
			if len(o.inClass(k.keep)) == 0 {
				delete(o.turns, k.keep)
			}
		}
		return Outcome{}
	case Turn:
		keep := uint64(c.Keep / time.Millisecond)
		turns := o.turns[keep]
		if len(turns) == 0 || turns[len(turns)-1] != c.Last {
			return Outcome{Code: CodeFinished}
		}
		o.turns[keep] = append(turns, o.number)
		return Outcome{}
	case Sweep:
		o.forgetKeys(uint64(c.Keep/time.Millisecond), c.Upto, SweepMax)
		return Outcome{}
	case EndRest:
		for i, r := range o.rests {
			if r.Name == c.Name && r.Token == c.Token {
				o.rests = slices.Delete(o.rests, i, i+1)
				o.say(Event{Kind: EventRested, Name: r.Name, Token: r.Token, Terms: Terms{Mode: r.Mode, Weight: r.weight}})
				o.settle(r.Name)
				return Outcome{}
			}
		}
		return Outcome{Code: CodeFinished}
	}
	panic("unknown command")
}

func (o *naive) restsOf(name string) (rests []naiveRest) {
	for _, r := range o.rests {
		if r.Name == name {
			rests = append(rests, r)
		}
	}
	return rests
}

func (o *naive) finishKey(c Finish) Outcome {
	s := o.session(c.Session)
	if s != nil {
		o.ack(s, c.Acked)
	}
	x := o.holding(s, c.Name, c.Token)
	if s == nil || x == nil {
		if k, done := o.keys[c.Name]; done && k.Token == c.Token {
			return Outcome{}
		}
		return Outcome{Code: CodeNotHeld}
	}
	s.finish(x.Request)
	o.remove(x, ending{kind: EventReleased, reason: ReasonFinished})
	delete(o.values, c.Name)
	h := o.view(x)
	h.Request, h.Terms, h.Granted = 0, Terms{Weight: 1}, o.number
	keep := naiveClass(c.Keep)
	o.keys[c.Name] = naiveKey{h, keep}
	if len(o.turns[keep]) == 0 {
		o.turns[keep] = []uint64{o.number}
	}
	o.settle(c.Name)
	o.forgetKeys(keep, o.number, 2)
	return Outcome{}
}

// naiveClass keeps the five highest bits and rounds up.
func naiveClass(keep time.Duration) uint64 {
	millis, unit := uint64(keep/time.Millisecond), uint64(1)
	for millis/unit >= 32 {
		unit *= 2
	}
	for millis%unit != 0 {
		millis++
	}
	return millis
}

// due says whether enough turns came after a key was finished.
func (o *naive) due(k naiveKey) bool {
	keep := time.Duration(k.keep) * time.Millisecond
	period := max(keep/64, 100*time.Millisecond)
	need := 1
	for sum := time.Duration(0); sum < keep; sum += period {
		need++
	}
	for _, turn := range o.turns[k.keep] {
		if turn > k.Granted {
			need--
		}
	}
	return need <= 0
}

// inClass are the names of the keys of a class, the oldest first.
func (o *naive) inClass(keep uint64) []string {
	names := slices.DeleteFunc(slices.Collect(maps.Keys(o.keys)), func(name string) bool { return o.keys[name].keep != keep })
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(o.keys[a].Granted, o.keys[b].Granted) })
	return names
}

func (o *naive) forgetKeys(keep, upto uint64, most int) {
	for _, name := range o.inClass(keep) {
		if k := o.keys[name]; most > 0 && o.due(k) && k.Granted <= upto {
			delete(o.keys, name)
			most--
		}
	}
	if len(o.inClass(keep)) == 0 {
		delete(o.turns, keep)
	}
}

func (o *naive) classes() (all []Class) {
	for _, keep := range slices.Sorted(maps.Keys(o.turns)) {
		c := Class{Keep: time.Duration(keep) * time.Millisecond, Last: o.turns[keep][len(o.turns[keep])-1]}
		for _, name := range o.inClass(keep) {
			if o.due(o.keys[name]) {
				c.Over = o.keys[name].Granted
			}
		}
		all = append(all, c)
	}
	return all
}

// pastOf are the grants of a lock that have ended, the last first.
func (o *naive) pastOf(name string) (grants []PastGrant) {
	for _, g := range slices.Backward(o.past) {
		if g.name == name && len(grants) < o.limits.past {
			grants = append(grants, g.PastGrant)
		}
	}
	return grants
}

// deadlocked says whether a request would wait for what its caller holds: all that waits for that
// is found, step by step, until nothing more is.
func (o *naive) deadlocked(c *naiveClaim) bool {
	stuck := make(map[*naiveClaim]bool)
	for found := true; found; {
		found = false
		for _, x := range o.claims {
			inner := func(y *naiveClaim) bool { return len(y.While) > 0 && y.While[0] == x.token && stuck[y] }
			switch {
			case stuck[x], o.gone(x):
			case x.token == 0 && o.waitsFor(x, stuck),
				x.token != 0 && (slices.Contains(c.While, x.token) || slices.ContainsFunc(o.claims, inner)):
				stuck[x], found = true, true
			}
		}
	}
	return o.waitsFor(c, stuck)
}

// waitsFor says whether a claim can never be granted if none of the stuck ones goes.
func (o *naive) waitsFor(c *naiveClaim, stuck map[*naiveClaim]bool) bool {
	for _, name := range c.names() {
		if o.unsettled[name] {
			continue
		}
		for _, w := range o.waiters(name) {
			before := w.Priority > c.Priority || w.Priority == c.Priority && w.arrived < c.arrived
			if w != c && before && stuck[w] {
				return true
			}
		}
		kept := c.Weight
		for _, h := range o.holders(name) {
			if !stuck[h] {
				continue
			}
			kept += h.Weight
			if h.Mode != Permit || kept > o.limit(name) {
				return true
			}
		}
	}
	return false
}
