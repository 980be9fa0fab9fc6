package fsm

import "google.golang.org/protobuf/encoding/protowire"

// The fields of each question and answer, as fsm.proto says. Numbers are never reused.

func (q *QueryGroup) fields(*codec) {}

func (q *QueryName) fields(f *codec) {
	f.text(1, &q.Name)
	f.uint(2, &q.Token)
}

func (q *QueryLocks) fields(f *codec) {
	f.text(1, &q.Name)
	f.bool(2, &q.Exact)
	narrow(f, 3, &q.Parts)
	if !f.writes || q.After != (Bookmark{}) {
		nested(f, 4, &q.After, (*Bookmark).fields)
	}
}

func (m *Bookmark) fields(f *codec) {
	f.text(1, &m.Lock)
	f.bool(2, &m.Within)
	f.uint(3, &m.Token)
	f.signed(4, &m.Priority)
	f.uint(5, &m.Arrived)
}

func (q *QueryClaims) fields(f *codec) {
	f.node(1, &q.Process.Node)
	f.uint(2, &q.Process.Incarnation)
	messages(f, 3, &q.Sessions, (*SessionClaims).fields)
}

func (s *SessionClaims) fields(f *codec) {
	f.uint(1, &s.Number)
	messages(f, 2, &s.Claims, (*ClaimQuery).fields)
}

func (c *ClaimQuery) fields(f *codec) {
	f.uint(1, &c.Request)
	f.text(2, &c.Grant.Name)
	f.uint(3, &c.Grant.Token)
}

func (a *GroupState) fields(f *codec) {
	f.id(1, &a.Cluster)
	f.bool(2, &a.Born)
	f.bool(3, &a.Serving)
	f.uint(4, &a.Level)
	f.uint(5, &a.Counter)
	f.uint(6, &a.Applied)
	f.uint(7, &a.Commands)
	narrow(f, 8, &a.Bootstrap)
	narrow(f, 9, &a.Voters)
	for i, n := range []*int{&a.Locks, &a.Grants, &a.Waiters, &a.Sessions, &a.Nodes, &a.Rests, &a.Keys} {
		f.count(protowire.Number(10+i), n)
	}
	bytes := uint64(a.ValueBytes)
	f.uint(17, &bytes)
	a.ValueBytes = int64(bytes)
	f.millis(18, &a.MaxTTL)
	f.millis(19, &a.Wait)
}

func (a *NameState) fields(f *codec) {
	f.uint(1, &a.At)
	optional(f, 2, &a.Head, (*Head).fields)
	f.bool(3, &a.InUse)
	narrow(f, 4, &a.Limit)
	optional(f, 5, &a.Finished, (*Holder).fields)
	f.bool(6, &a.Current)
	optional(f, 7, &a.End, (*PastGrant).fields)
}

func (h *Head) fields(f *codec) {
	nested(f, 1, &h.Holder, (*Holder).fields)
	f.blob(2, &h.Value)
	f.count(3, &h.Waiters)
}

func (g *PastGrant) fields(f *codec) {
	nested(f, 1, &g.Holder, (*Holder).fields)
	f.uint(2, &g.Ended)
	narrow(f, 3, &g.Kind)
	narrow(f, 4, &g.Reason)
	f.text(5, &g.Detail)
}

func (a *LocksPage) fields(f *codec) {
	f.uint(1, &a.At)
	messages(f, 2, &a.Locks, (*LockState).fields)
	optional(f, 3, &a.Next, (*QueryLocks).fields)
}

func (l *LockState) fields(f *codec) {
	f.text(1, &l.Name)
	narrow(f, 2, &l.Mode)
	narrow(f, 3, &l.Limit)
	messages(f, 4, &l.Holders, (*Holder).fields)
	messages(f, 5, &l.Waiters, (*Holder).fields)
	f.blob(6, &l.Value)
	f.uint(7, &l.LastToken)
	f.bool(8, &l.Wanted)
	messages(f, 9, &l.Rests, (*Rest).view)
	f.bool(10, &l.More)
	messages(f, 11, &l.Past, (*PastGrant).fields)
	messages(f, 12, &l.Sessions, (*Session).fields)
	messages(f, 13, &l.Cycles, cycleFields)
	narrow(f, 14, &l.Former)
}

