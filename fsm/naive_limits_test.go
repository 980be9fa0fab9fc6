package fsm

import (
	"maps"
	"slices"

	"pgregory.net/rapid"
)

// drawLimits draws bounds: each is that of production, or so small that a few commands reach it.
// With forget, processes are forgotten so early that late commands of theirs are not told apart.
func drawLimits(t *rapid.T, forget bool) limits {
	l := defaultLimits()
	for _, bound := range []struct {
		what  string
		of    *int
		small []int
	}{
		{"step bound", &l.step, []int{1, 1, 2, 3}},
		{"runs forgotten", &l.prune, []int{1, 2, 3}},
		{"locks", &l.locks, []int{1, 2, 3}},
		{"grants", &l.grants, []int{1, 2, 4}},
		{"waiters", &l.waiters, []int{1, 2, 4}},
		{"holders", &l.holders, []int{1, 2, 3}},
		{"sessions", &l.sessions, []int{1, 2, 4}},
		{"nodes", &l.nodes, []int{1, 2, 3}},
		{"spans", &l.spans, []int{1, 2, 3}},
		{"session numbers", &l.numbers, []int{1, 2, 3}},
		{"spans in all", &l.spansTotal, []int{1, 3, 6}},
		{"keys", &l.keys, []int{0}},
		{"past", &l.past, []int{1, 2}},
		{"locks with a past", &l.pastLocks, []int{1, 2, 3}},
		{"resized", &l.resizes, []int{0, 1, 1}},
		{"quotas", &l.quotas, []int{0, 1, 2}},
	} {
		if rapid.IntRange(0, 4).Draw(t, bound.what) == 0 {
			*bound.of = rapid.SampledFrom(bound.small).Draw(t, bound.what)
		}
	}
	if forget {
		l.forgotten = rapid.SampledFrom([]int{1, 1, 2, ForgottenMax}).Draw(t, "forgotten")
	}
	l.values = rapid.SampledFrom([]int64{ValuesBytesMax, ValuesBytesMax, ValuesBytesMax, 1, 4, 9}).Draw(t, "values")
	l.token = rapid.SampledFrom([]uint64{TokenMax, TokenMax, TokenMax, 3, 10}).Draw(t, "token")
	return l
}

// lowStep is the bounds of production, but for that of a step.
func lowStep(t *rapid.T) limits {
	l := defaultLimits()
	l.step = rapid.SampledFrom([]int{1, 1, 2, 3, stepMax}).Draw(t, "step bound")
	return l
}

// runs is how many runs numbers make, those from lowest on.
func runs(used map[uint64]bool, lowest uint64) (n int) {
	for number, ok := range used {
		if ok && number >= lowest && (number == lowest || !used[number-1]) {
			n++
		}
	}
	return n
}

// finish remembers that a request is over, if its answer was not heard yet.
func (s *naiveSession) finish(request uint64) {
	if request >= s.acked {
		s.over[request] = true
	}
}

// runs is how many runs of requests a session remembers.
func (s *naiveSession) runs() int { return runs(s.over, 0) }

// finished says whether a request that is not live is over.
func (s *naiveSession) finished(request uint64) bool { return request < s.acked || s.over[request] }

// ack forgets the requests whose answers were heard, each run of them for a price. One command
// forgets some runs, the next one goes on.
func (o *naive) ack(s *naiveSession, acked uint64) {
	s.acked = max(s.acked, acked)
	before, last := s.runs(), uint64(0)
	for _, n := range slices.Sorted(maps.Keys(s.over)) {
		if n >= s.acked || n != last+1 && before-s.runs() == o.limits.prune {
			break
		}
		delete(s.over, n)
		last = n
	}
	o.work += before - s.runs()
}

// room says whether one more request of a session can be remembered: one next to another takes none.
func (o *naive) room(s *naiveSession, request uint64) bool {
	all := 0
	for _, s := range o.sessions {
		all += s.runs()
	}
	return s.runs() < o.limits.spans && all < o.limits.spansTotal || s.over[request-1] || s.over[request+1]
}

