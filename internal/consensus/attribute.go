package consensus

import (
	"bytes"
	"context"
	"maps"
	"regexp"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
)

// The engine's goroutines do not say whose they are, and a process may run several engines. Two
// things tell. A goroutine inherits the profiler labels of the one that started it, so every engine
// is started under a label; but its log store takes the labels off goroutines that call it. And the
// runtime names, at the end of a stack, the goroutine that started this one: for most of an
// engine's, that is the one that started the engine. Looking is slow, and happens at most a few
// times in an engine's life.

const label = "holdfast-replica"

// labelled runs f, which starts the engine of a replica.
func labelled(replica uint64, f func()) {
	self, _, _ := stack()
	process.mu.Lock()
	if process.starters == nil {
		process.starters = make(map[uint64]uint64)
	}
	process.starters[self] = replica
	process.mu.Unlock()
	pprof.Do(context.Background(), pprof.Labels(label, strconv.FormatUint(replica, 10)), func(context.Context) { f() })
}

// unlabelled takes the label from the calling goroutine: it belongs to this package, not to the
// engine.
func unlabelled() { pprof.SetGoroutineLabels(context.Background()) }

// culprits returns the replicas that must stop because the calling goroutine cannot go on: the one
// whose engine it belongs to, or all of the process if that cannot be told. None if an engine was
// called by this package, where guard waits for a panic, or if there is no engine of ours.
func (r *router) culprits() []uint64 {
	if replica := r.labelOfSelf(); replica != 0 {
		return []uint64{replica}
	}
	self, parent, guarded := stack()
	r.mu.Lock()
	defer r.mu.Unlock()
	if replica, ok := r.starters[self]; ok {
		return []uint64{replica}
	}
	if guarded {
		return nil
	}
	if replica, ok := r.starters[parent]; ok {
		return []uint64{replica}
	}
	return slices.Collect(maps.Keys(r.groups))
}

// stack returns the calling goroutine, the one that started it, and whether guard is among its
// callers.
func stack() (self, parent uint64, guarded bool) {
	text := make([]byte, 64<<10)
	text = text[:runtime.Stack(text, false)]
	number := func(pattern string) (n uint64) {
		if match := regexp.MustCompile(pattern).FindSubmatch(text); match != nil {
			n, _ = strconv.ParseUint(string(match[1]), 10, 64)
		}
		return n
	}
	return number(`^goroutine (\d+) `), number(`\ncreated by .* in goroutine (\d+)\n`),
		bytes.Contains(text, []byte("internal/consensus.guard("))
}

// labelOfSelf returns the replica that the calling goroutine is labelled with, 0 if none.
func (r *router) labelOfSelf() uint64 {
	r.profiling.Lock() // so that one goroutine at a time has profileSelf on its stack
	defer r.profiling.Unlock()
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