// view are the fields of a rest as an answer has it.
func (r *Rest) view(f *codec) {
	f.text(1, &r.Name)
	f.uint(2, &r.Token)
	f.uint(3, &r.Since)
	f.millis(4, &r.For)
	narrow(f, 5, &r.Mode)
}

func (s *Session) fields(f *codec) {
	f.session(1, &s.ID)
	f.millis(2, &s.TTL)
	f.uint(3, &s.Renewed)
}

func cycleFields(waits *[]Wait, f *codec) { messages(f, 1, waits, (*Wait).fields) }

func (w *Wait) fields(f *codec) {
	nested(f, 1, &w.Holder, (*Holder).fields)
	f.text(2, &w.Name)
}

func (a *ClaimsState) fields(f *codec) {
	f.uint(1, &a.At)
	messages(f, 2, &a.Sessions, (*SessionState).fields)
}

func (s *SessionState) fields(f *codec) {
	f.bool(1, &s.Ended)
	messages(f, 2, &s.Claims, (*ClaimState).fields)
}

func (c *ClaimState) fields(f *codec) {
	narrow(f, 1, &c.State)
	f.uint(2, &c.Token)
	f.bool(3, &c.Wanted)
	f.text(4, &c.Asked)
	optional(f, 5, &c.End, (*PastGrant).fields)
}

// count is a number of things that are there.
func (f *codec) count(n protowire.Number, v *int) {
	narrowed := uint32(*v)
	narrow(f, n, &narrowed)
	*v = int(narrowed)
}

// nested is a message within this one, which is always written.
func nested[T any](f *codec, n protowire.Number, v *T, fields func(*T, *codec)) {
	if !f.at(n) {
		return
	}
	outer := f.open(n)
	for f.more() {
		fields(v, f)
	}
	f.close(outer)
}

// optional is nested where presence counts.
func optional[T any](f *codec, n protowire.Number, v **T, fields func(*T, *codec)) {
	switch {
	case f.writes && *v == nil, !f.at(n):
		return
	case !f.writes:
		*v = new(T)
	}
	nested(f, n, *v, fields)
}

// messages is nested for each element.
func messages[T any](f *codec, n protowire.Number, v *[]T, fields func(*T, *codec)) {
	for i := range *v {
		if f.writes {
			nested(f, n, &(*v)[i], fields)
		}
	}
	for !f.writes && f.number == n {
		var one T
		nested(f, n, &one, fields)
		*v = append(*v, one)
	}
}

func (q *QueryKeys) fields(f *codec) {
	f.text(1, &q.Prefix)
	f.text(2, &q.After)
}

func (a *KeysPage) fields(f *codec) {
	f.uint(1, &a.At)
	messages(f, 2, &a.Keys, (*KeyState).fields)
	optional(f, 3, &a.Next, (*QueryKeys).fields)
}

func (s *KeyState) fields(f *codec) {
	f.text(1, &s.Key)
	nested(f, 2, &s.By, (*Holder).fields)
	f.bool(3, &s.Finished)
}

func (q *QuerySessions) fields(f *codec) { f.session(1, &q.After) }

func (a *SessionsPage) fields(f *codec) {
	f.uint(1, &a.At)
	messages(f, 2, &a.Sessions, (*SessionLoad).fields)
	optional(f, 3, &a.Next, (*QuerySessions).fields)
}

func (s *SessionLoad) fields(f *codec) {
	nested(f, 1, &s.Session, (*Session).fields)
	f.text(2, &s.NodeName)
	f.count(3, &s.Grants)
	f.count(4, &s.Waiters)
}

func (q *QueryQuotas) fields(*codec) {}

func (a *QuotasState) fields(f *codec) {
	f.uint(1, &a.At)
	messages(f, 2, &a.Quotas, (*QuotaState).fields)
}

func (s *QuotaState) fields(f *codec) {
	s.Quota.fields(f, 1, 12)
	f.count(9, &s.Use.Locks)
	f.count(10, &s.Use.Waiters)
	f.count(11, &s.Use.Sessions)
	f.count(13, &s.Use.Bytes)
}
