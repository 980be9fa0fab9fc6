package consensus

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lni/vfs"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/transport"
)

func TestStartModeIsHeldAgainstWhatIsOnTheDisk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		if _, err := b.try(1, vfs.NewMem(), StartRestart); !errors.Is(err, ErrNoReplica) {
			t.Errorf("restart without data: %v", err)
		}
		fs := vfs.NewMem()
		b.open(t, 1, fs, StartBootstrap).close(t)
		if _, err := b.try(1, fs, StartJoin); !errors.Is(err, ErrOtherStart) {
			t.Errorf("join where a group was bootstrapped: %v", err)
		}
		again := b.open(t, 1, fs, StartBootstrap) // it crashed before that was noted elsewhere
		again.propose(t, birth())
		again.close(t)
		b.tune = func(c *Config) { c.Node, c.Replica = nodeID(2), ReplicaID(nodeID(2)) }
		if _, err := b.try(1, fs, StartRestart); err == nil {
			t.Error("another node's directory was opened")
		}
		b.tune = func(c *Config) { c.Cluster = nodeID(9) }
		if _, err := b.try(1, fs, StartRestart); err == nil {
			t.Error("another cluster's directory was opened")
		}
		time.Sleep(time.Minute)
	})
}

func TestInvalidConfigNamesItsField(t *testing.T) {
	t.Parallel()
	network := transport.NewMemory(1)
	endpoint, err := network.Listen(t.Context(), "10.0.0.1:1", transport.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer endpoint.Close()
	good := Config{
		Node: nodeID(1), Incarnation: 1, Cluster: testCluster, Dir: "/raft", FS: vfs.NewMem(), Endpoint: endpoint,
		Resolve: func(string) (string, bool) { return "", false }, Observer: newRecorder(),
	}
	for name, edit := range map[string]func(*Config){
		"upper case":     func(c *Config) { c.Node = "A0000000-0000-4000-8000-000000000001" },
		"no cluster":     func(c *Config) { c.Cluster = "" },
		"no fs":          func(c *Config) { c.FS = nil },
		"no observer":    func(c *Config) { c.Observer = nil },
		"fraction":       func(c *Config) { c.Tick = 1500 * time.Microsecond },
		"quick election": func(c *Config) { c.Election = 4 * time.Millisecond * 10 },
		"other replica":  func(c *Config) { c.Replica = 5 },
	} {
		cfg := good
		edit(&cfg)
		if _, err := Open(t.Context(), cfg, StartBootstrap); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Open(t.Context(), good, 0); !errors.Is(err, ErrInvalid) {
		t.Errorf("no start: %v", err)
	}
}

func TestCloseEndsEverythingInEveryState(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.open(t, 1, vfs.NewMem(), StartBootstrap).close(t) // before an election
		b.open(t, 1, vfs.NewMem(), StartJoin).close(t)      // nobody ever adds it
		r := b.open(t, 1, vfs.NewMem(), StartBootstrap)
		r.propose(t, birth())
		var callers sync.WaitGroup
		for range 20 {
			callers.Go(func() {
				for {
					_, err := r.Propose(context.Background(), fsm.Encode(fsm.Level{Level: 1}))
					if errors.Is(err, ErrClosed) {
						return
					}
					if err != nil && !errors.Is(err, ErrUnknown) && !errors.Is(err, ErrNotProposed) {
						t.Errorf("propose beside close: %v", err)
						return
					}
				}
			})
			callers.Go(func() { r.Members() })
			callers.Go(func() { _ = r.Barrier(context.Background()) })
		}
		for range 3 {
			callers.Go(func() {
				if err := r.Group.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			})
		}
		callers.Wait()
		if err := r.Barrier(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("barrier after close: %v", err)
		}
		if m := r.Members(); len(m.Voters) != 0 {
			t.Errorf("members after close: %+v", m)
		}
		r.close(t)
	})
}

func TestProposalWithoutQuorumEndsWithItsContextAndIsUnknown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		group := b.trio(t)
		defer func() { closeAll(t, group) }()
		leader := leaderOf(t, group)
		b.network.(*transport.Memory).Isolate(leader.endpoint.Addr())
		ctx, cancel := context.WithTimeout(t.Context(), 37*time.Millisecond)
		defer cancel()
		began := time.Now()
		_, err := leader.Propose(ctx, fsm.Encode(fsm.Level{Level: 1}))
		if !errors.Is(err, ErrUnknown) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("propose without a quorum: %v", err)
		}
		if took := time.Since(began); took != 37*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		began = time.Now()
		if _, err = leader.Propose(t.Context(), fsm.Encode(fsm.Level{Level: 1})); err == nil {
			t.Error("a command was acknowledged without a quorum")
		}
		if took := time.Since(began); took > leader.cfg.attempt() {
			t.Errorf("one attempt took %v", took)
		}
		b.network.(*transport.Memory).Heal()
	})
}
