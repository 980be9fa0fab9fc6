package wire

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/raftio"
	"github.com/lni/dragonboat/v4/raftpb"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/tally"
	"github.com/holdfast-go/holdfast/transport"
)

// bottomless is a disk that has every entry.
type bottomless struct{}

func (bottomless) Last() uint64                   { return numberMax }
func (bottomless) Reaches(uint64) <-chan struct{} { return nil }

// mailbox is a carrier without an engine.
type mailbox struct {
	*Carrier
	endpoint transport.Endpoint
	mu       sync.Mutex
	got      []raftpb.MessageBatch
	chunks   atomic.Int64
	arrived  chan struct{}
}

func newMailbox(t *testing.T, network transport.Network, n int, handle func()) *mailbox {
	t.Helper()
	return newMailboxWith(t, network, n, handle, transport.Options{})
}

func newMailboxWith(t *testing.T, network transport.Network, n int, handle func(), opts transport.Options) *mailbox {
	t.Helper()
	endpoint, err := network.Listen(t.Context(), fmt.Sprintf("10.0.0.%d:7946", n), opts)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	m := &mailbox{endpoint: endpoint, arrived: make(chan struct{}, 1000)}
	m.Carrier = New(Config{
		Node: goodGreeting(n).node, Incarnation: 1 << RunBits, Cluster: testCluster, Endpoint: endpoint,
		Resolve: func(string) (string, bool) { return "", false }, Logger: slog.New(slog.DiscardHandler), Disk: bottomless{},
		Traffic:  new(tally.Traffic),
		Recorded: func(fsm.Node) (uint64, bool) { return 0, false }, Expelled: func(error) {},
		Wall: func() time.Duration { return 0 }, Told: func(string, time.Duration, time.Time) {},
		Hold:  func(messages []raftpb.Message) []raftpb.Message { return messages },
		Clock: func() lease.Instant { return lease.Instant(time.Since(began)) }, Behind: func(time.Duration, fsm.Node) {},
		Ended: func(Ending) {}, Risen: func(uint64) {}, Word: func(uint64, Word) {}, Chosen: func(uint64) {}, Removed: func() {},
	})
	if err := m.Ready(); err != nil {
		t.Fatal(err)
	}
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
	if err := errors.Join(m.Carrier.Close(), m.endpoint.Close()); err != nil {
		t.Error(err)
	}
}

// connected is two mailboxes, and a connection of the engine from one to the other.
func connected(t *testing.T) (network *transport.Memory, to, from *mailbox, conn raftio.IConnection) {
	t.Helper()
	network = transport.NewMemory(1)
	to, from = newMailbox(t, network, 1, func() {}), newMailbox(t, network, 2, func() {})
	t.Cleanup(func() { to.end(t) })
	t.Cleanup(func() { from.end(t) })
	conn, err := from.GetConnection(t.Context(), to.endpoint.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return network, to, from, conn
}

func TestBatchesArriveOnceAndInOrderAlsoWhenTheyAreLarge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, to, _, conn := connected(t)
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
		if node, ok := to.Nodes.Node(ReplicaID(nodeID(2))); !ok || node != nodeID(2) {
			t.Error("a replica that has just joined would not know whom to answer")
		}
	})
}

// The pauses are those of heartbeats: above a second each was taken for a new begin, and the
// connection waited for TCP, for as long as the partition had lasted.
func TestConnectionThatIsNotAcknowledgedIsGivenUp(t *testing.T) {
	t.Parallel()
	for _, pause := range []time.Duration{20 * time.Millisecond, 100 * time.Millisecond, time.Second, 1500 * time.Millisecond, 3 * time.Second} {
		t.Run(pause.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { givenUp(t, pause) })
		})
	}
}

func givenUp(t *testing.T, pause time.Duration) {
	network, to, _, conn := connected(t)
	send := func() error { return conn.SendMessageBatch(goodBatch(nil)) }
	for range 100 {
		if err := send(); err != nil {
			t.Fatalf("on a good connection: %v", err)
		}
		time.Sleep(pause)
	}
	time.Sleep(time.Minute) // a pause is no sign of death
	if err := send(); err != nil {
		t.Fatalf("after a pause: %v", err)
	}
	network.Isolate(to.endpoint.Addr())
	cut := time.Now()
	for send() == nil {
		time.Sleep(pause)
	}
	if took := time.Since(cut); took > 2*batchTimeout+pause {
		t.Errorf("given up after %v", took)
	}
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
