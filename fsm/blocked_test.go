package fsm

import (
	"fmt"
	"runtime"
	"testing"
)

// The deadlock check saw a cycle wherever one holder of a semaphore waited for the caller, although
// another one's permit would come back.
func TestACallerIsRefusedOnlyIfNoPermitCanComeBack(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	request := uint64(0)
	call := func(name string, while ...uint64) Acquire {
		request++
		c := acquire(request, name)
		c.While = while
		return c
	}
	permit := func(c Acquire, weight uint32) Acquire {
		c.Mode, c.Limit, c.Weight = Permit, 3, weight
		return c
	}
	refuse := func(c Acquire) Acquire { c.Refuse = true; return c }
	lock := b.must(call("lock"), CodeGranted).Token
	first := b.must(permit(call("permits"), 1), CodeGranted).Token
	second := b.must(permit(call("permits"), 2), CodeGranted).Token

	b.must(call("lock", first), CodeQueued) // who has one permit waits for the lock
	waits := refuse(permit(call("permits", lock), 2))
	b.must(waits, CodeQueued) // of the two others that can come back
	b.must(Withdraw{Session: waits.Session, Requests: []uint64{waits.Request}}, CodeOK)
	b.must(refuse(permit(call("permits", lock), 3)), CodeDeadlock)

	b.must(call("lock", second), CodeQueued)
	b.must(refuse(permit(call("permits", lock), 2)), CodeDeadlock)
	b.must(refuse(permit(call("permits", lock), 1)), CodeDeadlock)
	if b.must(permit(call("permits", lock), 1), CodeQueued); len(b.m.Cycles("permits")) != 1 {
		t.Errorf("cycles: %v", b.m.Cycles("permits"))
	}
}

// permit asks for some permits of a semaphore.
func permit(request uint64, limit, weight uint32) Acquire {
	c := acquire(request, "permits")
	c.Mode, c.Limit, c.Weight = Permit, limit, weight
	return c
}

// Behind a waiter that takes more than can come back nobody is served, however little it wants.
func TestWhoWaitsBehindAWaiterThatNobodyCanServeIsInItsCycle(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	lock := b.must(acquire(1, "lock"), CodeGranted).Token
	held := b.must(permit(2, 2, 1), CodeGranted).Token
	inner := acquire(3, "lock")
	inner.While = []uint64{held}
	b.must(inner, CodeQueued)
	b.must(permit(4, 2, 2), CodeQueued)
	c := permit(5, 2, 1)
	c.While, c.Refuse = []uint64{lock}, true
	b.must(c, CodeDeadlock)
}

// A holder that wants more of its semaphore waits for itself where a resize left too few permits
// for both. The oracle once counted with the limit of the time of the grant, and queued it.
func TestAHolderWaitsForItselfByTheLimitAfterAResize(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	held := b.must(permit(1, 3, 1), CodeGranted).Token
	b.must(Resize{"permits", 2, b.m.Commands()}, CodeOK)
	more := permit(2, 3, 2)
	more.While, more.Wait, more.Refuse = []uint64{held}, true, true
	b.must(more, CodeDeadlock)
	b.must(Resize{"permits", 4, b.m.Commands()}, CodeOK)
	more = permit(3, 4, 2)
	more.While, more.Wait, more.Refuse = []uint64{held}, true, true
	b.must(more, CodeGranted)
}

// Each caller of a long chain was noted with all waiters behind it: the search for a cycle took memory
// by the square of its length, 200 MB on each replica for the last call of this one.
func TestTheSearchForALongCycleTakesMemoryByItsLength(t *testing.T) {
	const length = 4900
	b := newBench(t)
	tokens := make([]uint64, length)
	for i := range tokens {
		tokens[i] = b.must(acquire(uint64(i+1), fmt.Sprint(i)), CodeGranted).Token
	}
	waits := func(i int) Acquire {
		c := acquire(uint64(length+i+1), fmt.Sprint((i+1)%length))
		c.While, c.Wait = tokens[i:i+1], true
		return c
	}
	for i := range length - 1 {
		b.must(waits(i), CodeQueued)
	}
	last := waits(length - 1)
	last.Refuse = true
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	b.must(last, CodeDeadlock)
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 10<<20 {
		t.Errorf("it took %d MB", took>>20)
	}
	last.Refuse, last.Request = false, last.Request+1
	b.must(last, CodeQueued)
	cycles := b.m.Cycles("0")
	if len(cycles) != 1 || len(cycles[0]) != length {
		t.Errorf("%d cycles", len(cycles))
	}
}
