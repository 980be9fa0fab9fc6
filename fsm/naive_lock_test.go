package fsm

import (
	"cmp"
	"slices"
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
	case ForceRelease:
		for _, x := range o.holders(c.Name) {
			if x.token == c.Token {
				x.s.over[x.Request] = true
				o.remove(x, EventForced, ReasonForced)
				o.events[len(o.events)-1].Detail = c.Reason
				o.settle(c.Name)
				return Outcome{}
			}
		}
		return Outcome{Code: CodeStaleToken}
	}
	panic("unknown command")
}

// of are the claims of a lock in the order of arrival.
func (o *naive) of(name string) (claims []*naiveClaim) {
	for _, c := range o.claims {
		if c.Name == name {
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

func (o *naive) fits(c Acquire) bool {
	sum := c.Weight
	for _, h := range o.holders(c.Name) {
		if h.Mode != c.Mode || c.Mode == Exclusive {
			return false
		}
		sum += h.Weight
	}
	return c.Mode != Permit || sum <= c.Limit
}

func (o *naive) acquire(c Acquire) Outcome {
	if c.Mode == Permit && c.Weight > c.Limit {
		return Outcome{Code: CodeInvalid}
	}
	if !o.serving {
		return Outcome{Code: CodeNotServing}
	}
	c.Weight = max(c.Weight, 1)
	s, code := o.open(c)
	if code != CodeOK {
		return Outcome{Code: code}
	}
	s.acked = max(s.acked, c.Acked)
	if c.Request < s.acked || s.over[c.Request] {
		return Outcome{Code: CodeFinished}
	}
	if x := o.claim(s, c.Request); x != nil {
		if x.Name != c.Name {
			return Outcome{Code: CodeInvalid}
		}
		return answer(x)
	}
	for _, x := range o.of(c.Name) {
		if c.Mode == Permit && x.Mode == Permit && x.Limit != c.Limit {
			s.over[c.Request] = true
			return Outcome{Code: CodeLimitMismatch}
		}
	}
	waiters := o.waiters(c.Name)
	free := len(waiters) == 0 && o.fits(c)
	if !free && !c.Wait {
		s.over[c.Request] = true
		o.want(c.Name)
		holder := o.view(o.holders(c.Name)[0])
		return Outcome{Code: CodeHeld, Holder: &holder, Waiters: len(waiters)}
	}
	x := &naiveClaim{Acquire: c, s: s, arrived: o.index, index: o.index, queued: !free}
	o.claims = append(o.claims, x)
	if !free {
		o.tell(x, EventQueued, ReasonNone)
		o.want(c.Name)
	}
	o.settle(c.Name)
	return answer(x)
}

func answer(c *naiveClaim) Outcome {
	if c.token == 0 {
		return Outcome{Code: CodeQueued}
	}
	return Outcome{Code: CodeGranted, Token: c.token}
}

// settle grants to the first waiter for as long as it fits, and tells new holders of the others.
func (o *naive) settle(name string) {
	var fresh []*naiveClaim
	for {
		waiting := o.waiters(name)
		if len(waiting) == 0 || !o.fits(waiting[0].Acquire) {
			break
		}
		c := waiting[0]
		o.counter++
		c.token, c.index = o.counter, o.index
		o.last[name] = c.token
		o.tell(c, EventGranted, ReasonNone)
		o.events[len(o.events)-1].Waited = c.queued
		if c.HasValue {
			o.write(c, c.Value)
		}
		fresh = append(fresh, c)
	}
	if len(o.holders(name)) == 0 {
		o.told[name] = false
	}
	if len(fresh) > 0 {
		o.told[name] = len(o.waiters(name)) > 0
		for _, c := range fresh {
			if o.told[name] {
				o.tell(c, EventWanted, ReasonNone)
			}
		}
	}
}

func (o *naive) want(name string) {
	if !o.told[name] {
		for _, h := range o.holders(name) {
			o.tell(h, EventWanted, ReasonNone)
		}
	}
	o.told[name] = true
}

func (o *naive) write(c *naiveClaim, value []byte) {
	delete(o.values, c.Name)
	if value != nil {
		o.values[c.Name] = string(value)
	}
	o.tell(c, EventValueSet, ReasonNone)
	o.events[len(o.events)-1].Value = value
}

func (o *naive) remove(c *naiveClaim, kind EventKind, reason Reason) {
	o.claims = slices.DeleteFunc(o.claims, func(x *naiveClaim) bool { return x == c })
	o.tell(c, kind, reason)
}

func (o *naive) tell(c *naiveClaim, kind EventKind, reason Reason) {
	h := o.view(c)
	o.say(Event{
		Kind: kind, Name: c.Name, Reason: reason, Session: h.Session, Request: h.Request, Token: h.Token,
		NodeName: h.NodeName, Label: h.Label, Mode: h.Mode, Weight: h.Weight, Priority: h.Priority,
	})
}

func (o *naive) view(c *naiveClaim) Holder {
	return Holder{
		Session: c.Session, Request: c.Request, NodeName: o.nodes[c.Session.Node].name, Label: c.Label,
		Token: c.token, Mode: c.Mode, Weight: c.Weight, Priority: c.Priority, Granted: c.index,
	}
}

func (o *naive) withdraw(c Withdraw) Outcome {
	s := o.session(c.Session)
	if s == nil {
		return Outcome{Code: cmp.Or(o.retire(c.Session), CodeSessionLost)}
	}
	for _, r := range c.Requests {
		x := o.claim(s, r)
		s.over[r] = true
		if x == nil {
			continue
		}
		kind := EventReleased
		if x.token == 0 {
			kind = EventWithdrawn
		}
		o.remove(x, kind, ReasonWithdrawn)
		o.settle(x.Name)
	}
	s.acked = max(s.acked, c.Acked)
	return Outcome{}
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
	var out Outcome
	for _, g := range c.Grants {
		x := o.holding(s, g.Name, g.Token)
		if x == nil {
			out.Code = CodeNotHeld
			continue
		}
		s.over[x.Request] = true
		o.remove(x, EventReleased, ReasonReleased)
		o.settle(g.Name)
	}
	s.acked = max(s.acked, c.Acked)
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
	s.acked = max(s.acked, c.Acked)
	if c.Request < s.acked || s.over[c.Request] {
		return Outcome{Code: CodeFinished}
	}
	if o.claim(s, c.Request) != nil {
		return Outcome{Code: CodeInvalid}
	}
	x := o.holding(s, c.Name, c.Token)
	if x == nil {
		return Outcome{Code: CodeStaleToken}
	}
	s.over[c.Request] = true
	o.write(x, c.Value)
	return Outcome{}
}
