package fsm

import (
	"cmp"
	"slices"
	"time"
)

func (o *naive) doLock(c Command) Outcome {
	switch c := c.(type) {
	case Acquire:
		return o.acquire(c)
	case Withdraw:
		return o.withdraw(c)
	case Release:
		return o.release(c)
	case SetValue:
		return o.setValue(c)
	case Ask:
		for _, x := range o.holders(c.Name) {
			if x.token != c.Token || o.gone(x) {
				continue
			}
			if x.asked == "" {
				if o.valueBytes()+len(c.Reason) > int(o.limits.values) {
					return Outcome{Code: CodeValuesFull}
				}
				x.asked = c.Reason
				o.tell(x, x.Name, EventWanted, ReasonNone)
				o.events[len(o.events)-1].Detail = c.Reason
			}
			return Outcome{}
		}
		return Outcome{Code: CodeStaleToken}
	case Resize:
		return o.resize(c)
	case SetQuota:
		return o.setQuota(c)
	case Act:
		if c.Kind == 0 {
			return Outcome{Code: CodeInvalid}
		}
		o.say(Event{Kind: EventAct, Act: c.Kind, Session: SessionID{Node: c.Node}, Name: c.Name, Token: c.Token, Detail: c.Reason, By: c.By.Node})
		return Outcome{}
	case ForceRelease:
		for _, x := range o.holders(c.Name) {
			if x.token == c.Token && !o.gone(x) {
				x.s.finish(x.Request)
				o.finish(x, EventForced, ReasonForced, 0)
				for i, e := range o.events {
					if e.Kind == EventForced {
						o.events[i].Detail = c.Reason
					}
				}
				for i, p := range o.past {
					if p.Ended == o.number {
						o.past[i].Detail = c.Reason
					}
				}
				return Outcome{}
			}
		}
		return Outcome{Code: CodeStaleToken}
	default:
		return o.doOnceOrRest(c)
	}
}

// of are the claims of a lock in the order of arrival.
func (o *naive) of(name string) (claims []*naiveClaim) {
	for _, c := range o.claims {
		if slices.Contains(c.names(), name) {
			claims = append(claims, c)
		}
	}
	return claims
}

func (o *naive) holders(name string) []*naiveClaim {
	held := slices.DeleteFunc(o.of(name), func(c *naiveClaim) bool { return c.token == 0 })
	slices.SortFunc(held, func(a, b *naiveClaim) int { return cmp.Compare(a.token, b.token) })
	return held
}

func (o *naive) waiters(name string) []*naiveClaim {
	waiting := slices.DeleteFunc(o.of(name), func(c *naiveClaim) bool { return c.token != 0 })
	slices.SortStableFunc(waiting, func(a, b *naiveClaim) int {
		return cmp.Or(-cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.arrived, b.arrived))
	})
	return waiting
}

func (o *naive) claim(s *naiveSession, request uint64) *naiveClaim {
	for _, c := range o.claims {
		if c.s == s && c.Request == request {
			return c
		}
	}
	return nil
}

// names are all that a claim is for.
func (c *naiveClaim) names() []string { return append([]string{c.Name}, c.Others...) }

// fits says whether a claim fits beside the holders and rests of each of its names.
func (o *naive) fits(c *naiveClaim) bool {
	for _, name := range c.names() {
		sum := c.Weight
		if o.full(name) {
			return false
		}
		for _, h := range o.holders(name) {
			if h.Mode != c.Mode || c.Mode == Exclusive {
				return false
			}
			sum += h.Weight
		}
		for _, r := range o.restsOf(name) {
			if r.Mode != c.Mode || c.Mode == Exclusive {
				return false
			}
			sum += r.weight
		}
		if c.Mode == Permit && sum > cmp.Or(o.limit(name), c.Limit) {
			return false
		}
	}
	return true
}

