package fsm

import "slices"

// The fields of each record of a snapshot, as fsm.proto says. Numbers are never reused.

func (g *group) fields(f *codec) {
	f.id(1, &g.cluster)
	f.bool(2, &g.born)
	f.bool(3, &g.serving)
	f.uint(4, &g.level)
	f.uint(5, &g.counter)
	f.uint(6, &g.applied)
	narrow(f, 7, &g.bootstrap)
	narrow(f, 8, &g.voters)
	f.uint(9, &g.silentSeen)
	f.uint(10, &g.commands)
	f.uint(11, &g.stepped)
	f.millis(12, &g.maxTTL)
	f.millis(13, &g.holdoff)
	f.uint(14, &g.evicted)
	f.uint(15, &g.resized)
	f.uint(16, &g.limited)
}

func (n *node) fields(f *codec) {
	f.node(1, &n.id)
	f.uint(2, &n.incarnation)
	f.text(3, &n.name)
	f.uint(4, &n.born)
	f.uint(5, &n.lowest)
	f.uint(6, &n.gone)
	f.bool(7, &n.over)
	narrow(f, 8, &n.departure)
	n.place.fields(f, 9)
	f.uint(12, &n.since)
	f.bool(13, &n.back)
	f.uint(14, &n.ended)
	f.uint(15, &n.withdrawn)
	f.uint(16, &n.level)
	f.bool(17, &n.client)
	f.bool(18, &n.returned)
}

// fields has the length of a span, less one, in the place of its end.
func (s *span) fields(f *codec) {
	f.uint(1, &s.owner)
	f.uint(2, &s.low)
	f.uint(3, &s.high)
}

func (s *session) fields(f *codec) {
	f.session(1, &s.id)
	f.uint(2, &s.opened)
	f.millis(3, &s.ttl)
	f.uint(4, &s.renewed)
	f.uint(5, &s.seq)
	f.uint(6, &s.acked)
	f.bool(7, &s.ended)
}

// claimRecord is a lock, which has a name, or a claim of the lock before it.
type claimRecord struct {
	lock   lock
	by     Node // that wrote its value
	sift   sift
	claim  claim
	more   more
	opened uint64 // number of its session's opening
	at, of uint64 // its place in its set, from 1, and how many there are
	asked  string // why it is asked to let go
}

func (c *claim) record() claimRecord {
	r := claimRecord{claim: *c, opened: c.owner.opened}
	if c.more != nil {
		r.more = *c.more
	}
	if !c.alone() {
		all := c.more.set.claims
		r.at, r.of = uint64(slices.Index(all, c)+1), uint64(len(all))
	}
	return r
}

func (r *claimRecord) fields(f *codec) {
	f.text(1, &r.lock.name)
	f.uint(2, &r.lock.last)
	f.uint(3, &r.lock.told)
	f.bool(21, &r.lock.unsettled)
	f.bool(23, &r.sift.on)
	f.signed(24, &r.sift.priority)
	f.uint(25, &r.sift.index)
	f.value(4, &r.lock.value)
	f.uint(5, &r.opened)
	f.uint(6, &r.claim.request)
	f.uint(7, &r.claim.token)
	f.uint(8, &r.claim.index)
	r.claim.Terms.ofClaim(f)
	f.value(14, &r.more.value)
	f.millis(15, &r.claim.Delay)
	f.uint(16, &r.at)
	f.uint(17, &r.of)
	f.uints(18, &r.more.while)
	f.bool(19, &r.more.clear)
	f.text(22, &r.asked)
	f.someNode(26, &r.by)
}

func (r *rest) fields(f *codec) {
	f.text(1, &r.name)
	f.uint(2, &r.token)
	f.uint(3, &r.since)
	f.uint(4, &r.millis)
	narrow(f, 5, &r.mode)
	narrow(f, 6, &r.weight)
	narrow(f, 7, &r.limit)
}

// fields has numbers of its own: a record is a rest, or a resize that has these.
func (r *resize) fields(f *codec) {
	narrow(f, 8, &r.limit)
	narrow(f, 9, &r.former)
	f.uint(10, &r.at)
}

// inRest is the quota among rests and resizes.
func (q *Quota) inRest(f *codec) { q.fields(f, 11, 17) }

func (o *owner) fields(f *codec) {
	f.session(1, &o.id)
	f.uint(2, &o.opened)
	f.text(3, &o.nodeName)
}

func (g *pastGrant) fields(f *codec, name *string, owner *uint64) {
	f.text(1, name)
	f.uint(2, owner)
	f.text(3, &g.Label)
	f.uint(4, &g.token)
	f.uint(5, &g.granted)
	f.uint(6, &g.ended)
	narrow(f, 7, &g.Mode)
	narrow(f, 8, &g.Weight)
	narrow(f, 9, &g.kind)
	narrow(f, 10, &g.reason)
	f.text(11, &g.detail)
}

func (k *class) fields(f *codec, keep *uint64) {
	f.uint(1, keep)
	f.uints(2, &k.turns)
}

func (r *onceRecord) fields(f *codec, key *string, owner *uint64) {
	f.text(1, key)
	f.uint(2, owner)
	f.uint(3, &r.token)
	f.uint(4, &r.index)
	f.uint(5, &r.keep)
}

func (t *teardown) fields(f *codec) {
	f.session(1, &t.id)
	f.uint(2, &t.began)
	f.bool(3, &t.waits)
	f.uint(4, &t.from)
	f.uint(5, &t.upto)
	f.uint(6, &t.number)
	f.uint(7, &t.after)
	narrow(f, 8, &t.how.kind)
	narrow(f, 9, &t.how.reason)
	f.text(10, &t.how.detail)
	f.uint(11, &t.at)
}
