package view

import "github.com/holdfast-go/holdfast"

// Row is a lock in a list.
type Row struct {
	Name    string         `json:"name"`
	Kind    string         `json:"kind"`   // lock, shared, semaphore, election
	Holder  Holder         `json:"holder"` // the first; its token is 0 where nobody holds the lock
	Holders int            `json:"holders"`
	Limit   int            `json:"limit"`
	Held    float64        `json:"held_seconds"` // by the first holder; 0: longer than this node remembers
	Waiters int            `json:"waiters"`
	Delayed int            `json:"delayed"`
	Last    holdfast.Token `json:"last_token"`
}

// Holder is a holder or a waiter.
type Holder struct {
	NodeID string         `json:"node_id"`
	Node   string         `json:"node"`
	Label  string         `json:"label"`
	Token  holdfast.Token `json:"token"`
	Shared bool           `json:"shared"`
	Weight int            `json:"weight"`
}

// OfHolder is a holder or a waiter.
func OfHolder(h holdfast.Holder) Holder {
	return Holder{NodeID: h.NodeID, Node: h.Node, Label: h.Label, Token: h.Token, Shared: h.Shared, Weight: h.Weight}
}

// OfRow is a lock in a list.
func OfRow(l holdfast.LockInfo) Row {
	row := Row{
		Name: l.Name, Kind: kindOf(l), Holders: len(l.Holders), Limit: l.Limit, Waiters: len(l.Waiters), Delayed: l.Delayed,
		Last: l.LastToken, Held: *Seconds(l.Held),
	}
	if len(l.Holders) > 0 {
		row.Holder = OfHolder(l.Holders[0])
	}
	return row
}

func kindOf(l holdfast.LockInfo) string {
	switch {
	case l.Election:
		return "election"
	case l.Limit > 0:
		return "semaphore"
	case len(l.Holders) > 0 && l.Holders[0].Shared:
		return "shared"
	}
	return "lock"
}

// Event is one event.
type Event struct {
	Index  uint64 `json:"index"`
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	Reason string `json:"reason"`
	Act    string `json:"act"` // of an act: what an operator ordered, and
	By     string `json:"by"`  // the id of the node at which
	Holder
}

// OfEvent is an event.
func OfEvent(e holdfast.Event) Event {
	return Event{e.Index, e.Kind.String(), e.Name, e.Reason, e.Act, e.By, OfHolder(e.Holder)}
}

// Once is what became of a Once key.
type Once struct {
	Key    string `json:"key"`
	State  string `json:"state"` // "" without a key; unknown, running, finished
	Runner Holder `json:"runner"`
}

// OfOnce is what became of a key.
func OfOnce(key string, r holdfast.OnceResult) Once {
	v := Once{Key: key, State: "unknown", Runner: OfHolder(r.By)}
	switch {
	case r.Finished:
		v.State = "finished"
	case r.Token != 0:
		v.State = "running"
	}
	return v
}

// OfOnceKey is a key in a list.
func OfOnceKey(k holdfast.OnceKey) Once {
	return OfOnce(k.Key, holdfast.OnceResult{Finished: k.Finished, Token: k.Token, By: k.By})
}
