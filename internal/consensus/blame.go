package consensus

import (
	"bytes"
	"context"
	"regexp"
	"runtime/pprof"
	"strconv"
)

// The engine's goroutines do not say whose they are, and a process may run several engines. But a
// goroutine inherits the profiler labels of the one that started it, so every engine is opened under a
// label, and a goroutine that reports a broken invariant is looked up in the goroutine profile. That is
// slow, and happens at most once in an engine's life.

const label = "holdfast-replica"

// labelled runs f, and all goroutines it starts, under the replica's label.
func labelled(replica uint64, f func()) {
	pprof.Do(context.Background(), pprof.Labels(label, strconv.FormatUint(replica, 10)), func(context.Context) { f() })
}

// unlabelled takes the label from the calling goroutine: it belongs to this package, not to the engine.
func unlabelled() { pprof.SetGoroutineLabels(context.Background()) }

// culprit answers the replica of the calling goroutine, 0 if it is no goroutine of an engine.
func (r *router) culprit() uint64 {
	r.blame.Lock() // so that one goroutine at a time has profileSelf on its stack
	defer r.blame.Unlock()
	return profileSelf()
}

// profileSelf finds the calling goroutine in the profile by this function's name on its stack.
//
//go:noinline
func profileSelf() uint64 {
	var profile bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
		return 0
	}
	labels := regexp.MustCompile(`"` + label + `":"(\d+)"`)
	for block := range bytes.SplitSeq(profile.Bytes(), []byte("\n\n")) {
		if !bytes.Contains(block, []byte("consensus.profileSelf+")) {
			continue
		}
		if match := labels.FindSubmatch(block); match != nil {
			replica, _ := strconv.ParseUint(string(match[1]), 10, 64)
			return replica
		}
	}
	return 0
}
