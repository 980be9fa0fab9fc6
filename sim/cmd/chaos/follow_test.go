//go:build unix

package main

import (
	"testing"

	"github.com/holdfast-go/holdfast"
)

// What follows from the changes must be what a read tells; a change that is missing, or told wrongly, must show.
func TestTheAccountOfAWatcherShowsWhatItWasNotTold(t *testing.T) {
	t.Parallel()
	event := func(kind holdfast.EventKind, label string, token holdfast.Token, value string) holdfast.Event {
		return holdfast.Event{Kind: kind, Name: "x", Holder: holdfast.Holder{NodeID: "n", Label: label, Token: token, Value: []byte(value)}}
	}
	changes := []holdfast.Event{
		event(holdfast.EventGranted, "1", 10, ""), event(holdfast.EventQueued, "2", 0, ""), event(holdfast.EventQueued, "3", 0, ""),
		event(holdfast.EventQueued, "4", 0, ""), event(holdfast.EventWithdrawn, "3", 0, ""), event(holdfast.EventValue, "1", 10, "v"),
		event(holdfast.EventExpired, "1", 10, ""), event(holdfast.EventGranted, "2", 11, ""),
	}
	locks := map[string]folded{"x": {
		holders: map[holdfast.Token]bool{11: true}, waiters: map[string]bool{"n 4": true}, value: "v",
	}}
	account := func(without int) string {
		f := &fold{locks: make(map[string]folded)}
		for i, e := range changes {
			if i != without {
				f.apply(e)
			}
		}
		return f.compare(locks)
	}
	if differs := account(-1); differs != "" {
		t.Errorf("all was told: %s", differs)
	}
	for i := range changes {
		// The first three leave no trace once the grant or the waiting is over.
		if differs := account(i); (differs == "") != (i < 3) {
			t.Errorf("without the change %d (%v): %q", i, changes[i].Kind, differs)
		}
	}
	var f fold
	f.set(map[string]folded{"y": newFolded()})
	if differs := f.compare(map[string]folded{}); differs != "" {
		t.Errorf("a lock that nobody has: %s", differs)
	}
	if f.compare(locks) == "" {
		t.Error("a lock that it knows nothing of is not missed")
	}
}
