package holdfast

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/clock"
)

// A mutant showed that no test saw it: a replica that takes a state as a whole does not know how old the
// renewals in it are. It may only be late.
func TestASnapshotStartsEverySessionAnew(t *testing.T) {
	t.Parallel()
	now := clock.NewManual()
	now.Advance(24 * time.Hour)
	x := newExpirer(&Cluster{clock: now})
	m := fsm.New()
	for i, cmd := range []fsm.Command{
		fsm.Birth{Cluster: [16]byte{1}}, fsm.Serve{}, fsm.Hello{Node: fsm.Node{1}, Incarnation: 1},
		fsm.Acquire{Session: fsm.SessionID{Node: fsm.Node{1}, Incarnation: 1, Number: 1}, TTL: time.Hour, Request: 1, Name: "lock"},
	} {
		m.Apply(uint64(i+1), fsm.ProcessOf(cmd), fsm.Encode(cmd))
	}
	x.restore(m)
	now.Advance(time.Hour - 1)
	if due, _ := x.table.Step(now.Now(), true); len(due) > 0 {
		t.Errorf("%v is to expire before its TTL", due)
	}
	now.Advance(1)
	if due, _ := x.table.Step(now.Now(), true); len(due) != 1 {
		t.Errorf("%v is to expire after its TTL, one session wanted", due)
	}
}