func (o *naive) acquire(c Acquire) Outcome {
	if c.Mode == Permit && c.Weight > c.Limit || o.maxTTL > 0 && c.TTL > o.maxTTL {
		return Outcome{Code: CodeInvalid}
	}
	if !o.serving {
		return Outcome{Code: CodeNotServing}
	}
	c.Weight = max(c.Weight, 1)
	s, refusal := o.open(c)
	if s == nil {
		return refusal
	}
	o.ack(s, c.Acked)
	if s.finished(c.Request) {
		return Outcome{Code: CodeFinished}
	}
	if x := o.claim(s, c.Request); x != nil {
		if x.Name != c.Name {
			return Outcome{Code: CodeInvalid}
		}
		return answer(x)
	}
	if !o.room(s, c.Request) {
		return Outcome{Code: CodeTooManyRequests}
	}
	x := &naiveClaim{Acquire: c, s: s, arrived: o.number, index: o.number}
	taken, out := o.refuse(x)
	if out.Code != CodeOK {
		s.finish(c.Request)
		return out
	}
	x.queued = taken != ""
	for _, name := range x.names() {
		if r, ok := o.resizes[name]; ok && !o.inUse(name) && r.limit != x.Limit {
			delete(o.resizes, name)
		}
	}
	o.claims = append(o.claims, x)
	if taken != "" {
		o.work += 16 * len(x.names())
		for _, name := range x.names() {
			o.tell(x, name, EventQueued, ReasonNone)
			o.want(name)
		}
		o.settle(taken)
	} else {
		o.settle(c.Name)
	}
	return answer(x)
}

// refuse answers a request that is not to be granted or queued, and says which of its names is
// taken.
func (o *naive) refuse(x *naiveClaim) (taken string, out Outcome) {
	if k, done := o.keys[x.Name]; done {
		return "", Outcome{Code: CodeDone, Token: k.Token, Holder: &k.Holder}
	}
	if isOnce(x.Name) && !o.used(x.Name) && len(o.keys) >= o.limits.keys {
		return "", Outcome{Code: CodeTooManyKeys}
	}
	for _, name := range x.names() {
		if !o.agrees(x, name) {
			return "", Outcome{Code: CodeLimitMismatch}
		}
		one := *x
		one.Name, one.Others = name, nil
		waited, fits := len(o.waiters(name)) > 0, o.fits(&one)
		if !waited && !fits && o.fitsWithoutBound(&one) {
			return "", Outcome{Code: CodeTooManyHolders}
		}
		if taken == "" && (waited || !fits) {
			taken = name
		}
	}
	if taken != "" && !x.Wait {
		out := Outcome{Code: CodeHeld, Waiters: len(o.waiters(taken))}
		if held := o.holders(taken); len(held) > 0 {
			o.want(taken)
			holder := o.view(held[0])
			out.Holder = &holder
		}
		return taken, out
	}
	if taken != "" && x.Refuse && o.deadlocked(x) {
		return taken, Outcome{Code: CodeDeadlock}
	}
	if code := o.exceeded(x, taken == ""); code != CodeOK {
		return taken, Outcome{Code: code}
	}
	if over := o.overQuota(x, taken == ""); over != nil {
		return taken, Outcome{Code: CodeOverQuota, Over: over}
	}
	return taken, Outcome{}
}

// limit is that of the permits of a lock, 0 if there are none.
func (o *naive) limit(name string) (limit uint32) {
	if r, ok := o.resizes[name]; ok && o.inUse(name) {
		return r.limit
	}
	for _, x := range o.of(name) {
		limit = max(limit, x.Limit)
	}
	for _, r := range o.restsOf(name) {
		limit = max(limit, r.limit)
	}
	return limit
}

func answer(c *naiveClaim) Outcome {
	if c.token == 0 {
		return Outcome{Code: CodeQueued}
	}
	return Outcome{Code: CodeGranted, Token: c.token}
}

