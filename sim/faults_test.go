package sim_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/sim"
	"github.com/holdfast-go/holdfast/transport"
)

const ttl = 4 * time.Second

// reach asks node n for something that needs the group.
func reach(n *sim.Node, d time.Duration) error {
	_, err := n.Cluster().Inspect(until(d), "anything")
	return err
}

func fleet(t *testing.T, nodes int, f func(s *sim.Sim)) {
	t.Helper()
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: nodes, Config: func(_ int, c *holdfast.Config) { c.TTL = ttl }}, f)
}

func TestAPartitionLeavesServiceToTheMajority(t *testing.T) {
	fleet(t, 3, func(s *sim.Sim) {
		s.Partition([]int{0}, []int{1, 2})
		time.Sleep(5 * time.Second)
		if reach(s.Node(0), time.Second) == nil || reach(s.Node(1), time.Second) != nil || reach(s.Node(2), time.Second) != nil {
			t.Error("the wrong nodes are served")
		}
		s.Heal()
		if err := reach(s.Node(0), 20*time.Second); err != nil {
			t.Errorf("after the partition: %v", err)
		}
	})
}

func TestANodeThatIsCutOneWayIsNotServed(t *testing.T) {
	fleet(t, 3, func(s *sim.Sim) {
		for what, cut := range map[string]func(i, j int){
			"deaf": func(i, j int) { s.Cut(j, i) },
			"mute": func(i, j int) { s.Cut(i, j) },
		} {
			n := s.RaftLeader()
			for _, o := range s.Nodes() {
				if o != n {
					cut(n.Index(), o.Index())
				}
			}
			time.Sleep(5 * time.Second)
			for _, o := range s.Nodes() {
				if err := reach(o, time.Second); (err != nil) != (o == n) {
					t.Errorf("node %d is %s; node %d: %v", n.Index(), what, o.Index(), err)
				}
			}
			n.Rejoin()
			n.Ready()
		}
	})
}

func TestDelayTakesItsTime(t *testing.T) {
	fleet(t, 3, func(s *sim.Sim) {
		leader := s.RaftLeader()
		took := func() time.Duration {
			began := time.Now()
			if err := reach(leader, time.Minute); err != nil {
				t.Error(err)
			}
			return time.Since(began)
		}
		quick := took()
		const delay = 30 * time.Millisecond
		s.FaultsEverywhere(transport.Faults{Delay: delay})
		time.Sleep(time.Second)
		if slow := took(); quick > delay || slow < 2*delay {
			t.Errorf("a read took %v, and with a delay of %v %v", quick, delay, slow)
		}
	})
}

func TestLossDuplicatesAndReorderingOfPacketsAreEndured(t *testing.T) {
	fleet(t, 3, func(s *sim.Sim) {
		s.FaultsEverywhere(transport.Faults{Drop: 0.3, Duplicate: 0.3, Reorder: 0.3, Jitter: 20 * time.Millisecond})
		for i := range 30 {
			l := acquire(t, s.Node(i%3).Cluster(), "lock")
			time.Sleep(time.Second)
			release(t, l)
		}
		for _, m := range s.Node(0).Cluster().Members() {
			if m.State == holdfast.StateFailed {
				t.Errorf("%s is taken for dead", m.Name)
			}
		}
	})
}

func TestTheClockOfAPausedNodeGoesOn(t *testing.T) {
	fleet(t, 3, func(s *sim.Sim) {
		n := s.Node(0)
		l := acquire(t, n.Cluster(), "lock")
		n.Pause()
		select {
		case <-n.Awake():
			t.Error("a paused node is awake")
		default:
		}
		next := acquire(t, s.Node(1).Cluster(), "lock")
		if !l.Valid() {
			t.Error("a stopped process has noticed something")
		}
		n.Resume()
		<-n.Awake()
		if l.Valid() || next.Token() <= l.Token() {
			t.Errorf("at the first look after the pause: valid=%v, token %d after %d", l.Valid(), next.Token(), l.Token())
		}
		n.Ready()
	})
}

