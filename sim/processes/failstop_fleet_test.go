package processes_test

import (
	"context"
	"errors"
	"fmt"
	"runtime/pprof"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lni/dragonboat/v4/logger"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/consensus"
	"github.com/holdfast-go/holdfast/internal/process/processtest"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

// patients is a fleet whose nodes stand on disks that the test can break.
type patients struct {
	t     *testing.T
	peers *testkit.PeersFile
	disks []*brittle
	nodes []*holdfast.Cluster

	mu     sync.Mutex
	lost   []error // what the hooks of the victim were told
	failed []error
}

func newPatients(t *testing.T) *patients {
	t.Helper()
	p := &patients{t: t, peers: testkit.NewPeersFile(t), disks: []*brittle{newBrittle(), newBrittle(), newBrittle()}}
	for i := range p.disks {
		p.nodes = append(p.nodes, p.open(i))
	}
	testkit.AllReady(t, p.nodes)
	return p
}

func (p *patients) open(i int) *holdfast.Cluster {
	p.t.Helper()
	c, err := openOn(p.t, p.disks[i], holdfast.Config{
		Cluster: testkit.Cluster(p.t), Name: fmt.Sprint("n", i), Join: p.peers.Join(), Bootstrap: 3,
		Events: holdfast.Events{
			LeaseLost: func(_ string, _ holdfast.Token, err error) { p.note(&p.lost, err) },
			Failed:    func(err error) { p.note(&p.failed, err) },
		},
	})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { c.Close() })
	p.peers.Add(c)
	return c
}

func (p *patients) note(list *[]error, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	*list = append(*list, err)
}

// raftLeader is the place of the raft leader.
func (p *patients) raftLeader() (place int) {
	p.t.Helper()
	testkit.Polled(p.t, "have a raft leader", func() bool {
		for i, c := range p.nodes {
			if c.Status().RaftLeader == c.ID() {
				place = i
				return true
			}
		}
		return false
	})
	return place
}

// invariant reports a broken invariant the way a goroutine of the node's engine does, and waits
// until that is heard.
func invariant(c *holdfast.Cluster) {
	labels := pprof.Labels("holdfast-replica", fmt.Sprint(consensus.ReplicaOf(c.ID(), 0)))
	go pprof.Do(context.Background(), labels, func(context.Context) {
		logger.GetLogger("raft").Panicf("invalid commitTo index %d, lastIndex() %d", 14, 3)
	})
	select {
	case <-c.Done():
	case <-time.After(failsWithin):
	}
}

func TestANodeThatCannotGoOnStopsAloneAndComesBack(t *testing.T) {
	if !processtest.Parked(t) {
		return
	}
	disk := func(kind string, err error) func(*holdfast.Cluster, *brittle) {
		return func(_ *holdfast.Cluster, disk *brittle) {
			disk.rule(func(_ int, call, _ string) error {
				if strings.HasPrefix(call, kind) {
					return err
				}
				return nil
			})
		}
	}
	for name, story := range map[string]struct {
		cause  error
		strike func(*holdfast.Cluster, *brittle)
	}{
		"full disk":        {syscall.ENOSPC, disk("", syscall.ENOSPC)},
		"failed sync":      {syscall.EIO, disk("sync", syscall.EIO)},
		"broken invariant": {consensus.ErrInvariant, func(c *holdfast.Cluster, _ *brittle) { invariant(c) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failsAlone(t, story.cause, story.strike)
		})
	}
}

// failsAlone breaks the raft leader of a fleet and follows everybody concerned.
func failsAlone(t *testing.T, cause error, strike func(*holdfast.Cluster, *brittle)) {
	const ttl = 10 * time.Second // it has to live until the fault strikes, on a slow disk as well
	p := newPatients(t)
	place := p.raftLeader()
	victim, rest := p.nodes[place], []*holdfast.Cluster{p.nodes[(place+1)%3], p.nodes[(place+2)%3]}
	mine := testkit.Acquire(t, victim, "mine", holdfast.WithTTL(ttl))
	many := testkit.Acquire(t, victim, "of another session", holdfast.WithTTL(time.Hour))
	manual := testkit.Acquire(t, victim, "renewed by hand", holdfast.WithTTL(time.Hour), holdfast.WithManualRenew())
	other := testkit.Acquire(t, rest[0], "other", holdfast.WithTTL(30*time.Second))
	next := make(chan *holdfast.Lease, 1)
	go func() {
		l, err := rest[1].Acquire(testkit.Within(t, time.Minute), "mine", holdfast.WithTTL(30*time.Second))
		if err != nil {
			t.Errorf("the next holder got %v", err)
		}
		next <- l
	}()
	calls := make(chan error, 1)
	go func() { // waits in a queue of the victim's
		_, err := victim.Acquire(t.Context(), "other")
		calls <- err
	}()
	testkit.Eventually(t, rest[1], "wait", func() bool { return rest[1].Status().Waiting == 1 && victim.Status().Waiting == 1 })

	began := time.Now()
	strike(victim, p.disks[place])
	if err := mine.Set(testkit.Within(t, failsWithin), []byte("never")); err == nil {
		t.Error("a write was acknowledged by a node that cannot go on")
	}
	sick(t, victim, cause, mine, many, manual)
	if err := <-calls; !errors.Is(err, cause) {
		t.Errorf("a call that waited at the failed node was told %v", err)
	}
	if l := <-next; l != nil {
		if took := time.Since(began); took > ttl+testkit.LateMax+testkit.CloseMax {
			t.Errorf("granted again after %v", took)
		}
		if l.Token() <= mine.Token() {
			t.Errorf("token %d after %d", l.Token(), mine.Token())
		}
	}
	if !other.Valid() || other.Renew(testkit.Within(t, 10*time.Second)) != nil {
		t.Errorf("a lease of another node ended with it: %v", other.Err())
	}
	for _, c := range rest {
		testkit.Serves(t, testkit.Within(t, 10*time.Second), c)
	}
	p.mu.Lock()
	if len(p.failed) != 1 || len(p.lost) != 3 {
		t.Errorf("the hooks were told of %d failures and of %d lost leases, 1 and 3 are right", len(p.failed), len(p.lost))
	}
	p.mu.Unlock()

	p.disks[place] = restarted(t, p.disks[place])
	back := p.open(place)
	if back.ID() != victim.ID() {
		t.Errorf("it came back as %s, was %s", back.ID(), victim.ID())
	}
	if err := back.Ready(testkit.Within(t, 20*time.Second)); err != nil {
		t.Errorf("on the mended disk: %v", err)
	}
	testkit.Serves(t, testkit.Within(t, 10*time.Second), back)
	// Its successor frees what the failed one held, long before the TTL.
	testkit.Release(t, testkit.Acquire(t, rest[0], "of another session"))
	testkit.Release(t, testkit.Acquire(t, rest[1], "renewed by hand"))
}