// here is how many processes are not gone.
func (o *naive) here() (n int) {
	for _, r := range o.runs {
		if !r.gone {
			n++
		}
	}
	return n
}

// memory says whether only the memory of a process is left.
func (o *naive) memory(r *naiveRun) bool { return r.gone && len(o.sessionsOf(r.Process)) == 0 }

// letGo forgets a process of which nothing is left if there is a later one of its node.
func (o *naive) letGo(p Process) {
	r := o.run(p)
	if !o.memory(r) {
		return
	}
	if o.latest(p.Node) != r {
		o.runs = slices.DeleteFunc(o.runs, func(x *naiveRun) bool { return x == r })
	}
	o.boundMemory()
}

// boundMemory forgets the process that is gone for longest if there is one too many.
func (o *naive) boundMemory() {
	var oldest *naiveRun
	n := 0
	for _, r := range o.runs {
		if o.memory(r) {
			if n++; oldest == nil || r.goneAt < oldest.goneAt {
				oldest = r
			}
		}
	}
	if n > o.limits.forgotten {
		o.runs = slices.DeleteFunc(o.runs, func(r *naiveRun) bool { return r == oldest })
	}
}

// full says whether a lock has as many holders and rests as it may.
func (o *naive) full(name string) bool {
	return len(o.holders(name))+len(o.restsOf(name)) >= o.limits.holders
}

// fitsWithoutBound says whether only the bound on holders keeps a claim out.
func (o *naive) fitsWithoutBound(c *naiveClaim) bool {
	bound := o.limits.holders
	defer func() { o.limits.holders = bound }()
	o.limits.holders = HoldersMax
	return o.fits(c)
}

// locks is how many locks are there.
func (o *naive) locks() (n int) {
	for _, name := range names() {
		if o.used(name) {
			n++
		}
	}
	return n
}

// count is how many grants and waiters there are, each name of a set for itself.
func (o *naive) count() (grants, waiters int) {
	for _, c := range o.claims {
		if c.token != 0 {
			grants += len(c.names())
		} else {
			waiters += len(c.names())
		}
	}
	return grants, waiters
}

// valueBytes is the size of all values, and of the reasons why holders are asked to let go.
func (o *naive) valueBytes() (n int) {
	for _, c := range o.claims {
		if n += len(c.asked); c.token == 0 {
			n += len(c.Value)
		}
	}
	for _, v := range o.values {
		n += len(v)
	}
	return n
}

// exceeded says which bound a claim would break.
func (o *naive) exceeded(c *naiveClaim, free bool) Code {
	fresh, replaced := 0, 0
	for _, name := range c.names() {
		if !o.used(name) {
			fresh++
		}
	}
	if free && c.HasValue {
		replaced = len(o.values[c.Name])
	}
	grants, waiters := o.count()
	switch {
	case o.counter+uint64(waiters) >= o.limits.token:
		return CodeTokensExhausted
	case fresh > 0 && o.locks()+fresh > o.limits.locks, free && grants+len(o.rests)+len(c.names()) > o.limits.grants:
		return CodeTooManyLocks
	case !free && waiters+len(c.names()) > o.limits.waiters:
		return CodeTooManyWaiters
	case len(c.Value) > 0 && o.valueBytes()-replaced+len(c.Value) > int(o.limits.values):
		return CodeValuesFull
	}
	return CodeOK
}

// boundPast forgets the past of the lock whose last grant ended first if there is one too many.
func (o *naive) boundPast() {
	ended := make(map[string]uint64)
	for _, g := range o.past {
		ended[g.name] = g.Ended
	}
	if len(ended) <= o.limits.pastLocks {
		return
	}
	oldest := ""
	for _, name := range slices.Sorted(maps.Keys(ended)) {
		if oldest == "" || ended[name] < ended[oldest] {
			oldest = name
		}
	}
	o.past = slices.DeleteFunc(o.past, func(g naivePast) bool { return g.name == oldest })
}
