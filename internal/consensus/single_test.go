package consensus

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lni/vfs"

	"github.com/holdfast-go/holdfast/fsm"
)

func TestSingleReplicaServesAndKeepsItsStateOverRestart(t *testing.T) {
	t.Parallel()
	b, fs := newBench(), vfs.NewMem()
	b.tune = func(c *Config) { c.Wall = func() time.Time { return time.Unix(7, 0) } }
	r := b.open(t, 1, fs, StartBootstrap)
	if out := r.propose(t, birth()); out.Code != fsm.CodeOK {
		t.Fatalf("birth: %v", out.Code)
	}
	r.barrier(t)
	r.Read(func(m *fsm.Machine) {
		if !m.Info().Born {
			t.Error("not born after birth and barrier")
		}
	})
	if !r.IsRaftLeader() {
		t.Error("the only replica is not raft leader")
	}
	members := r.Members()
	if members.Voters[ReplicaID(r.node)] != r.node || len(members.Standbys) != 0 || members.Change == 0 {
		t.Errorf("members %+v", members)
	}
	r.close(t)
	if _, err := r.Propose(context.Background(), fsm.Encode(birth())); !errors.Is(err, ErrClosed) {
		t.Errorf("propose after close: %v", err)
	}

	r = b.open(t, 1, fs, StartRestart)
	defer r.close(t)
	r.barrier(t)
	r.propose(t, birth()) // in vain; but whatever gets into the log comes after the tokens were raised, and a read may not
	r.Read(func(m *fsm.Machine) {
		if info := m.Info(); !info.Born || info.Counter != 7<<fsm.TokenBits {
			t.Errorf("state after restart: %+v", info)
		}
	})
}