func TestADiskKeepsWhatWasSyncedAtAPowerCutAndEverythingAtTheEndOfAProcess(t *testing.T) {
	fleet(t, 3, func(s *sim.Sim) {
		n := s.Node(0)
		for what, end := range map[string]func(){"killed": n.Kill, "crashed": n.Crash, "restarted": func() { n.Restart() }} {
			id := n.Cluster().ID()
			l := acquire(t, n.Cluster(), "lock")
			ctx := n.Context()
			end()
			if n.Cluster() == nil {
				n.Open()
			}
			n.Ready()
			if ctx.Err() == nil || n.Context().Err() != nil {
				t.Errorf("%s: the context of the old process, %v, or of the new one, %v", what, ctx.Err(), n.Context().Err())
			}
			if n.Cluster().ID() != id {
				t.Errorf("%s: it came back as another node", what)
			}
			if next := acquire(t, n.Cluster(), "lock"); next.Token() <= l.Token() {
				t.Errorf("%s: token %d after %d", what, next.Token(), l.Token())
			} else {
				release(t, next)
			}
		}
	})
}

func TestAWipedNodeComesBackAsAnother(t *testing.T) {
	fleet(t, 3, func(s *sim.Sim) {
		n := s.Node(2)
		id := n.Cluster().ID()
		n.Kill()
		n.Wipe()
		if c := n.Open(); c.ID() == id {
			t.Error("it has its old id")
		}
		n.Ready()
	})
}

func TestASlowDiskMakesProposalsSlow(t *testing.T) {
	fleet(t, 1, func(s *sim.Sim) {
		const slow = 300 * time.Millisecond
		s.Node(0).SlowDisk(slow)
		began := time.Now()
		l := acquire(t, s.Node(0).Cluster(), "lock")
		if took := time.Since(began); took < slow || took > 10*slow {
			t.Errorf("a grant took %v", took)
		}
		s.Node(0).SlowDisk(0)
		release(t, l)
	})
}

func TestANodeWhoseDiskHangsIsConnectedAndServesAgain(t *testing.T) {
	fleet(t, 3, func(s *sim.Sim) {
		n := s.RaftLeader()
		rest := make([]*sim.Node, 0, 2)
		for _, o := range s.Nodes() {
			if o != n {
				rest = append(rest, o)
			}
		}
		n.HangDisk(true)
		n.Pause() // whose end does not mend the disk
		n.Resume()
		written := func(n *sim.Node, d time.Duration) error { // reads need no disk
			l, err := n.Cluster().Acquire(until(d), "written")
			if err == nil {
				release(t, l)
			}
			return err
		}
		if err := written(rest[0], 20*time.Second); err != nil {
			t.Errorf("the others: %v", err)
		}
		if err := written(n, 5*time.Second); err == nil {
			t.Error("the node serves without its disk")
		}
		n.HangDisk(false)
		if err := written(n, 20*time.Second); err != nil {
			t.Errorf("its disk writes again: %v", err)
		}
	})
}

// A failed engine leaves goroutines, which the bubble takes for a deadlock: what matters is told
// before.
func TestANodeWhoseDiskIsFullStopsServing(t *testing.T) {
	message(t, "the others serve", func(s *sim.Sim) {
		n := s.Node(0)
		n.FullDisk(true)
		_, _ = n.Cluster().Acquire(until(time.Minute), "lock")
		<-n.Cluster().Done()
		if err := n.Cluster().Err(); err == nil || errors.Is(err, holdfast.ErrClosed) {
			t.Errorf("it ended with %v", err)
			return
		}
		if err := reach(s.Node(1), 20*time.Second); err != nil {
			t.Errorf("the others: %v", err)
			return
		}
		t.Log("the others serve")
	})
}

