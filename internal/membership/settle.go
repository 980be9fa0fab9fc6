package membership

import (
	"bytes"
	"context"
	"fmt"
	"runtime/pprof"
	"time"
)

// memberlist's Shutdown does not wait for its goroutines, and gives no means
// to: a probe goes on for seconds. Goroutines inherit their creator's profiler
// labels, so all of memberlist's carry the label of the one that made it, and
// a goroutine profile tells whether one is left. (The label also shows in the
// host's own profiles what gossip costs.)
const (
	settleLabel = "holdfast-gossip"
	settleLimit = 15 * time.Second // a probe's longest time is a fifth of it
)

// labelled runs call in a goroutine with the label and waits for it.
func labelled(label string, call func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels(settleLabel, label)))
		call()
	}()
	<-done
}

// settle waits until no goroutine with the label is left.
func settle(label string) error {
	pause := time.Millisecond
	for deadline := time.Now().Add(settleLimit); running(label); pause = min(2*pause, 50*time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("holdfast: gossip did not stop within %v", settleLimit)
		}
		time.Sleep(pause)
	}
	return nil
}

func running(label string) bool {
	var profile bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&profile, 1)
	return bytes.Contains(profile.Bytes(), fmt.Appendf(nil, "%q:%q", settleLabel, label))
}
