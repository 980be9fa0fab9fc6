package consensus

import (
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lni/dragonboat/v4/raftpb"
	"github.com/lni/vfs"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/testlog"
	"github.com/holdfast-go/holdfast/transport"
)

// What follows gets in, since there are no secrets, and comes from a node that nobody knows.
func TestMessagesThatAPeerMustNotSendHarmNoReplica(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		var log testlog.Lines
		b.tune = func(c *Config) { c.Logger = log.Logger(slog.LevelInfo) }
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
				if _, err := conn.Write(framed(t, 'B', &batch)); err != nil {
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
		send(func(m *raftpb.Message) { m.Term = 1<<62 + 1 })
		for i, r := range group {
			if n := r.carrier.Refused(); n != sent {
				t.Errorf("replica %d refused %d of %d", i, n, sent)
			}
			r.propose(t, fsm.Level{Level: uint64(i + 1)})
		}
		if n := log.Count("raft connection closed"); n == 0 || n > 2*len(group) {
			t.Errorf("%d lines about %d refusals", n, sent*3)
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
	for i, payload := range [][]byte{random, make([]byte, 4096), append(greeted(2), framed(t, 'B', &evil)...)} {
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
	if n := r.carrier.Refused(); n != 3 {
		t.Errorf("%d frames refused, want 3", n)
	}
	r.propose(t, fsm.Level{Level: 1})
}
