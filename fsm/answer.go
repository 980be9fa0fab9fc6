package fsm

// Answer answers a question. It changes nothing, and depends on nothing but the state and the
// question.
func (m *Machine) Answer(q Question) Answer { return q.answer(m) }

// GroupState is the state in numbers: the answer to QueryGroup.
type GroupState struct{ Info }

// NameState is the short state of a name: the answer to QueryName.
type NameState struct {
	At       uint64  // number of the last command in the state
	Head     *Head   // nil: no holder
	InUse    bool    // the name has a holder, a waiter or a rest
	Limit    uint32  // of the semaphore that it is in use as, 0: as a lock
	Finished *Holder // of a Once key: the run that finished it, as long as that is remembered

	// Of the grant with the token of the question.
	Current bool       // it is one now
	End     *PastGrant // how it ended, as far as that is remembered; nil while it is current
}

// ClaimsState is the state of requests: the answer to QueryClaims, in its order.
type ClaimsState struct {
	At       uint64 // number of the last command in the state
	Sessions []SessionState
}

// SessionState is the state of a session and of some of its requests.
type SessionState struct {
	Ended  bool // or can never be opened
	Claims []ClaimState
}

// ClaimState is the state of a request and of its grant.
type ClaimState struct {
	State  RequestState
	Token  uint64     // of RequestGranted
	Wanted bool       // it holds a lock, and has been told that the lock is wanted
	Asked  string     // why it is asked to let go, "" if it is not
	End    *PastGrant // how the grant ended, as far as that is remembered; nil while the request is granted
}

// State implements Answer.
func (a GroupState) State() uint64 { return a.Commands }

// State implements Answer.
func (a NameState) State() uint64 { return a.At }

// State implements Answer.
func (a LocksPage) State() uint64 { return a.At }

// State implements Answer.
func (a ClaimsState) State() uint64 { return a.At }

// Read implements Asks.
func (QueryGroup) Read(a Answer) (GroupState, bool) { return its[GroupState](a) }

// Read implements Asks.
func (QueryName) Read(a Answer) (NameState, bool) { return its[NameState](a) }

// Read implements Asks.
func (QueryLocks) Read(a Answer) (LocksPage, bool) { return its[LocksPage](a) }

// Read implements Asks.
func (QueryClaims) Read(a Answer) (ClaimsState, bool) { return its[ClaimsState](a) }

func its[A Answer](a Answer) (A, bool) {
	same, ok := a.(A)
	return same, ok
}

func (QueryGroup) answer(m *Machine) Answer { return GroupState{m.Info()} }

func (q QueryName) answer(m *Machine) Answer {
	a := NameState{At: m.commands}
	a.Limit, a.InUse = m.InUse(q.Name)
	if head, held := m.Head(q.Name); held {
		a.Head = &head
	}
	if key, once := OnceKey(q.Name); once {
		if by, finished := m.Key(key); finished {
			a.Finished = &by
		}
	}
	if q.Token == 0 {
		return a
	}
	if a.Current = m.Granted(q.Name, q.Token); !a.Current {
		a.End = m.howEnded(Grant(q))
	}
	return a
}

// howEnded is how a grant ended, nil if it has not, or that is not remembered.
func (m *Machine) howEnded(g Grant) *PastGrant {
	if end, known := m.EndOf(g.Name, g.Token); known {
		return &end
	}
	return nil
}

func (q QueryClaims) answer(m *Machine) Answer {
	a := ClaimsState{At: m.commands, Sessions: make([]SessionState, len(q.Sessions))}
	for i, of := range q.Sessions {
		id := SessionID{q.Process.Node, q.Process.Incarnation, of.Number}
		s := SessionState{Ended: m.SessionEnded(id), Claims: make([]ClaimState, len(of.Claims))}
		for j, c := range of.Claims {
			s.Claims[j] = m.claimState(id, c)
		}
		a.Sessions[i] = s
	}
	return a
}

func (m *Machine) claimState(id SessionID, of ClaimQuery) (c ClaimState) {
	c.State, c.Token = m.Request(id, of.Request)
	if c.State == RequestGranted {
		c.Wanted, c.Asked = m.Wanted(id, of.Request), m.Asked(id, of.Request)
	} else if of.Grant.Token != 0 {
		c.End = m.howEnded(of.Grant)
	}
	return c
}
