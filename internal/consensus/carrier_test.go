package consensus

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/raftpb"
	"github.com/lni/vfs"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/transport"
)

// mailbox is a carrier without an engine.
type mailbox struct {
	*carrier
	endpoint transport.Endpoint
	mu       sync.Mutex
	got      []raftpb.MessageBatch
	chunks   atomic.Int64
	arrived  chan struct{}
}

func newMailbox(t *testing.T, network transport.Network, n int, handle func()) *mailbox {
	t.Helper()
	endpoint, err := network.Listen(t.Context(), newBench().bind(n), transport.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m := &mailbox{endpoint: endpoint, arrived: make(chan struct{}, 1000)}
	m.carrier = &carrier{
		endpoint: endpoint, nodes: newRegistry(func(string) (string, bool) { return "", false }), depth: &depth{},
		log: slog.New(slog.DiscardHandler), reach: reach{log: slog.New(slog.DiscardHandler)}, muted: make(chan struct{}),
		validator: validator{node: nodeID(n), replica: ReplicaID(nodeID(n)), deployment: deployment(testCluster)},
		ready:     make(chan struct{}), ended: make(chan struct{}), self: goodGreeting(n), expelled: func(error) {},
		known:  newKnownReplicas(ReplicaID(nodeID(n)), func(fsm.Node) (uint64, bool) { return 0, false }, func(uint64) bool { return false }),
		clocks: newClocks(time.Now), opening: newOpening(),
	}
	m.carrier.opening.open()
	m.depth.set(numberMax)
	close(m.carrier.ready)
	m.Create(config.NodeHostConfig{}, func(b raftpb.MessageBatch) {
		handle()
		m.mu.Lock()
		m.got = append(m.got, b)
		m.mu.Unlock()
		m.arrived <- struct{}{}
	}, func(raftpb.Chunk) bool { return m.chunks.Add(1) < 2 })
	if err := m.Start(); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *mailbox) end(t *testing.T) {
	t.Helper()
	if err := errors.Join(m.carrier.Close(), m.endpoint.Close()); err != nil {
		t.Error(err)
	}
}

func TestBatchesArriveOnceAndInOrderAlsoWhenTheyAreLarge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := transport.NewMemory(1)
		to, from := newMailbox(t, network, 1, func() {}), newMailbox(t, network, 2, func() {})
		defer to.end(t)
		defer from.end(t)
		conn, err := from.GetConnection(t.Context(), to.endpoint.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		batch := goodBatch(nil)
		message := batch.Requests[0]
		message.Entries[0].Cmd = append([]byte{0}, make([]byte, 1<<20)...)
		batch.Requests = nil
		for i := range 10 {
			message.Commit = uint64(i)
			batch.Requests = append(batch.Requests, message)
		}
		if err := conn.SendMessageBatch(batch); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		commit := uint64(0)
		for _, b := range to.got {
			for _, m := range b.Requests {
				if m.Commit != commit {
					t.Errorf("message %d where %d was due", m.Commit, commit)
				}
				commit++
			}
			if b.SourceAddress != "" {
				t.Error("the sender's address reaches the engine, which would make it a member")
			}
		}
		if commit != 10 || len(to.got) < 2 {
			t.Errorf("%d messages in %d batches", commit, len(to.got))
		}
		if node, ok := to.nodes.node(ReplicaID(nodeID(2))); !ok || node != nodeID(2) {
			t.Error("a replica that has just joined would not know whom to answer")
		}
	})
}

func TestConnectionThatIsNotAcknowledgedIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := transport.NewMemory(1)
		to, from := newMailbox(t, network, 1, func() {}), newMailbox(t, network, 2, func() {})
		defer to.end(t)
		defer from.end(t)
		conn, err := from.GetConnection(t.Context(), to.endpoint.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		send := func() error { return conn.SendMessageBatch(goodBatch(nil)) }
		for range 100 {
			if err := send(); err != nil {
				t.Fatalf("on a good connection: %v", err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(time.Minute) // a pause is no sign of death
		if err := send(); err != nil {
			t.Fatalf("after a pause: %v", err)
		}
		network.Isolate(to.endpoint.Addr())
		cut := time.Now()
		for send() == nil {
			time.Sleep(20 * time.Millisecond)
		}
		if took := time.Since(cut); took > 2*batchTimeout {
			t.Errorf("given up after %v", took)
		}
	})
}

func TestRefusedSnapshotShowsOnTheNextPiece(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := transport.NewMemory(1)
		to, from := newMailbox(t, network, 1, func() {}), newMailbox(t, network, 2, func() {})
		defer to.end(t)
		defer from.end(t)
		conn, err := from.GetSnapshotConnection(t.Context(), to.endpoint.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		for i := range 2 { // the second one is refused, but sent
			if err := conn.SendChunk(goodChunk(nil)); err != nil {
				t.Fatalf("piece %d: %v", i, err)
			}
			synctest.Wait()
		}
		if err := conn.SendChunk(goodChunk(nil)); err == nil {
			t.Error("the sender does not notice")
		}
	})
}

// The engine remembers each replica that was ever removed, and each piece of a snapshot names them
// all. With the bound of a frame at 4 MiB, no replica could have been restored any more after some
// 145,000 removals.
func TestASnapshotPassesAfterManyReplicasWereRemoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := transport.NewMemory(1)
		to, from := newMailbox(t, network, 1, func() {}), newMailbox(t, network, 2, func() {})
		defer to.end(t)
		defer from.end(t)
		conn, err := from.GetSnapshotConnection(t.Context(), to.endpoint.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		piece := goodChunk(func(c *raftpb.Chunk) {
			c.Data, c.ChunkSize, c.Membership.Removed = make([]byte, 2<<20), 2<<20, make(map[uint64]bool)
			for n := range uint64(500_000) {
				c.Membership.Removed[1<<62+n] = true
			}
		})
		if err := conn.SendChunk(piece); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if to.chunks.Load() != 1 {
			t.Error("a piece of a snapshot is refused for the removed replicas that it names")
		}
	})
}

func TestCloseOfTheCarrierWaitsForDeliveriesAndDropsLaterOnes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := transport.NewMemory(1)
		release := make(chan struct{})
		to := newMailbox(t, network, 1, func() { <-release })
		from := newMailbox(t, network, 2, func() {})
		defer from.end(t)
		conn, err := from.GetConnection(t.Context(), to.endpoint.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		for range 2 {
			if err := conn.SendMessageBatch(goodBatch(nil)); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait() // the first one is being delivered
		closed := make(chan struct{})
		go func() { to.end(t); close(closed) }()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("closed while the engine was being called")
		default:
		}
		close(release)
		<-closed
		if len(to.got) != 1 {
			t.Errorf("%d batches delivered, one of them after Close", len(to.got))
		}
	})
}

func TestStrangersNeitherStopNorEnterTheReplica(t *testing.T) {
	t.Parallel()
	b := newBench()
	b.network, b.bind = transport.TCP(), func(int) string { return "127.0.0.1:0" }
	r := b.open(t, 1, vfs.NewMem(), StartBootstrap)
	defer r.close(t)
	r.propose(t, birth())
	stranger, err := b.network.Listen(t.Context(), "127.0.0.1:0", transport.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	evil := goodBatch(func(b *raftpb.MessageBatch) { b.Requests[0].To = 0 })
	random := make([]byte, 4096)
	rand.Read(random)
	for i, payload := range [][]byte{random, make([]byte, 4096), append(framed(t, frameGreeting, goodGreeting(2)), framed(t, frameBatch, &evil)...)} {
		conn, err := stranger.Dial(t.Context(), r.endpoint.Addr(), transport.KindRaft)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Write(payload)
		if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		var timeout net.Error
		if _, err := io.ReadAll(conn); errors.As(err, &timeout) && timeout.Timeout() {
			t.Errorf("payload %d: the connection stays open", i)
		}
		conn.Close()
	}
	if n := r.carrier.refused.Load(); n != 3 {
		t.Errorf("%d frames refused, want 3", n)
	}
	r.propose(t, fsm.Level{Level: 1})
}

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
