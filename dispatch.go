package holdfast

import (
	"fmt"

	"github.com/holdfast-go/holdfast/fsm"
)

// observer takes what the local replica has applied to whoever is concerned on this node. Its methods run on the
// goroutine that applies: they only note things and wake others.
//
// A replica that begins empty, in a later life of the node, applies the log again, from its beginning or from a snapshot that is
// older than what its predecessor had applied. Who times things begins anew with it; the others, who have been told
// of those commands, are not told again.
type observer struct {
	c       *Cluster
	replica uint64
}

// Applied is called after a batch of commands was applied.
func (o observer) Applied(events []fsm.Event) {
	told, news := o.c.told.Load(), len(events)
	for i := range events {
		e := &events[i]
		o.c.expirer.note(e)
		o.c.elapser.note(e)
		if e.Index <= told {
			continue
		}
		news = min(news, i)
		o.c.pilot.note(e)
		if e.Session.Node == o.c.self.Node && e.Session.Incarnation == o.c.self.Incarnation {
			o.c.keeper.note(e)
		}
	}
	last := events[len(events)-1].Index
	o.c.ages.note(last, o.c.clock.Now())
	if news < len(events) {
		o.c.feed.publish(events[news:])
		o.c.told.Store(last)
	}
}

// Restored is called when the state came as a whole, from a snapshot.
func (o observer) Restored(m *fsm.Machine) {
	o.c.expirer.restore(m)
	o.c.elapser.restore(m)
	o.c.ages.restore(m.Commands(), o.c.clock.Now())
	if m.Commands() > o.c.told.Load() {
		o.c.keeper.restore(m)
		o.c.feed.skipped(m.Commands())
		o.c.told.Store(m.Commands())
	}
}

// LeaderChanged is called when another replica, or none, has become raft leader.
func (o observer) LeaderChanged() {
	o.c.proposer.wake()
	o.c.timekeeper.wake()
	o.c.pilot.wake()
	if g, _ := o.c.proposer.current(); g != nil {
		leader, _, _ := g.RaftLeader()
		o.c.hooks.raftLeader(leader)
	}
}

// Failed is called when the replica has stopped for good. One that is over concerns nobody any more.
func (o observer) Failed(err error) {
	if o.replica != o.c.founder.replica() {
		return
	}
	o.c.fail(dirError(fmt.Errorf("holdfast: the replica has failed: %w", err)))
}

// note takes an event that concerns a session of this process. What a holder or a waiter learns by it, restore
// must be able to tell from a state. A grant that its holder gives back, or that ends with its session, is no
// news of its own.
func (k *keeper) note(e *fsm.Event) {
	switch e.Kind {
	case fsm.EventGranted:
		if !e.Waited {
			return // the call has it from its outcome
		}
	case fsm.EventWithdrawn:
		switch e.Reason {
		case fsm.ReasonFinished, fsm.ReasonWithdrawn, fsm.ReasonSuperseded, fsm.ReasonRemoved:
		default: // with its session
			return
		}
	case fsm.EventSessionEnded, fsm.EventForced, fsm.EventWanted:
	default:
		return
	}
	s := k.get(e.Session.Number)
	if s == nil {
		return
	}
	switch e.Kind {
	case fsm.EventGranted:
		s.granted(e.Request, e.Token)
	case fsm.EventWithdrawn:
		k.revoke(s, e.Request, nil)
	case fsm.EventSessionEnded:
		k.judge(s, endCause(e.Reason, e.Detail))
	case fsm.EventForced:
		k.revoke(s, e.Request, forced(e.Detail))
	case fsm.EventWanted:
		s.wanted(e.Request)
	}
}

func forced(detail string) error { return fmt.Errorf("%w: %s", ErrForced, detail) }

func endCause(r fsm.Reason, detail string) error {
	switch r {
	case fsm.ReasonClosed, fsm.ReasonAbandoned:
		return ErrReleased
	case fsm.ReasonIncarnation:
		return fmt.Errorf("holdfast: a later process of this node has taken its data directory over: %w", ErrExpired)
	case fsm.ReasonRevoked:
		return forced(detail)
	}
	return ErrExpired
}

// judge ends a session that the group has ended: its validity now, its leases soon.
func (k *keeper) judge(s *session, cause error) {
	s.judge(cause)
	k.mu.Lock()
	k.verdicts = append(k.verdicts, s)
	k.mu.Unlock()
	k.wake()
}

// revoke ends one request that the group has ended: its lease, or the waiting of its call.
func (k *keeper) revoke(s *session, request uint64, cause error) {
	err := lost(cause)
	l := s.revoked(request, err)
	if l == nil {
		return
	}
	l.over.Store(true)
	k.mu.Lock()
	k.ended = append(k.ended, ending{l, err})
	k.mu.Unlock()
	k.wake()
}

// tellEnded ends the leases of what the group has ended since the last call.
func (k *keeper) tellEnded() {
	k.mu.Lock()
	verdicts, ended := k.verdicts, k.ended
	k.verdicts, k.ended = nil, nil
	k.mu.Unlock()
	for _, e := range ended { // before what ended with its session, perhaps later
		e.lease.end(e.err)
	}
	for _, s := range verdicts {
		k.lose(s, ErrExpired)
		k.forget(s)
	}
}

// restore compares every session with a state that came as a whole, and in which single events were missed. The
// call that opens a session may not have its answer yet: what the state says of its request holds for it, too.
func (k *keeper) restore(m *fsm.Machine) {
	for _, s := range k.all() {
		over, why := m.SessionEnded(s.id), ErrExpired
		for request, l := range s.open() {
			state, token := m.Request(s.id, request)
			if state == fsm.RequestGranted {
				s.granted(request, token)
				if m.Wanted(s.id, request) {
					s.wanted(request)
				}
				continue
			}
			var end fsm.PastGrant
			if l != nil {
				end, _ = m.EndOf(l.name, uint64(l.token))
			}
			switch {
			case end.Kind == fsm.EventForced:
				k.revoke(s, request, forced(end.Detail))
			case state == fsm.RequestFinished: // nobody else ends a grant of a session that lives
				k.revoke(s, request, ErrForced)
			case end.Kind != 0:
				why = endCause(end.Reason, end.Detail)
			}
		}
		if over {
			k.judge(s, why)
		}
	}
}
