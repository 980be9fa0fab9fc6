package consensus

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lni/dragonboat/v4/raftio"
	"github.com/lni/dragonboat/v4/raftpb"
	"github.com/lni/vfs"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/consensus/engine"
	"github.com/holdfast-go/holdfast/transport"
)

// Frames of strangers, put together by hand: the wire has no part in them, so a change of its
// format shows here.

// frame is a frame of a kind as it is on the wire.
func frame(kind byte, payload []byte) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(kind))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(payload)))
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(payload, crc32.MakeTable(crc32.Castagnoli)))
	return append(b, payload...)
}

// framed is a frame with a message of the engine's.
func framed(t testing.TB, kind byte, m interface{ Marshal() ([]byte, error) }) []byte {
	t.Helper()
	payload, err := m.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return frame(kind, payload)
}

// greeted is what node n says first on a connection.
func greeted(n int) []byte {
	node, err := fsm.ParseNode(nodeID(n))
	if err != nil {
		panic(err)
	}
	hello := binary.LittleEndian.AppendUint64([]byte{5}, deploymentOfTests) // version 5
	hello = append(hello, node[:]...)
	for _, v := range []uint64{1 << RunBits, 0, 0, 0, 0, 0} { // incarnation; life; term, vote and index that it began at; clock
		hello = binary.LittleEndian.AppendUint64(hello, v)
	}
	return frame('G', hello)
}

// deploymentOfTests is testCluster as messages carry it.
const deploymentOfTests = 0xca7ad63f516d2fe2

// goodBatch is what a peer sends; edit makes it worse.
func goodBatch(edit func(*raftpb.MessageBatch)) raftpb.MessageBatch {
	b := raftpb.MessageBatch{
		DeploymentId: deploymentOfTests, BinVer: raftio.TransportBinVersion, SourceAddress: nodeID(2),
		Requests: []raftpb.Message{{
			Type: raftpb.Replicate, From: ReplicaID(nodeID(2)), To: ReplicaID(nodeID(1)), ShardID: engine.Shard,
			Term: 3, LogTerm: 2, LogIndex: 7, Commit: 7, Entries: []raftpb.Entry{{Index: 8, Term: 3}},
		}},
	}
	edit(&b)
	return b
}

// proposed is a good proposal's content.
func proposed() []raftpb.Entry {
	cmd := fsm.Process{Node: fsm.Node{1}, Incarnation: 1}.AppendTo([]byte{0})
	return []raftpb.Entry{{Type: raftpb.EncodedEntry, ClientID: 1, Key: 1, Cmd: append(cmd, fsm.Encode(fsm.Serve{})...)}}
}

// pieceFile is the name of a snapshot's file.
func pieceFile(index uint64) string { return fmt.Sprintf("snapshot-%016X.gbsnap", index) }

// dialRaft is the connection of a stranger, which has greeted in the name of the nth node.
func dialRaft(t *testing.T, network transport.Network, addr string, n int) net.Conn {
	t.Helper()
	endpoint, err := network.Listen(t.Context(), "10.0.0.66:0", transport.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { endpoint.Close() })
	conn, err := endpoint.Dial(t.Context(), addr, transport.KindRaft)
	if err == nil {
		_, err = conn.Write(greeted(n))
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

// What the tests of strangers send is refused for what it says, not for its form.
func TestAFrameThatWasPutTogetherByHandIsTaken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		r := b.open(t, 1, vfs.NewMem(), StartBootstrap)
		defer r.close(t)
		r.propose(t, birth())
		batch := goodBatch(func(b *raftpb.MessageBatch) {
			b.SourceAddress = nodeID(9)
			b.Requests[0] = raftpb.Message{Type: raftpb.HeartbeatResp, From: ReplicaID(nodeID(9)), To: r.cfg.Replica, ShardID: engine.Shard, Term: 1}
		})
		conn := dialRaft(t, b.network, r.endpoint.Addr(), 9)
		if _, err := conn.Write(framed(t, 'B', &batch)); err != nil {
			t.Fatal(err)
		}
		var answer [1]byte
		if _, err := io.ReadFull(conn, answer[:]); err != nil || answer[0] != 1 || r.carrier.Refused() != 0 {
			t.Errorf("answered %d, %v, %d refused", answer, err, r.carrier.Refused())
		}
		conn.Close()
	})
}
