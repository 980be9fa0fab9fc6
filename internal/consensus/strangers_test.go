package consensus

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lni/dragonboat/v4/raftpb"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/transport"
)

// dialRaft is a stranger's connection, in a bubble. It has greeted in the name of the nth node,
// unless that is 0.
func dialRaft(t *testing.T, network transport.Network, addr string, n int) net.Conn {
	t.Helper()
	endpoint, err := network.Listen(t.Context(), "10.0.0.66:0", transport.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { endpoint.Close() })
	conn, err := endpoint.Dial(t.Context(), addr, transport.KindRaft)
	if err == nil && n > 0 {
		_, err = conn.Write(framed(t, frameGreeting, goodGreeting(n)))
	}
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// ended waits for the end of conn, and returns how long that took.
func ended(t *testing.T, conn net.Conn) time.Duration {
	t.Helper()
	began := time.Now()
	if err := conn.SetReadDeadline(began.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	var timeout net.Error
	if _, err := io.ReadAll(conn); errors.As(err, &timeout) && timeout.Timeout() {
		t.Fatal("the connection stays open")
	}
	return time.Since(began)
}

func TestConnectionThatBringsNoWholeFrameInTimeIsClosed(t *testing.T) {
	t.Parallel()
	batch := goodBatch(nil)
	greeting, good := framed(t, frameGreeting, goodGreeting(2)), framed(t, frameBatch, &batch)
	for name, said := range map[string][]byte{
		"silence":                   nil,
		"half a greeting":           greeting[:len(greeting)/2],
		"half a frame":              slices.Concat(greeting, good[:len(good)-1]),
		"half a frame after a good": slices.Concat(greeting, good, good[:len(good)-1]),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				network := transport.NewMemory(1)
				to := newMailbox(t, network, 1, func() {})
				defer to.end(t)
				conn := dialRaft(t, network, to.endpoint.Addr(), 0)
				if _, err := conn.Write(said); err != nil {
					t.Fatal(err)
				}
				if took := ended(t, conn); took > frameTimeout+time.Second {
					t.Errorf("closed after %v", took)
				}
				if n := to.refused.Load(); n != 1 {
					t.Errorf("%d refusals counted", n)
				}
			})
		})
	}
}

func TestConnectionMayBeQuietBetweenFrames(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := transport.NewMemory(1)
		to := newMailbox(t, network, 1, func() {})
		defer to.end(t)
		conn := dialRaft(t, network, to.endpoint.Addr(), 2)
		batch := goodBatch(nil)
		for range 3 {
			if _, err := conn.Write(framed(t, frameBatch, &batch)); err != nil {
				t.Fatal(err)
			}
			<-to.arrived
			time.Sleep(time.Hour)
		}
	})
}

func TestFramesOfAllConnectionsTogetherAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := transport.NewMemory(1)
		to := newMailbox(t, network, 1, func() {})
		defer to.end(t)
		to.memory.max = 4 << 20
		header := make([]byte, frameHeader)
		copy(header, []byte{frameBatch, 0, 0, 0, 0, 0, 0, 5}) // 80 MiB
		for range 20 {
			conn := dialRaft(t, network, to.endpoint.Addr(), 2)
			go func() {
				_, _ = conn.Write(header)
				_, _ = conn.Write(make([]byte, 1<<20)) // and no more
			}()
		}
		synctest.Wait()
		if n := to.memory.used.Load(); n == 0 || n > to.memory.max {
			t.Errorf("%d bytes are under way, want at most %d", n, to.memory.max)
		}
		if n := to.refused.Load(); n < 20-4-2 {
			t.Errorf("%d of 20 connections were refused, each of which would hold a megabyte", n)
		}
		// What small frames need is there all the same.
		conn := dialRaft(t, network, to.endpoint.Addr(), 2)
		batch := goodBatch(nil)
		if _, err := conn.Write(framed(t, frameBatch, &batch)); err != nil {
			t.Fatal(err)
		}
		<-to.arrived
		time.Sleep(3 * time.Minute) // until all were given up
		if n := to.memory.used.Load(); n != 0 {
			t.Errorf("%d bytes were not given back", n)
		}
	})
}

// lines counts what is logged.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

// What follows gets in, since there are no secrets, and comes from a node that nobody knows.
func TestMessagesThatAPeerMustNotSendHarmNoReplica(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		var log lines
		b.tune = func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) }
		group := b.trio(t)
		defer closeAll(t, group)
		leaderOf(t, group)
		sent := uint64(0)
		send := func(edit func(*raftpb.Message)) {
			sent++
			for _, r := range group {
				batch := goodBatch(func(b *raftpb.MessageBatch) {
					b.SourceAddress = nodeID(9)
					m := &b.Requests[0]
					m.From, m.To, m.Entries = ReplicaID(nodeID(9)), r.cfg.Replica, nil
					edit(m)
				})
				conn := dialRaft(t, b.network, r.endpoint.Addr(), 9)
				if _, err := conn.Write(framed(t, frameBatch, &batch)); err != nil {
					t.Fatal(err)
				}
				if took := ended(t, conn); took > 0 {
					t.Errorf("%v: refused after %v only", batch.Requests[0].Type, took)
				}
			}
		}
		_, term, _ := group[0].RaftLeader()
		for kind := raftpb.MessageType(-1); kind < 40; kind++ {
			switch kind {
			case raftpb.Propose, raftpb.ReadIndex, raftpb.LeaderTransfer, raftpb.SnapshotReceived: // a follower passes them on, and panics at a term
				send(func(m *raftpb.Message) { m.Type, m.Term, m.Hint, m.Entries = kind, term, 1, proposed() })
			case raftpb.RequestPreVoteResp:
			case raftpb.NoOP, raftpb.Replicate, raftpb.ReplicateResp, raftpb.RequestVote, raftpb.RequestVoteResp,
				raftpb.Heartbeat, raftpb.HeartbeatResp, raftpb.ReadIndexResp, raftpb.TimeoutNow, raftpb.RateLimit, raftpb.RequestPreVote:
				send(func(m *raftpb.Message) { m.Type, m.Term, m.LogTerm = kind, 0, 0 })
			default: // what a replica sends only to itself, or nobody
				send(func(m *raftpb.Message) { m.Type, m.Term = kind, term })
				send(func(m *raftpb.Message) { m.Type, m.Term = kind, 0 })
			}
		}
		send(func(m *raftpb.Message) { m.To = 0 })
		send(func(m *raftpb.Message) { m.ShardID = 0 })
		send(func(m *raftpb.Message) { m.Term = numberMax + 1 })
		for i, r := range group {
			if n := r.carrier.refused.Load(); n != sent {
				t.Errorf("replica %d refused %d of %d", i, n, sent)
			}
			r.propose(t, fsm.Level{Level: uint64(i + 1)})
		}
		if n := log.count("raft connection closed"); n == 0 || n > 2*len(group) {
			t.Errorf("%d lines about %d refusals", n, sent*3)
		}
	})
}