// settle serves the waiters of a lock, then those of the other locks of sets that were granted, the
// last first.
func (o *naive) settle(name string) {
	for stack := []string{name}; len(stack) > 0; {
		name := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		for _, c := range o.serve(name) {
			for _, other := range c.names() {
				if other != name {
					stack = append(stack, other)
				}
			}
		}
		if len(o.waiters(name)) > 0 {
			o.want(name)
		}
	}
}

// serve grants to the first waiter for as long as it is first everywhere and fits, or sends it away
// if its key is finished.
func (o *naive) serve(name string) (granted []*naiveClaim) {
	if !o.sift(name) {
		return nil
	}
	delete(o.unsettled, name)
	for waiting := o.waiters(name); len(waiting) > 0; waiting = o.waiters(name) {
		c := waiting[0]
		_, done := o.keys[name]
		if c.queued && len(c.Others) > 0 {
			o.work += len(c.names())
		}
		if !done && !o.servable(c) {
			break
		}
		if o.left <= 0 {
			o.unsettled[name] = true
			break
		}
		o.charge(16 * len(c.names()))
		if done {
			if !o.ended(c.s) {
				c.s.finish(c.Request)
			}
			o.remove(c, ending{kind: EventWithdrawn, reason: ReasonFinished})
			continue
		}
		o.counter++
		c.token, c.index = o.counter, o.number
		for _, n := range c.names() {
			o.last[n], c.Limit = c.token, o.limit(n)
			o.tell(c, n, EventGranted, ReasonNone)
			o.events[len(o.events)-1].Waited = c.queued
			if c.HasValue && n == c.Name {
				o.write(c, n, c.Value)
			}
		}
		granted = append(granted, c)
	}
	return granted
}

func (o *naive) servable(c *naiveClaim) bool {
	for _, other := range c.names() {
		if o.waiters(other)[0] != c {
			return false
		}
	}
	return o.fits(c) && !o.gone(c)
}

// want tells each holder once that somebody wants the lock.
func (o *naive) want(name string) {
	if o.unsettled[name] {
		return
	}
	for _, h := range o.holders(name) {
		if !slices.Contains(h.told, name) {
			if h.Mode != Exclusive && o.left <= 0 {
				if len(o.waiters(name)) > 0 {
					o.unsettled[name] = true
				}
				return
			}
			o.charge(1)
			h.told = append(h.told, name)
			o.tell(h, name, EventWanted, ReasonNone)
		}
	}
}

func (o *naive) wanted(name string) bool {
	holders := o.holders(name)
	untold := func(h *naiveClaim) bool { return !slices.Contains(h.told, name) }
	return !slices.ContainsFunc(holders, untold) && len(holders)+len(o.waiters(name)) > 0
}

func (o *naive) write(c *naiveClaim, name string, value []byte) {
	delete(o.values, name)
	delete(o.writers, name)
	if value != nil {
		o.values[name] = string(value)
		if o.level >= 2 {
			o.writers[name] = c.Session.Node
		}
	}
	o.tell(c, name, EventValueSet, ReasonNone)
	o.events[len(o.events)-1].Value = value
}

// finish removes a claim and serves others.
func (o *naive) finish(c *naiveClaim, kind EventKind, reason Reason, rest time.Duration) {
	o.work += 16 * len(c.names())
	o.remove(c, ending{kind: kind, reason: reason, rest: uint64(rest / time.Millisecond)})
	for _, name := range c.names() {
		o.settle(name)
	}
}

func (o *naive) remove(c *naiveClaim, how ending) {
	rest := time.Duration(how.rest) * time.Millisecond
	o.claims = slices.DeleteFunc(o.claims, func(x *naiveClaim) bool { return x == c })
	for _, name := range c.names() {
		o.tell(c, name, how.kind, how.reason)
		o.events[len(o.events)-1].Detail = how.detail
		if c.token != 0 && !isOnce(name) {
			h := o.view(c)
			h.Request, h.Terms = 0, Terms{Label: c.Label, Mode: c.Mode, Weight: c.Weight}
			o.past = append(o.past, naivePast{name, PastGrant{h, o.number, how.kind, how.reason, how.detail}})
			o.boundPast()
		}
		if rest > 0 {
			r := Rest{name, c.token, o.number, rest, c.Mode}
			o.rests = append(o.rests, naiveRest{r, c.Weight, c.Limit})
			slices.SortStableFunc(o.rests, func(a, b naiveRest) int { return cmp.Compare(a.Token, b.Token) })
			o.say(Event{Kind: EventResting, Name: name, Token: c.token, TTL: rest, Terms: Terms{Mode: c.Mode, Weight: c.Weight}})
		}
	}
}

