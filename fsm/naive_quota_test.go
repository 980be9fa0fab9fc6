package fsm

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"pgregory.net/rapid"
)

// setQuota keeps the quotas in a list, those of nodes first.
func (o *naive) setQuota(c SetQuota) Outcome {
	if c.Seen == 0 || c.Seen >= o.number || c.Reason == "" || c.Prefix != "" && (c.Node != Node{} || c.Sessions > 0) {
		return Outcome{Code: CodeInvalid}
	}
	at := slices.IndexFunc(o.quotas, func(q Quota) bool { return q.Node == c.Node && q.Prefix == c.Prefix })
	none := c.Locks == 0 && c.Waiters == 0 && c.Sessions == 0 && c.Value == 0 && c.Bytes == 0
	same := at < 0 && none || at >= 0 && o.quotas[at] == c.Quota
	if c.Seen < o.limited {
		if same {
			return Outcome{}
		}
		return Outcome{Code: CodeFinished}
	}
	o.limited = o.number
	switch {
	case same:
		return Outcome{}
	case none:
		o.quotas = slices.Delete(o.quotas, at, at+1)
	case at >= 0:
		o.quotas[at] = c.Quota
	case len(o.quotas) >= o.limits.quotas:
		return Outcome{Code: CodeTooManyQuotas}
	default:
		o.quotas = append(o.quotas, c.Quota)
		slices.SortFunc(o.quotas, func(a, b Quota) int {
			return cmp.Or(strings.Compare(a.Prefix, b.Prefix), strings.Compare(string(a.Node[:]), string(b.Node[:])))
		})
	}
	o.say(Event{Kind: EventQuota, Session: SessionID{Node: c.Node}, Name: c.Prefix, Detail: c.Reason})
	return Outcome{}
}

// quotaOf is the quota of a node, or else that of each, or else none.
func (o *naive) quotaOf(id Node) (of Quota) {
	for _, q := range o.quotas {
		if q.Prefix == "" && (q.Node == Node{} || q.Node == id) { // in this order
			of = q
		}
	}
	return of
}

func (o *naive) useOf(id Node) (u QuotaUse) {
	for _, c := range o.claims {
		if c.Session.Node != id {
			continue
		}
		u.Locks += len(c.names())
		if c.token == 0 {
			u.Waiters += len(c.names())
			u.Bytes += whole(len(c.Value))
		}
	}
	for name, v := range o.values {
		if o.writers[name] == id && id != (Node{}) {
			u.Bytes += whole(len(v))
		}
	}
	for _, s := range o.sessions {
		if s.ID.Node == id {
			u.Sessions++
		}
	}
	return u
}

func (o *naive) useUnder(prefix string) (u QuotaUse) {
	for _, name := range names() {
		if strings.HasPrefix(name, prefix) && o.used(name) {
			u.Locks++
			u.Waiters += len(o.waiters(name))
			u.Bytes += whole(len(o.values[name]))
			for _, c := range o.waiters(name) {
				if c.Name == name {
					u.Bytes += whole(len(c.Value))
				}
			}
		}
	}
	return u
}

func (o *naive) quotaStates() (all []QuotaState) {
	for _, q := range o.quotas {
		s := QuotaState{Quota: q}
		switch {
		case q.Prefix != "":
			s.Use = o.useUnder(q.Prefix)
		case q.Node != Node{}:
			s.Use = o.useOf(q.Node)
		}
		all = append(all, s)
	}
	return all
}

// long is a value of two blocks.
var long = bytes.Repeat([]byte("v"), 1500)

// whole is how many bytes a value takes of a quota.
func whole(bytes int) int { return (bytes + 1023) &^ 1023 }

// above says whether a number is above a limit that is one.
func above(n int, limit uint32) bool { return limit != 0 && n > int(limit) }

func (o *naive) overSessions(id Node) *Over {
	if q := o.quotaOf(id); above(o.useOf(id).Sessions+1, q.Sessions) {
		return &Over{Node: id, What: QuotaSessions, Limit: q.Sessions}
	}
	return nil
}

func (o *naive) overQuota(x *naiveClaim, free bool) *Over {
	id := x.Session.Node
	n, q, u := len(x.names()), o.quotaOf(id), o.useOf(id)
	if above(u.Locks+n, q.Locks) {
		return &Over{Node: id, What: QuotaLocks, Limit: q.Locks}
	}
	if !free && above(u.Waiters+n, q.Waiters) {
		return &Over{Node: id, What: QuotaWaiters, Limit: q.Waiters}
	}
	for _, q := range o.quotas {
		claims, fresh := 0, 0
		for _, name := range x.names() {
			if q.Prefix != "" && strings.HasPrefix(name, q.Prefix) {
				claims++
				if !o.used(name) {
					fresh++
				}
			}
		}
		u := o.useUnder(q.Prefix)
		if fresh > 0 && above(u.Locks+fresh, q.Locks) {
			return &Over{Prefix: q.Prefix, What: QuotaLocks, Limit: q.Locks}
		}
		if claims > 0 && !free && above(u.Waiters+claims, q.Waiters) {
			return &Over{Prefix: q.Prefix, What: QuotaWaiters, Limit: q.Waiters}
		}
	}
	return o.overValue(id, x.Name, x.Value, free && x.HasValue)
}

// overValue replaces the value of a lock at once, or later.
func (o *naive) overValue(id Node, name string, value []byte, now bool) *Over {
	if len(value) == 0 {
		return nil
	}
	was := 0
	if now {
		was = whole(len(o.values[name]))
	}
	q, own := o.quotaOf(id), was
	if o.writers[name] != id {
		own = 0
	}
	if above(len(value), q.Value) {
		return &Over{Node: id, What: QuotaValue, Limit: q.Value}
	}
	if n := whole(len(value)) - own; n > 0 && above(o.useOf(id).Bytes+n, q.Bytes) {
		return &Over{Node: id, What: QuotaBytes, Limit: q.Bytes}
	}
	for _, q := range o.quotas {
		if q.Prefix == "" || !strings.HasPrefix(name, q.Prefix) {
			continue
		}
		if above(len(value), q.Value) {
			return &Over{Prefix: q.Prefix, What: QuotaValue, Limit: q.Value}
		}
		if n := whole(len(value)) - was; n > 0 && above(o.useUnder(q.Prefix).Bytes+n, q.Bytes) {
			return &Over{Prefix: q.Prefix, What: QuotaBytes, Limit: q.Bytes}
		}
	}
	return nil
}

// setQuota draws a quota of a node, of each, or of a prefix, mostly so small that a few commands reach it.
func (w *world) setQuota() Command {
	c := SetQuota{Reason: "it leaks", Seen: rapid.SampledFrom([]uint64{1, w.o.limited, w.o.number, w.o.number, w.o.number + 1}).Draw(w.T, "seen")}
	if c.Prefix = rapid.SampledFrom([]string{"", "", "x", "x", "xx", "p"}).Draw(w.T, "prefix"); c.Prefix == "" {
		c.Node = rapid.SampledFrom([]Node{{}, {'a'}, {'b'}, client}).Draw(w.T, "of")
		c.Sessions = uint32(w.draw("sessions", 4) - 1)
	}
	c.Locks, c.Waiters, c.Value = uint32(w.draw("locks", 5)-1), uint32(w.draw("waiters", 4)-1), uint32(w.draw("bytes", 3)-1)
	c.Bytes = uint32(w.draw("all bytes", 5)-1) * 1000
	return c
}