func TestAClockThatDriftsBeyondTheBoundBreaksTheLockAndWithinItDoesNot(t *testing.T) {
	t.Parallel()
	for rate, holders := range map[float64]int{0.5: 2, 0.995: 1} {
		sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
			s.Node(0).Drift(rate)
			l := acquire(t, s.Node(0).Cluster(), "lock", holdfast.WithTTL(ttl))
			s.Node(0).Isolate()
			acquire(t, s.Node(1).Cluster(), "lock", holdfast.WithTTL(ttl))
			count := 1
			if l.Valid() {
				count++
			}
			if count != holders {
				t.Errorf("at a rate of %v there are %d holders, want %d", rate, count, holders)
			}
		})
	}
}

func TestASuspendedMachineHasLostItsLease(t *testing.T) {
	fleet(t, 1, func(s *sim.Sim) {
		l := acquire(t, s.Node(0).Cluster(), "lock")
		s.Node(0).Suspend(time.Hour)
		if l.Valid() {
			t.Error("it is valid after an hour")
		}
	})
}

func TestTheNemesisDoesEveryKindOfFaultAndHealsTheFleet(t *testing.T) {
	t.Parallel()
	for i := range 2 * int(sim.FaultFreeze) {
		kind, diskless := sim.Fault(i/2+1), i%2 == 1
		t.Run(fmt.Sprintf("%v diskless=%v", kind, diskless), func(t *testing.T) {
			t.Parallel()
			var lives atomic.Int64
			sim.Run(t, sim.Options{
				Nodes: 3, Seed: uint64(kind), Diskless: diskless,
				Config: func(_ int, c *holdfast.Config) { c.TTL = ttl },
				Service: func(ctx context.Context, _ *sim.Node, _ *holdfast.Cluster) error {
					lives.Add(1)
					<-ctx.Done()
					return nil
				},
			}, func(s *sim.Sim) {
				s.Nemesis(time.Minute, kind)
				for _, n := range s.Nodes() {
					release(t, acquire(t, n.Cluster(), "lock"))
				}
			})
			deadly := kind >= sim.FaultKill && kind <= sim.FaultRestart || kind >= sim.FaultMove && kind < sim.FaultHungDisk
			deadly = deadly && !(diskless && kind == sim.FaultMove)
			if died := lives.Load() > 3; died != deadly {
				t.Errorf("%d processes were started on 3 nodes", lives.Load())
			}
		})
	}
}

// What no lock can prevent lasts as long as nothing reaches the machine: docs/guarantees.md says so.
func TestAMachineWhoseClocksStoodStillLosesItsLeasesWithTheFirstMessage(t *testing.T) {
	fleet(t, 3, func(s *sim.Sim) {
		for _, leads := range []bool{true, false} {
			n := s.RaftLeader()
			if !leads {
				n = s.Node((n.Index() + 1) % 3)
			}
			other := s.Node((n.Index() + 2) % 3)
			l := acquire(t, n.Cluster(), "lock")
			time.Sleep(time.Second) // a clock that has lost time is compared anew: a message each way
			n.Freeze()
			next := acquire(t, other.Cluster(), "lock")
			n.Isolate()
			n.Resume()
			if !l.Valid() || !next.Valid() {
				t.Error("a machine whose clocks stood still knows it, and nobody has told it")
			}
			time.Sleep(ttl / 4)
			if !l.Valid() {
				t.Error("the lease has ended, and nothing has come")
			}
			n.Rejoin()
			began := time.Now()
			select {
			case <-l.Done():
			case <-time.After(time.Minute):
			}
			if took := time.Since(began); took > 2*time.Second || !errors.Is(l.Err(), holdfast.ErrClockStopped) || !next.Valid() {
				t.Errorf("%v after it was connected again the lease ended with %v; the other is valid: %v", took, l.Err(), next.Valid())
			}
			release(t, next)
			release(t, acquire(t, n.Cluster(), "lock"))
		}
	})
}
