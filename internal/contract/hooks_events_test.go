package contract_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/sim"
)

// heard is what the hooks of one node were told.
type heard struct {
	mu   sync.Mutex
	list []string
}

func (h *heard) note(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.list = append(h.list, fmt.Sprintf(format, args...))
}

// of takes what was told by hooks of a kind.
func (h *heard) of(kind string) (list []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, line := range h.list {
		if len(line) > len(kind) && line[:len(kind)] == kind {
			list = append(list, line[len(kind)+1:])
		}
	}
	return list
}

// first is the most telling sentinel in an error.
func first(err error) error {
	for _, known := range []error{holdfast.ErrForced, holdfast.ErrExpired, holdfast.ErrReleased, holdfast.ErrHeld, holdfast.ErrNoQuorum} {
		if errors.Is(err, known) {
			return known
		}
	}
	return err
}

// events are hooks that note everything.
func (h *heard) events() holdfast.Events {
	return holdfast.Events{
		Granted: func(name string, _ holdfast.Token, waited time.Duration) { h.note("granted %s %v", name, waited >= 0) },
		Ended: func(name string, _ holdfast.Token, held time.Duration, cause error) {
			h.note("ended %s %v %v", name, held.Round(time.Second), first(cause))
		},
		Refused: func(name string, err error, waited time.Duration) {
			h.note("refused %s %v %v", name, waited.Round(time.Second), first(err))
		},
		LeaseLost:  func(name string, _ holdfast.Token, err error) { h.note("lost %s %v", name, first(err)) },
		Jeopardy:   func(name string, j holdfast.Jeopardy) { h.note("jeopardy %s %v", name, j.Safe) },
		Quorum:     func(ok bool, missing []string) { h.note("quorum %v %v", ok, missing) },
		RaftLeader: func(node string) { h.note("leader %s.", node) },
	}
}

// want says that hooks of a kind were told just this.
func (h *heard) want(t *testing.T, kind string, lines ...string) {
	t.Helper()
	if got := h.of(kind); !slices.Equal(got, lines) {
		t.Errorf("told of %s %q, want %q", kind, got, lines)
	}
}

func TestEveryHookIsToldWhatHappenedExactlyOnce(t *testing.T) {
	t.Parallel()
	var told [3]heard
	config := func(i int, cfg *holdfast.Config) { cfg.Events = told[i].events() }
	sim.Run(t, sim.Options{Nodes: 3, Config: config}, func(s *sim.Sim) {
		leader := s.RaftLeader()
		rest := slices.DeleteFunc(slices.Clone(s.Nodes()), func(n *sim.Node) bool { return n == leader })
		witness, other := rest[0], rest[1]
		c, h := witness.Cluster(), &told[witness.Index()]
		missing := []string{leader.Cluster().ID(), other.Cluster().ID()}
		toldOfCalls(t, c, h)

		leader.Kill() // a lease lives through that, and no majority is lost
		time.Sleep(5 * time.Second)
		h.want(t, "jeopardy")
		h.want(t, "quorum")
		leaders := h.of("leader")
		if n := len(leaders); n < 2 || leaders[n-1] != c.Status().RaftLeader+"." || len(slices.Compact(slices.Clone(leaders))) != n {
			t.Errorf("told of raft leaders %q, now %s", leaders, c.Status().RaftLeader)
		}
		changes := c.Status().Metrics.LeaderChanges
		if named := len(slices.DeleteFunc(leaders, func(l string) bool { return l == "." })); changes != uint64(named) {
			t.Errorf("%d changes of raft leaders counted, %d told", changes, named)
		}

		other.Kill()
		_, refused := c.Acquire(until(30*time.Second), "nobody's")
		time.Sleep(time.Minute)
		h.want(t, "jeopardy", "kept false")
		h.want(t, "lost", "forced "+holdfast.ErrForced.Error(), "kept "+holdfast.ErrExpired.Error())
		h.want(t, "refused", "kept 0s "+holdfast.ErrHeld.Error(), "nobody's 30s "+holdfast.ErrNoQuorum.Error())
		if lost := h.of("quorum"); len(lost) != 1 || lost[0] != fmt.Sprint(false, missing) && lost[0] != fmt.Sprint(false, []string{missing[1], missing[0]}) {
			t.Errorf("told of the majority %q, missing are %v (%v)", lost, missing, refused)
		}
		leader.Open()
		other.Open()
		for _, n := range s.Nodes() {
			n.Ready()
		}
		time.Sleep(5 * time.Second)
		if list := h.of("quorum"); len(list) != 2 || list[1] != "true []" {
			t.Errorf("told of the majority %q", list)
		}
		f := c.Status().Metrics
		if f.Granted != 3 || f.Released != 1 || f.Lost["forced"] != 1 || f.Lost["expired"] != 1 || f.Refused["held"] != 1 ||
			f.Refused["no_quorum"] != 1 || f.HooksDropped != 0 || f.RenewalsSent == 0 || f.RenewalsFailed == 0 {
			t.Errorf("figures %+v", f)
		}
	})
}

