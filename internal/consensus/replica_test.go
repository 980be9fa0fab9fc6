package consensus

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lni/vfs"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/transport"
)

const testCluster = "c1000000-0000-4000-8000-000000000001"

// nodeID is the id of the nth node.
func nodeID(n int) string { return fmt.Sprintf("a0000000-0000-4000-8000-%012d", n) }

// recorder is an Observer that remembers.
type recorder struct {
	mu       sync.Mutex
	events   []fsm.Event
	restored int
	failures []error
	changed  chan struct{} // closed and replaced whenever something was noted
}

func newRecorder() *recorder { return &recorder{changed: make(chan struct{})} }

func (r *recorder) note(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *recorder) Applied(events []fsm.Event) {
	r.note(func() { r.events = append(r.events, events...) })
}
func (r *recorder) Restored(m *fsm.Machine) { r.note(func() { r.restored++ }) }
func (r *recorder) LeaderChanged()          { r.note(func() {}) }
func (r *recorder) Failed(err error)        { r.note(func() { r.failures = append(r.failures, err) }) }

// await waits until ok returns true, which is asked again after every note.
func (r *recorder) await(t *testing.T, what string, ok func(*recorder) bool) {
	t.Helper()
	limit := time.NewTimer(30 * time.Second)
	defer limit.Stop()
	for {
		r.mu.Lock()
		done, changed := ok(r), r.changed
		r.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-limit.C:
			t.Fatalf("never: %s", what)
		}
	}
}

// addressBook resolves nodes for all replicas of a test.
type addressBook struct {
	mu    sync.Mutex
	addrs map[string]string
}

func (b *addressBook) set(node, addr string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.addrs == nil {
		b.addrs = make(map[string]string)
	}
	b.addrs[node] = addr
}

func (b *addressBook) resolve(node string) (string, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	addr, ok := b.addrs[node]
	return addr, ok
}

// replica is a group with what it stands on.
type replica struct {
	*Group
	node     string
	fs       vfs.FS
	endpoint transport.Endpoint
	seen     *recorder
}

// bench is a set of replicas on one network.
type bench struct {
	network transport.Network
	bind    func(n int) string
	book    addressBook
	tune    func(*Config)
	opened  atomic.Uint64
}

func newBench() *bench {
	return &bench{
		network: transport.NewMemory(1),
		bind:    func(n int) string { return fmt.Sprintf("10.0.0.%d:7946", n) },
	}
}

// open starts the nth replica on fs.
func (b *bench) open(t *testing.T, n int, fs vfs.FS, how Start) *replica {
	t.Helper()
	r, err := b.try(n, fs, how)
	if err != nil {
		t.Fatalf("opening replica %d: %v", n, err)
	}
	return r
}

func (b *bench) try(n int, fs vfs.FS, how Start) (*replica, error) {
	return b.tryIn(n, fs, "/data/raft", how)
}

func (b *bench) tryIn(n int, fs vfs.FS, dir string, how Start) (*replica, error) {
	endpoint, err := b.network.Listen(context.Background(), b.bind(n), transport.Options{})
	if err != nil {
		return nil, err
	}
	r := &replica{node: nodeID(n), fs: fs, endpoint: endpoint, seen: newRecorder()}
	b.book.set(r.node, endpoint.Addr())
	cfg := Config{
		Node: r.node, Incarnation: b.opened.Add(1) << RunBits, Cluster: testCluster, Dir: dir, FS: fs,
		Endpoint: endpoint, Resolve: b.book.resolve, Observer: r.seen,
		Level: math.MaxUint64, // a Level is what most tests propose: it needs no Birth, and the state shows it
	}
	if b.tune != nil {
		b.tune(&cfg)
	}
	if r.Group, err = Open(context.Background(), cfg, how); err != nil {
		return nil, errors.Join(err, endpoint.Close())
	}
	return r, nil
}

// close ends the replica and its endpoint.
func (r *replica) close(t *testing.T) {
	t.Helper()
	if err := r.Group.Close(); err != nil {
		t.Errorf("closing %s: %v", r.node, err)
	}
	if err := r.endpoint.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		t.Errorf("closing the endpoint of %s: %v", r.node, err)
	}
}

// propose insists on a command until it has an outcome.
func (r *replica) propose(t *testing.T, cmd fsm.Command) fsm.Outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	outcome, err := insist(ctx, r.Group, fsm.Encode(cmd))
	if err != nil {
		t.Fatalf("proposing on %s: %v", r.node, err)
	}
	return outcome
}

func insist(ctx context.Context, g *Group, cmd []byte) (fsm.Outcome, error) {
	for {
		outcome, err := g.Propose(ctx, cmd)
		if err == nil || ctx.Err() != nil || !errors.Is(err, ErrNotProposed) && !errors.Is(err, ErrUnknown) {
			return outcome, err
		}
		pause()
	}
}

// barrier insists on a Barrier.
func (r *replica) barrier(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		err := r.Barrier(ctx)
		if err == nil {
			return
		}
		if ctx.Err() != nil || !errors.Is(err, ErrNotProposed) && !errors.Is(err, ErrUnknown) {
			t.Fatalf("barrier on %s: %v", r.node, err)
		}
		pause()
	}
}

// pause is between two attempts, so that a test does not spin.
func pause() { <-time.After(5 * time.Millisecond) } // real time: no test depends on its length

func birth() fsm.Command { return fsm.Birth{Cluster: [16]byte{1}, Counter: 100} }
