package workload

import (
	"testing"

	"github.com/holdfast-go/holdfast"
)

// What follows from the changes must be what a read tells; a change that is missing, or told
// wrongly, must show.
func TestTheAccountOfAWatcherShowsWhatItWasNotTold(t *testing.T) {
	t.Parallel()
	event := func(kind holdfast.EventKind, label string, token holdfast.Token, value string) holdfast.Event {
		return holdfast.Event{Kind: kind, Name: "x", Holder: holdfast.Holder{NodeID: "n", Label: label, Token: token, Value: []byte(value)}}
	}
	changes := []holdfast.Event{
		event(holdfast.EventGranted, "1", 10, ""), event(holdfast.EventQueued, "2", 0, ""), event(holdfast.EventQueued, "3", 0, ""),
		event(holdfast.EventQueued, "4", 0, ""), event(holdfast.EventWithdrawn, "3", 0, ""), event(holdfast.EventValue, "1", 10, "v|tail"),
		event(holdfast.EventExpired, "1", 10, ""), event(holdfast.EventGranted, "2", 11, ""),
	}
	read := map[string]holdfast.LockInfo{"x": {
		Holders: []holdfast.Holder{{Token: 11}}, Waiters: []holdfast.Holder{{NodeID: "n", Label: "4"}}, Value: []byte("v|another tail"),
	}}
	told := func(without int) string {
		var a account
		for i, e := range changes {
			if i != without {
				a.apply(e)
			}
		}
		return a.compare(read)
	}
	if differs := told(-1); differs != "" {
		t.Errorf("all was told: %s", differs)
	}
	for i := range changes {
		// The first three leave no trace once the grant or the waiting is over.
		if differs := told(i); (differs == "") != (i < 3) {
			t.Errorf("without the change %d (%v): %q", i, changes[i].Kind, differs)
		}
	}
	var a account
	a.set(map[string]holdfast.LockInfo{"y": {}})
	if differs := a.compare(nil); differs != "" {
		t.Errorf("a lock that nobody has: %s", differs)
	}
	if a.compare(read) == "" {
		t.Error("a lock that it knows nothing of is not missed")
	}
}
