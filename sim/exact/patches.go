package main

// patch is one place of the standard library that the overlay changes. Old must occur in the file
// exactly once, or the version is not the one that this was written for.
type patch struct {
	file     string // below GOROOT/src
	why      string
	old, new string
}

// known lists the versions of Go whose runtime somebody has read before these patches were allowed
// for it. A new one is added after `go run ./sim/exact -times 6` has proved it.
func known() []string { return []string{"go1.26.8"} }

// patches are all changes of existing files.
func patches() []patch {
	return append(append(chance(), scheduling()...), clocks()...)
}

// chance takes every lot that a goroutine of a bubble draws from the bubble's own generator, and
// everybody else's from generators that begin alike in every process.
func chance() []patch {
	return []patch{{
		"runtime/synctest.go", "a bubble carries a generator, and knows when garbage was last collected",
		"	id      uint64 // unique id\n",
		"	id      uint64 // unique id\n	lots    uint64 // state of the generator\n	collect int64  // fake time of the next collection\n",
	}, {
		"runtime/rand.go", "rand draws from the bubble's generator, and outside from one of the whole process, whatever the thread",
		"	mp := getg().m\n	c := &mp.chacha8\n",
		"	if b := exactBubble(); b != nil {\n		return b.draw()\n	}\n	mp := getg().m\n	if getg() == mp.curg {\n		return exactMix(exactDrawn.Add(1))\n	}\n	c := &mp.chacha8\n",
	}, {
		"runtime/rand.go", "maps made outside of bubbles, by the variables of packages, have the same seeds in every process",
		"func maps_rand() uint64 {\n	return rand()\n}",
		"func maps_rand() uint64 {\n	return exactRand()\n}",
	}, {
		"runtime/rand.go", "hash keys and all generators of threads begin alike in every process",
		"	globalRand.state.Init(*seed)\n	clear(seed[:])\n",
		"	clear(seed[:])\n	seed[0] = 1\n	globalRand.state.Init(*seed)\n	clear(seed[:])\n",
	}, {
		"runtime/select.go", "the order in which a select looks at its channels",
		"		j := cheaprandn(uint32(norder + 1))\n",
		"		j := exactSelect(uint32(norder + 1))\n",
	}, {
		"runtime/time.go", "the order of timers of one instant",
		"			t.rand = cheaprand()\n",
		"			t.rand = uint32(getg().bubble.draw())\n",
	}, {
		"os/exec.go", "dragonboat makes the seeds of generators of the number of the process",
		"func Getpid() int { return syscall.Getpid() }",
		"func Getpid() int { return 1 }",
	}, {
		"crypto/internal/sysrand/rand.go", "random bytes: ids and keys",
		"func Read(b []byte) {\n",
		"func Read(b []byte) {\n	if exactRead(b) {\n		return\n	}\n",
	}}
}

// scheduling takes the real clock out of the decisions of the scheduler.
func scheduling() []patch {
	return []patch{{
		"runtime/proc.go", "a goroutine of a bubble keeps the processor until it blocks, also in a system call",
		"		pd := &pp.sysmontick\n		sysretake := false\n",
		"		if exactRuns(pp) {\n			continue\n		}\n		pd := &pp.sysmontick\n		sysretake := false\n",
	}, {
		"runtime/proc.go", "nobody else loses it within ten seconds",
		"const forcePreemptNS = 10 * 1000 * 1000 // 10ms",
		"const forcePreemptNS = 10 * 1000 * 1000 * 1000 // 10s",
	}, {
		"runtime/proc.go", "nor in a system call: another thread would be made, and memory laid out in another way",
		"!sysretake && int64(pd.syscalltick) != syst",
		"!sysretake",
	}, {
		"runtime/proc.go", "no thread is made while another is about to be free, for the same reason",
		"	nmp := mget()\n",
		"	nmp := mget()\n	for i := 0; nmp == nil && !lockheld && i < 100; i++ {\n		unlock(&sched.lock)\n		usleep(200)\n		lock(&sched.lock)\n		nmp = mget()\n	}\n",
	}, {
		"runtime/proc.go", "the turns of a bubble's goroutines are counted apart from everybody else's",
		"		mp.p.ptr().schedtick++\n",
		"		mp.p.ptr().schedtick++\n		if gp.bubble != nil {\n			exactTurns++\n		}\n",
	}, {
		"runtime/proc.go", "and by their count they look at the global queue, where those wait who gave up the processor",
		"	if pp.schedtick%61 == 0 && !sched.runq.empty() {\n",
		"	if exactTurns%61 == 0 && !sched.runq.empty() {\n",
	}, {
		"runtime/proc.go", "the race detector does not shuffle the queue",
		"const randomizeScheduler = raceenabled",
		"const randomizeScheduler = false",
	}, {
		"runtime/synctest.go", "garbage is collected when all of the bubble wait for time, and at no other moment",
		"		gopark(synctestidle_c, nil, waitReasonSynctestRun, traceBlockSynctest, 0)\n		lock(&bubble.mu)\n",
		"		gopark(synctestidle_c, nil, waitReasonSynctestRun, traceBlockSynctest, 0)\n		bubble.tidy()\n		lock(&bubble.mu)\n",
	}}
}

// clocks shows a bubble its own time where the standard library looks at the real one.
func clocks() []patch {
	return []patch{{
		"runtime/sema.go", "a mutex starves after a millisecond of the bubble's time",
		"func internal_sync_nanotime() int64 {\n",
		"func internal_sync_nanotime() int64 {\n	if b := exactBubble(); b != nil {\n		return b.now\n	}\n",
	}}
}

// added are the files that the overlay adds, with the code that the patches call.
func added() map[string]string {
	return map[string]string{
		"runtime/exact.go":                 exactRuntime,
		"crypto/internal/sysrand/exact.go": exactSysrand,
		"testing/synctest/exact.go":        exactSynctest,
	}
}
