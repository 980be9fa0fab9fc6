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
	Index  uint64 // number of the command, which orders events; the events of one command share it
	Kind   EventKind
	Name   string // of the lock
	Holder Holder // present or past holder, or waiter. Its Value, in EventValue: what was written, nil if the value was removed
	Reason string // why it ended, for people; in EventForced the operator's words
	Limit  int    // in EventResized, and in EventAct of ResizeLimit
	Act    string // in EventAct: the method of Cluster by which the order was given, as "ForceRelease"
	By     string // in EventAct: id of the node at which it was given
}

// EventKind says what happened.
type EventKind uint8

// Kinds of events. Those of an election are followed by an EventLeader where its leader changed.
const (
	EventGranted   EventKind = iota + 1 // the lock was granted
	EventReleased                       // its holder released it
	EventExpired                        // its holder's session was not renewed in time
	EventLost                           // its holder's node left, was closed or restarted
	EventForced                         // an operator ended the grant
	EventQueued                         // a waiter joined the queue
	EventWithdrawn                      // a waiter left the queue without a grant
	EventValue                          // the lock's value was written or removed
	EventResync                         // events are missing before the next one: read the state again
	EventLeader                         // an election has another leader, or none: then Holder is empty
	EventResized                        // a semaphore has another limit; Limit. Holder is empty
	EventQuota                          // a quota was set or removed; Name is its prefix, Holder.NodeID its node
	EventAct                            // an operator gives an order; Act, By, Reason. See Watch
)

// String is the kind in lower case.
func (k EventKind) String() string {
	names := [...]string{
		"none", "granted", "released", "expired", "lost", "forced", "queued", "withdrawn", "value", "resync", "leader", "resized", "quota", "act",
	}
	if int(k) < len(names) {
		return names[k]
	}
	return fmt.Sprintf("event(%d)", uint8(k))
}

// Watch yields every change of the locks whose names begin with prefix, in the order of the log, as
// this node applies it. It begins with the call, not with the iteration.
//
// It also yields an EventAct for each order of an operator about one of these locks, before the order is
// carried out (a TransferRaftLeader: after it): Act, By, Reason, and the Name, Token (of Holder) and Limit
// that the order names. With an empty prefix these are all orders, those about nodes, whose id is
// Holder.NodeID, and about Once keys, whose Name is the key, included: the record of what operators did. An
// order may be refused after it, and be yielded twice if an answer was lost. A group of feature level 1 has none.
//
// A consumer that keeps up misses nothing. For a slower one at most 4,096 events or 4 MiB of values
// wait; the node drops further ones, and an EventResync, whose name is prefix, takes their place.
// The same happens when this node has caught up by a snapshot, and when a client has gone to another
// replica. Then read the state with Locks, and
// go on with the events that follow. To begin with a state, call Locks after Watch: a change in
// between is then in the list and among the events, with the same token. A node that was just
// opened yields again what it applies from its own log: call Ready before Watch.
//
// The iteration ends with an error when ctx or the node ends, and with an *ExhaustedError when this
// node has 1,024 watches. A watch that is never iterated ends with ctx. A watch can be iterated
// once.
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

// kindOf is the public kind of an event, 0 if it has none.
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
	case fsm.EventResized:
		return EventResized
	case fsm.EventQuota:
		return EventQuota
	case fsm.EventAct:
		return EventAct
	}
	return 0
}

func event(e *fsm.Event) Event {
	shown := Event{
		Index: e.Index, Kind: kindOf(e), Name: e.Name, Reason: reasonOf(e.Reason, e.Detail),
		Holder: holder(e.Holder(), append([]byte(nil), e.Value...)),
	}
	if e.Value != nil && shown.Holder.Value == nil {
		shown.Holder.Value = []byte{}
	}
	if e.Session.Node == (fsm.Node{}) {
		shown.Holder.NodeID = ""
	}
	switch e.Kind {
	case fsm.EventResized:
		shown.Holder, shown.Limit = Holder{}, int(e.Limit)
	case fsm.EventAct:
		if key, once := fsm.OnceKey(e.Name); once {
			shown.Name = key
		}
		shown.Act, shown.By, shown.Limit = e.Act.String(), e.By.String(), int(e.Limit)
	}
	return shown
}

// leaderAfter is the EventLeader that follows the first of some events, if that event changed the
// leader of an election, and no later event of the same command names the next leader.
func leaderAfter(events []fsm.Event) (Event, bool) {
	e := &events[0]
	change := Event{Index: e.Index, Kind: EventLeader, Name: e.Name}
	switch {
	case !e.Election:
		return Event{}, false
	case e.Kind == fsm.EventGranted:
		change.Holder = holder(e.Holder(), nil)
		return change, true
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
	return change, true
}

// reasonOf is the reason of an end, for people: the operator's words, if there are any.
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
	case fsm.ReasonResized:
		return "it wants more than the new limit"
	case fsm.ReasonRemoved:
		return "its node was removed from the group"
	case fsm.ReasonAbandoned:
		return "its node could not rely on it any more"
	}
	return r.String()
}
