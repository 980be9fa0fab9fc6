package fsm

import (
	"cmp"
	"math"

	"pgregory.net/rapid"
)

type naiveResizes struct {
	sifting map[string]sift // unsettled names whose waiters are still to be looked at, from there on
	resizes map[string]resize
	resized uint64
}

// inUse says whether a name has a holder, a waiter or a place that rests.
func (o *naive) inUse(name string) bool { return len(o.of(name)) > 0 || len(o.restsOf(name)) > 0 }

func (o *naive) resize(c Resize) Outcome {
	if c.Seen == 0 || c.Seen >= o.number {
		return Outcome{Code: CodeInvalid}
	}
	now := o.lock(c.Name).Limit
	same := now == c.Limit
	switch {
	case c.Seen < o.resized && same:
		return Outcome{}
	case c.Seen < o.resized:
		return Outcome{Code: CodeFinished}
	}
	o.resized = o.number
	_, known := o.resizes[c.Name]
	switch {
	case o.inUse(c.Name) && now == 0:
		return Outcome{Code: CodeLimitMismatch}
	case now == 0:
		return Outcome{Code: CodeNotHeld}
	case same:
		return Outcome{}
	case !known && len(o.resizes) >= o.limits.resizes && !o.forgetResize():
		return Outcome{Code: CodeTooManyResized}
	}
	o.resizes[c.Name] = resize{c.Limit, now, o.number}
	o.say(Event{Kind: EventResized, Name: c.Name, Terms: Terms{Mode: Permit, Limit: c.Limit}})
	if c.Limit < now && len(o.waiters(c.Name)) > 0 {
		o.unsettled[c.Name], o.sifting[c.Name] = true, sift{priority: math.MaxInt32}
	}
	o.settle(c.Name)
	return Outcome{}
}

// forgetResize forgets the resize of the name that nobody uses for longest.
func (o *naive) forgetResize() bool {
	oldest, found := "", false
	o.work += len(o.resizes)
	for name, r := range o.resizes {
		if !o.inUse(name) && (!found || r.at < o.resizes[oldest].at) {
			oldest, found = name, true
		}
	}
	delete(o.resizes, oldest)
	return found
}

// agrees says whether a request may use a name with its limit and weight. It then has the limit
// that is in force.
func (o *naive) agrees(x *naiveClaim, name string) bool {
	used, r := o.inUse(name), o.resizes[name]
	switch {
	case x.Mode == Permit && (x.Limit == r.former || x.Limit == r.limit):
		x.Limit = r.limit
		return x.Weight <= r.limit
	case used:
		return x.Limit == o.limit(name)
	}
	return true
}

// sift withdraws the waiters of a semaphore that became too small for them, and says whether it has
// looked at all.
func (o *naive) sift(name string) bool {
	at, on := o.sifting[name]
	if !on {
		return true
	}
	var heavy []*naiveClaim
	done := true
	for _, c := range o.waiters(name) {
		if cmp.Or(-cmp.Compare(c.Priority, at.priority), cmp.Compare(c.arrived, at.index)) <= 0 {
			continue
		}
		if o.left <= 0 {
			done = false
			break
		}
		at.priority, at.index = c.Priority, c.arrived
		o.charge(1)
		if c.Weight > o.limit(name) {
			o.charge(16)
			heavy = append(heavy, c)
		}
	}
	for _, c := range heavy {
		if !o.ended(c.s) {
			c.s.finish(c.Request)
		}
		o.remove(c, ending{kind: EventWithdrawn, reason: ReasonResized})
	}
	if o.sifting[name] = at; done {
		delete(o.sifting, name)
	}
	return done
}

// resize draws a resize, mostly of the name that is a semaphore.
func (w *world) resize() Command {
	return Resize{
		rapid.SampledFrom([]string{"p", "p", "p", "x"}).Draw(w.T, "resized"),
		uint32(w.draw("limit", 4)), rapid.SampledFrom([]uint64{1, w.o.resized, w.o.number, w.o.number, w.o.number + 1}).Draw(w.T, "seen"),
	}
}
