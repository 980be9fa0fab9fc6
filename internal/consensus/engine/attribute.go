package engine

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

// A process may run several engines, and a goroutine of theirs does not name its engine. Two things
// do. A goroutine inherits the profiler labels of its creator, so each engine is started under a
// label; but the log store removes the labels of goroutines that call it. And a stack ends with the
// creator of its goroutine: for most, the goroutine that started the engine. A lookup is slow, and
// happens at most a few times in an engine's life.

const label = "holdfast-replica"

// Labelled runs f, which starts the engine of a replica.
func Labelled(replica uint64, f func()) {
	self, _, _ := stack()
	process.mu.Lock()
	if process.starters == nil {
		process.starters = make(map[uint64]uint64)
	}
	process.starters[self] = replica
	process.mu.Unlock()
	pprof.Do(context.Background(), pprof.Labels(label, strconv.FormatUint(replica, 10)), func(context.Context) { f() })
}

// Unlabelled removes the label from the calling goroutine, which is not the engine's.
func Unlabelled() { pprof.SetGoroutineLabels(context.Background()) }

// culprits returns the replicas that must stop because the calling goroutine cannot go on: the
// replica of its engine, or all of the process if that is unknown. It returns none if Guard is
// among the callers, which turns a panic into an error, or if the process has no engine of ours.
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

// stack returns the calling goroutine, its creator, and whether Guard is among its callers.
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
		bytes.Contains(text, []byte("consensus/engine.Guard("))
}

// labelOfSelf returns the replica in the calling goroutine's label, 0 if there is none.
func (r *router) labelOfSelf() uint64 {
	r.profiling.Lock() // one goroutine at a time has profileSelf on its stack
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
		if !bytes.Contains(block, []byte("engine.profileSelf+")) {
			continue
		}
		if match := labels.FindSubmatch(block); match != nil {
			replica, _ := strconv.ParseUint(string(match[1]), 10, 64)
			return replica
		}
	}
	return 0
}