func (o *naive) tell(c *naiveClaim, name string, kind EventKind, reason Reason) {
	h := o.view(c)
	o.say(Event{
		Kind: kind, Name: name, Reason: reason, Session: h.Session, Request: h.Request, Token: h.Token,
		NodeName: h.NodeName, Terms: h.Terms,
	})
}

func (o *naive) view(c *naiveClaim) Holder {
	return Holder{
		Session: c.Session, Request: c.Request, NodeName: o.run(c.Session.Process()).name, Terms: c.Terms,
		Token: c.token, Granted: c.index,
	}
}

func (o *naive) withdraw(c Withdraw) Outcome {
	s := o.session(c.Session)
	if s == nil {
		return Outcome{Code: cmp.Or(o.retire(c.Session), CodeSessionLost)}
	}
	o.ack(s, c.Acked)
	out := Outcome{}
	for _, r := range c.Requests {
		x := o.claim(s, r)
		switch {
		case x == nil && !s.finished(r) && !o.room(s, r):
			out.Code = CodeTooManyRequests
			continue
		case x == nil:
			s.finish(r)
			continue
		}
		s.finish(r)
		kind := EventReleased
		if x.token == 0 {
			kind = EventWithdrawn
		}
		o.finish(x, kind, ReasonWithdrawn, 0)
	}
	return out
}

func (o *naive) holding(s *naiveSession, name string, token uint64) *naiveClaim {
	for _, h := range o.holders(name) {
		if h.s == s && h.token == token {
			return h
		}
	}
	return nil
}

func (o *naive) release(c Release) Outcome {
	s := o.session(c.Session)
	if s == nil {
		return Outcome{Code: CodeNotHeld}
	}
	o.ack(s, c.Acked)
	var out Outcome
	for _, g := range c.Grants {
		x := o.holding(s, g.Name, g.Token)
		if x == nil {
			out.Code = CodeNotHeld
			continue
		}
		s.finish(x.Request)
		o.finish(x, EventReleased, ReasonReleased, c.Rest)
	}
	if c.Close {
		o.endSession(s, ending{reason: ReasonClosed}, o.number)
		o.carryOut(o.number)
	}
	return out
}

func (o *naive) setValue(c SetValue) Outcome {
	if !o.serving {
		return Outcome{Code: CodeNotServing}
	}
	s := o.session(c.Session)
	if s == nil {
		return Outcome{Code: CodeSessionLost}
	}
	o.ack(s, c.Acked)
	if s.finished(c.Request) {
		return Outcome{Code: CodeFinished}
	}
	if o.claim(s, c.Request) != nil {
		return Outcome{Code: CodeInvalid}
	}
	if !o.room(s, c.Request) {
		return Outcome{Code: CodeTooManyRequests}
	}
	x := o.holding(s, c.Name, c.Token)
	if x == nil {
		return Outcome{Code: CodeStaleToken}
	}
	if grows := len(c.Value) - len(o.values[c.Name]); grows > 0 && o.valueBytes()+grows > int(o.limits.values) {
		return Outcome{Code: CodeValuesFull}
	}
	if over := o.overValue(c.Session.Node, c.Name, c.Value, true); over != nil {
		return Outcome{Code: CodeOverQuota, Over: over}
	}
	s.finish(c.Request)
	o.write(x, c.Name, c.Value)
	return Outcome{}
}
