package wire

import (
	"testing"
	"time"

	"github.com/lni/goutils/netutil/facebookgo/clock"
	circuit "github.com/lni/goutils/netutil/rubyist/circuitbreaker"

	"github.com/holdfast-go/holdfast/internal/consensus/engine"
	"github.com/holdfast-go/holdfast/transport"
)

// wallClock is the clock of a breaker of the engine.
type wallClock struct {
	clock.Clock
	now time.Time
}

func (c *wallClock) Now() time.Time { return c.now }

// The reason for all of setback.go: when this fails, the engine's breaker no longer goes by the wall clock, and
// that file may go.
func TestTheEnginesBreakerStaysOpenWhenTheWallClockIsSetBack(t *testing.T) {
	t.Parallel()
	c := &wallClock{now: time.Unix(1e9, 0)}
	breaker := circuit.NewBreakerWithOptions(&circuit.Options{Clock: c, ShouldTrip: circuit.ThresholdTripFunc(1)})
	breaker.Fail()
	c.now = c.now.Add(-time.Hour)
	for range 59 {
		if c.now = c.now.Add(time.Minute); breaker.Ready() {
			t.Fatalf("it lets messages through at %v", c.now)
		}
	}
	if c.now = c.now.Add(2 * time.Minute); !breaker.Ready() {
		t.Error("it lets no message through afterwards")
	}
}

// Found by reading, 2026-11-27: a node whose clock was an hour ahead as it started, before the others were up,
// and was set right then, sent no message for an hour, and where its vote was needed the group had no raft
// leader. The engine knows its breakers by the text of the address.
func TestTheEngineGetsAnotherTextOfAnAddressAfterAStepBackOfTheWallClock(t *testing.T) {
	t.Parallel()
	var awake, wall time.Duration
	r := newTable(1)
	r.backs.progress = func() (time.Duration, time.Duration) { return awake, wall }
	hello := goodGreeting(2)
	hello.addr = "10.0.0.2:7643"
	greets(t, r, hello)
	replica := ReplicaID(nodeID(2))
	_, key, _ := r.Resolve(engine.Shard, replica)
	seen := make(map[string]bool)
	for _, step := range []struct {
		what  string
		by    time.Duration
		other bool
	}{
		{what: "at first", other: true},
		{what: "after a step forward", by: time.Hour},
		{what: "after a small step back", by: -setBackLeast / 2},
		{what: "after another one", by: -setBackLeast / 2, other: true},
		{what: "after a large one", by: -time.Hour, other: true},
		{what: "after the next one", by: -time.Second, other: true},
		{what: "without a step"},
	} {
		awake += time.Minute
		wall += time.Minute + step.by
		addr, now, err := r.Resolve(engine.Shard, replica)
		if err != nil || seen[addr] == step.other {
			t.Errorf("%s the engine gets %q, %v", step.what, addr, err)
		}
		seen[addr] = true
		if unmarked(addr) != hello.addr || now != key {
			t.Errorf("%s it is at %q, and its queue is %q, before %q", step.what, unmarked(addr), now, key)
		}
		if addr, err := r.Locate(replica); err != nil || addr != hello.addr {
			t.Errorf("%s it is at %q, %v", step.what, addr, err)
		}
	}
}

func TestTheCarrierConnectsToAnAddressWhateverItsText(t *testing.T) {
	t.Parallel()
	network := transport.NewMemory(1)
	to, from := newMailbox(t, network, 1, func() {}), newMailbox(t, network, 2, func() {})
	defer to.end(t)
	defer from.end(t)
	addr := to.endpoint.Addr() + setBackMark + "7"
	messages, err := from.GetConnection(t.Context(), addr)
	if err != nil {
		t.Fatal(err)
	}
	defer messages.Close()
	snapshot, err := from.GetSnapshotConnection(t.Context(), addr)
	if err != nil {
		t.Fatal(err)
	}
	snapshot.Close()
}