// toldOfCalls leaves the lock "kept" held.
func toldOfCalls(t *testing.T, c *holdfast.Cluster, h *heard) {
	forced := get(t, c, "forced")
	get(t, c, "kept", holdfast.WithTTL(10*time.Second))
	if _, err := c.TryAcquire(until(time.Minute), "kept"); !errors.Is(err, holdfast.ErrHeld) {
		t.Fatal(err)
	}
	given := get(t, c, "given")
	time.Sleep(2 * time.Second)
	if err := errors.Join(given.Release(until(time.Minute)), given.Release(until(time.Minute)),
		c.ForceRelease(until(time.Minute), "forced", forced.Token(), "test")); err != nil {
		t.Fatal(err)
	}
	<-forced.Done()
	time.Sleep(time.Second)
	h.want(t, "granted", "forced true", "kept true", "given true")
	h.want(t, "refused", "kept 0s "+holdfast.ErrHeld.Error())
	h.want(t, "ended", "given 2s "+holdfast.ErrReleased.Error(), "forced 2s "+holdfast.ErrForced.Error())
	h.want(t, "lost", "forced "+holdfast.ErrForced.Error())
}

func TestJeopardyIsToldOfEveryLeaseAndWhenItIsSafeAgain(t *testing.T) {
	t.Parallel()
	var told [3]heard
	config := func(i int, cfg *holdfast.Config) { cfg.Events = told[i].events() }
	sim.Run(t, sim.Options{Nodes: 3, Config: config}, func(s *sim.Sim) {
		n := s.Node(0)
		for i := range 3 {
			get(t, n.Cluster(), fmt.Sprint(i), holdfast.WithTTL(20*time.Second))
		}
		n.Isolate()
		time.Sleep(15 * time.Second)
		n.Rejoin()
		time.Sleep(10 * time.Second)
		got := told[0].of("jeopardy")
		slices.Sort(got)
		if want := []string{"0 false", "0 true", "1 false", "1 true", "2 false", "2 true"}; !slices.Equal(got, want) {
			t.Errorf("told %q, want %q", got, want)
		}
	})
}

func TestFiguresShowWhatTheNodeDoes(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 3, SnapshotEvery: 50}, func(s *sim.Sim) {
		ctx := until(time.Hour)
		away := s.Node(2)
		away.Kill()
		c := s.Node(0).Cluster()
		for range 300 {
			if err := c.Do(ctx, "lock", func(context.Context, *holdfast.Lease) error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
		away.Open()
		away.Ready()
		f, g := c.Status().Metrics, away.Cluster().Status().Metrics
		for what, ok := range map[string]bool{
			"commits":    f.Commit.Count >= 300,
			"fsyncs":     f.Fsync.Count >= 300,
			"index":      f.Committed >= c.Status().Applied && f.Committed < c.Status().Applied+100,
			"snapshots":  f.SnapshotsWritten.Seconds.Count > 0 && f.SnapshotsWritten.Bytes > 0,
			"installed":  g.SnapshotsInstalled.Seconds.Count > 0 && g.SnapshotsInstalled.Bytes > 0,
			"raft":       f.Raft.Sent > 0 && f.Raft.Received > 0,
			"gossip":     f.Gossip.Sent > 0 && f.Gossip.Received > 0,
			"grants":     f.Granted == 300 && f.Released == 300,
			"leaders":    f.LeaderChanges >= 1,
			"every loss": len(f.Lost) == 7 && len(f.Refused) == 12,
		} {
			if !ok {
				t.Errorf("%s: %+v, %+v", what, f, g)
			}
		}
		for _, h := range []holdfast.Histogram{f.Commit, f.Fsync, f.Expiries, f.SnapshotsWritten.Seconds} {
			last := holdfast.Bucket{}
			for _, b := range h.Buckets {
				if b.UpTo <= last.UpTo || b.Count < last.Count || b.Count > h.Count {
					t.Errorf("buckets %v of %d", h.Buckets, h.Count)
				}
				last = b
			}
		}
	})
}
