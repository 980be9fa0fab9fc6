package consensus

import (
	"context"
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/transport"
)

func TestThreeReplicasOverTCPServeThroughLossOfTheirRaftLeader(t *testing.T) {
	t.Parallel()
	b := newBench()
	b.network, b.bind = transport.TCP(), func(int) string { return "127.0.0.1:0" }
	group := b.trio(t)
	old := leaderOf(t, group)
	var rest []*replica
	for _, r := range group {
		r.propose(t, fsm.Level{Level: 1})
		if r != old {
			rest = append(rest, r)
		}
	}
	old.endpoint.Close() // as good as a crash: nothing is heard of it any more
	rest[1].propose(t, fsm.Level{Level: 2})
	old.close(t)
	// It comes back under another address.
	n := 0
	for i, r := range group {
		if r == old {
			n = i + 1
		}
	}
	back := b.open(t, n, old.fs, StartRestart)
	rest = append(rest, back)
	defer closeAll(t, rest)
	back.barrier(t)
	if back.level() != 2 {
		t.Errorf("level %d after coming back", back.level())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := back.Propose(ctx, fsm.Encode(birth())); !errors.Is(err, ErrNotProposed) || !errors.Is(err, context.Canceled) {
		t.Errorf("propose under an ended context: %v", err)
	}
}
