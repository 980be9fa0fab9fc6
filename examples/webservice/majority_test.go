//go:build unix

package main

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// A balancer that takes the last process out for want of a majority refuses every request, also those that need
// no lock; and an orchestrator that restarts it for that ends what it still serves. /status/readyz says whether
// locks are granted.
func TestTheLastOfThreeStaysReadyForItsBalancerAndSaysThatItGrantsNoLock(t *testing.T) {
	f := newFleet(t)
	f.three(func(string) string { return "" })
	last := f.live[0]
	if code, body := f.get(last, "/status/readyz"); code != http.StatusOK {
		t.Errorf("with all three /status/readyz is %d %s", code, body)
	}
	for _, p := range f.live[1:] {
		p.Kill()
		<-p.Done()
	}
	tick := time.NewTicker(20 * time.Millisecond) // real time: the last one has to miss the others
	defer tick.Stop()
	late := time.After(patience)
	for without := 0; without < 100; { // two seconds
		select {
		case <-tick.C:
		case <-late:
			t.Fatal("the last process does not say that it grants no lock")
		}
		for _, path := range []string{"/readyz", "/livez", "/status/livez"} {
			if code, body := f.get(last, path); code != http.StatusOK {
				t.Fatalf("without the two others %s is %d %s", path, code, body)
			}
		}
		code, body := f.get(last, "/status/readyz")
		switch {
		case code == http.StatusInternalServerError && strings.Contains(body, "[-]serving failed: "):
			without++
		case code != http.StatusOK || without > 0:
			t.Fatalf("without the two others /status/readyz is %d %s", code, body)
		}
	}
}
