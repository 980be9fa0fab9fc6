package membership

import (
	"bytes"
	"context"
	"fmt"
	"runtime/pprof"
	"time"
)

// Memberlist's Shutdown does not wait for its goroutines: a probe goes on for seconds. Goroutines
// inherit their creator's profiler labels, so a goroutine profile shows whether one of memberlist's
// is left. (The label also shows the cost of gossip in the host's own profiles.)
//
// A profile visits every goroutine of the host, perhaps a hundred thousand, and a host without an idle
// core makes it wait. So the pauses between profiles are awaitShare times as long as the last one took,
// up to awaitRest: Close waits for its pauses, too.
const (
	awaitLabel = "holdfast-gossip"
	awaitLimit = 15 * time.Second // five times a probe's longest time
	awaitPause = 100 * time.Millisecond
	awaitRest  = time.Second
	awaitShare = 4
)

// labelled runs call in a goroutine with the label and waits for it.
func labelled(label string, call func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels(awaitLabel, label)))
		call()
	}()
	<-done
}

// awaitGoroutines waits until no goroutine with the label is left.
func awaitGoroutines(label string) error {
	return awaitEnd(func() bool { return running(label) })
}

// awaitEnd waits until running, which looks at a profile, reports false. The first look comes after a
// pause: goroutines that have just been told to end are gone by then, and one look is enough.
func awaitEnd(running func() bool) error {
	deadline := time.Now().Add(awaitLimit)
	var rest time.Duration
	for pause := time.Millisecond; ; pause = min(2*pause, awaitPause) {
		time.Sleep(max(pause, rest))
		began := time.Now()
		if !running() {
			return nil
		}
		now := time.Now()
		if now.After(deadline) {
			return fmt.Errorf("holdfast: gossip did not stop within %v", awaitLimit)
		}
		rest = min(awaitShare*now.Sub(began), awaitRest)
	}
}

func running(label string) bool {
	var profile bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&profile, 1)
	return bytes.Contains(profile.Bytes(), fmt.Appendf(nil, "%q:%q", awaitLabel, label))
}
