package fsm

import (
	"fmt"
	"time"
)

// EventKind says what happened.
type EventKind uint8

const (
	EventBorn           EventKind = iota + 1 // the group has its id
	EventServing                             // the group serves locks from now on
	EventSessionRenewed                      // a session was opened or renewed; TTL
	EventSessionEnded                        // Reason: closed, abandoned, expired, incarnation, left, revoked
	EventGranted                             // a lock was granted
	EventReleased                            // a grant ended by its holder's will. Reason: released, withdrawn, closed, finished
	EventLost                                // a grant ended with its session. Reason: abandoned, expired, incarnation, left
	EventForced                              // a grant was taken by an operator; Detail. Reason: forced, revoked
	EventQueued                              // a request began to wait
	EventWithdrawn                           // a waiter left. Reason: withdrawn, finished, superseded, removed, resized, or that of its session's end
	EventValueSet                            // the lock's value changed; Value
	EventWanted                              // to one holder, once: its lock is wanted. With Detail: the holder is asked to let go, and why
	EventResting                             // the place of a grant that ended stays taken for TTL
	EventRested                              // and is free again
	EventSilent                              // the replica of a node was not heard for TTL, or is heard again
	EventDeparted                            // a node has said that it leaves, or that it is gone
	EventUnfinished                          // this command leaves a teardown or an unsettled lock: Machine.Unfinished
	EventEvict                               // an operator orders that a node's replica is removed; Detail. With Request: the raft leader refuses that order; Reason
	EventResized                             // a semaphore has another limit; Limit
	EventQuota                               // the quota of a node (of Session), or of the prefix Name, is another; Detail
	EventAct                                 // an operator gives an order; Act, By, Detail, and what it is about: Session.Node, Name, Token, Limit
)

// String is the kind in lower case.
func (k EventKind) String() string {
	return named("event", uint8(k),
		"none", "born", "serving", "session renewed", "session ended", "granted", "released", "lost",
		"forced", "queued", "withdrawn", "value set", "wanted", "resting", "rested", "silent", "departed", "unfinished", "evict", "resized", "quota", "act",
	)
}

// Reason is why a session, a grant or a waiter ended.
type Reason uint8

// Reasons.
const (
	ReasonNone        Reason = iota
	ReasonReleased           // by Release
	ReasonWithdrawn          // by Withdraw
	ReasonClosed             // its session was closed
	ReasonExpired            // its session expired
	ReasonIncarnation        // a later process of its node has proved that its own is dead
	ReasonLeft               // its process said good-bye
	ReasonForced             // by ForceRelease
	ReasonFinished           // by Finish
	ReasonAbandoned          // its session was closed after its client had lost it
	ReasonSuperseded         // a later process of its node is there
	ReasonRemoved            // its node has no replica any more
	ReasonRevoked            // by Revoke
	ReasonHeard              // an order is refused: Raft hears the replica
	ReasonLast               // an order is refused: no voter would be left
	ReasonResized            // by Resize: its weight is above the limit
	reasonEnd
)

// String is the reason in lower case.
func (r Reason) String() string {
	return named("reason", uint8(r),
		"none", "released", "withdrawn", "closed", "expired", "incarnation", "left", "forced",
		"finished", "abandoned", "superseded", "removed", "revoked", "heard", "last", "resized",
	)
}

// Event is one thing that an applied command changed, or one holder to tell. Session, Request and
// the fields of the holder are those of the grant, waiter or session that the event is about.
type Event struct {
	Index    uint64 // the command's number
	Kind     EventKind
	Act      ActKind // of EventAct
	Session  SessionID
	Request  uint64
	Name     string
	Token    uint64
	Waited   bool // of EventGranted: in the queue, and not granted at once
	TTL      time.Duration
	Reason   Reason
	Detail   string // the words of the operator, of EventForced or EventWanted
	By       Node   // of EventAct: the node at which the order was given
	NodeName string
	Terms
	Value []byte // of EventValueSet: nil when it was deleted. Not to be changed
}

// Holder is the grant or waiter that the event is about. Granted is the command's number.
func (e Event) Holder() Holder {
	return Holder{
		Session: e.Session, Request: e.Request, NodeName: e.NodeName, Terms: e.Terms, Token: e.Token, Granted: e.Index,
	}
}

// named is the name of a number of a kind, or the number where it has none.
func named(kind string, number uint8, names ...string) string {
	if int(number) < len(names) {
		return names[number]
	}
	return fmt.Sprintf("%s(%d)", kind, number)
}
