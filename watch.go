package holdfast

import (
	"context"
	"fmt"
	"iter"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/feed"
)

// Event is one change of a lock.
type Event struct {
	Index  uint64 // number of the command: the order of events; those of one command have the same
	Kind   EventKind
	Name   string // of the lock
	Holder Holder // who holds, held or waits. Value: of EventValue, the value that was written, nil when it was removed
	Reason string // how it ended, for people; of EventForced, the operator's words
}

// EventKind says what happened.
type EventKind uint8

// Kinds of events. Those of an election are followed by an EventLeader where its leader changed.
const (
	EventGranted   EventKind = iota + 1 // the lock was granted
	EventReleased                       // its holder gave it back
	EventExpired                        // its holder did not renew it in time
	EventLost                           // its holder's node left, was closed or came back as a new process
	EventForced                         // an operator took it
	EventQueued                         // somebody began to wait
	EventWithdrawn                      // somebody waits no more
	EventValue                          // the lock's value was written or removed
	EventResync                         // events are missing before the next one: read the state anew
	EventLeader                         // an election has another leader, or none: then Holder is empty
)

// String is the kind in lower case.
func (k EventKind) String() string {
	names := [...]string{
		"none", "granted", "released", "expired", "lost", "forced", "queued", "withdrawn", "value", "resync", "leader",
	}
	if int(k) < len(names) {
		return names[k]
	}
	return fmt.Sprintf("event(%d)", uint8(k))
}

// Watch yields every change of the locks whose names begin with prefix, in the order of the log, as
// this node applies it. It begins with the call, not with the iteration.
//
// A consumer that keeps up misses nothing. For one that does not, at most 4,096 events or 4 MiB of
// values wait; further ones are dropped, and an EventResync, whose name is prefix, takes their
// place. The same happens when this node has caught up by a snapshot. Then read the state with
// Locks, and go on with the events that follow. To begin with a state, call Locks after Watch: a
// change in between is then seen twice, in the list and as an event, and its token says that it is
// one. A node that was just opened yields again what it applies from its own log: call Ready before
// Watch.
//
// The end of ctx and of the node is an error, which ends the iteration; so does *ExhaustedError
// when this node has 1,024 watches. A watch that is never iterated ends with ctx. It can be
// iterated once.
func (c *Cluster) Watch(ctx context.Context, prefix string) iter.Seq2[Event, error] {
	w, err := c.watch(ctx, prefix, false)
	return func(yield func(Event, error) bool) {
		if err != nil {
			yield(Event{}, err)
			return
		}
		defer w.Close()
		err = invalid("Watch", "was iterated before")
		for {
			events, gap, err := c.next(ctx, w)
			if err != nil {
				yield(Event{}, err)
				return
			}
			for i := range events {
				if !yield(event(&events[i]), nil) {
					return
				}
				if e, changed := leaderAfter(events[i:]); changed && !yield(e, nil) {
					return
				}
			}
			if gap != 0 && !yield(Event{Index: gap, Kind: EventResync, Name: prefix}, nil) {
				return
			}
		}
	}
}

// watch begins a watch of the lock of this name (exact), or of all whose names begin with it.
func (c *Cluster) watch(ctx context.Context, name string, exact bool) (*feed.Watch, error) {
	if ctx == nil {
		return nil, invalid("context", "is nil")
	}
	if err := checkText("name or prefix", name, 0, NameMax); err != nil {
		return nil, err
	}
	w, err := c.feed.Open(ctx, name, exact)
	return w, c.apiError(err)
}

// next waits for the next events of a watch.
func (c *Cluster) next(ctx context.Context, w *feed.Watch) (events []fsm.Event, gap uint64, err error) {
	events, gap, err = w.Next(ctx)
	return events, gap, c.apiError(err)
}

// kindOf is the public kind of an event, 0 if it is not told.
func kindOf(e *fsm.Event) EventKind {
	switch e.Kind {
	case fsm.EventGranted:
		return EventGranted
	case fsm.EventReleased:
		return EventReleased
	case fsm.EventLost:
		if e.Reason == fsm.ReasonExpired {
			return EventExpired
		}
		return EventLost
	case fsm.EventForced:
		return EventForced
	case fsm.EventQueued:
		return EventQueued
	case fsm.EventWithdrawn:
		return EventWithdrawn
	case fsm.EventValueSet:
		return EventValue
	}
	return 0
}

func event(e *fsm.Event) Event {
	told := Event{Index: e.Index, Kind: kindOf(e), Name: e.Name, Holder: holder(e.Holder(), append([]byte(nil), e.Value...))}
	if e.Value != nil && told.Holder.Value == nil {
		told.Holder.Value = []byte{}
	}
	told.Reason = reasonOf(e.Reason, e.Detail)
	return told
}

// leaderAfter is who leads an election after the first of some events, if that has changed the
// leader and no other event of the same command gives it the next.
func leaderAfter(events []fsm.Event) (Event, bool) {
	e := &events[0]
	told := Event{Index: e.Index, Kind: EventLeader, Name: e.Name}
	switch {
	case !e.Election:
		return Event{}, false
	case e.Kind == fsm.EventGranted:
		told.Holder = holder(e.Holder(), nil)
		return told, true
	case e.Kind != fsm.EventReleased && e.Kind != fsm.EventLost && e.Kind != fsm.EventForced:
		return Event{}, false
	}
	for _, later := range events[1:] {
		if later.Index != e.Index {
			break
		}
		if later.Kind == fsm.EventGranted && later.Election && later.Name == e.Name {
			return Event{}, false
		}
	}
	return told, true
}

// reasonOf says to people how something ended: in the operator's words, if there are any.
func reasonOf(r fsm.Reason, detail string) string {
	if detail != "" {
		return detail
	}
	switch r {
	case fsm.ReasonNone:
		return ""
	case fsm.ReasonExpired:
		return "not renewed in time"
	case fsm.ReasonIncarnation:
		return "its node's process started anew"
	case fsm.ReasonLeft:
		return "its node left or was closed"
	case fsm.ReasonSuperseded:
		return "a later process of its node is there"
	case fsm.ReasonRemoved:
		return "its node was removed from the group"
	case fsm.ReasonAbandoned:
		return "its node could not rely on it any more"
	}
	return r.String()
}
