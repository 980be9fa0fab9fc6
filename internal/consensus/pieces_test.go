package consensus

import (
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lni/dragonboat/v4/raftio"
	"github.com/lni/dragonboat/v4/raftpb"
	"github.com/lni/vfs"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/consensus/engine"
)

// snapshotStart is the beginning of a sound snapshot, without which the engine writes nothing.
func snapshotStart(t *testing.T, dir string) []byte {
	t.Helper()
	b := newBench()
	b.tune = func(c *Config) { c.SnapshotEntries, c.SnapshotKeep = 20, 5 }
	r, err := b.tryIn(7, vfs.Default, dir, StartBootstrap)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close(t)
	r.propose(t, birth())
	for level := range uint64(30) {
		r.propose(t, fsm.Level{Level: level + 1})
	}
	var name string
	eventuallyTrue(t, "a snapshot", func() bool {
		walk(vfs.Default, dir, func(n string) {
			if strings.HasSuffix(n, ".gbsnap") && !strings.Contains(n, "generating") {
				name = n
			}
		})
		return name != ""
	})
	f, err := vfs.Default.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	start, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return start
}

// A piece of a snapshot for a file named ".." or "/" was refused by the disk of whom it was sent
// to, which parked that replica: one message ended every lease of a node.
func TestNoNameOfASnapshotsFileParksAReplica(t *testing.T) {
	t.Parallel()
	start := snapshotStart(t, filepath.Join(t.TempDir(), "raft"))
	b := newBench()
	r, err := b.tryIn(1, vfs.Default, filepath.Join(t.TempDir(), "raft"), StartBootstrap)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close(t)
	r.propose(t, birth())
	const index = 100_000
	for i, name := range []string{
		"..", "/", ".", "../..", "a/..", "x\x00y", strings.Repeat("n", 300), "/x/" + strings.Repeat("n", 300), "snapshot.metadata",
		"dragonboat.snapshot.message", pieceFile(1),
	} {
		chunk := raftpb.Chunk{
			DeploymentId: deploymentOfTests, BinVer: raftio.TransportBinVersion, ShardID: engine.Shard,
			ReplicaID: r.cfg.Replica, From: ReplicaID(nodeID(9)), Index: index + uint64(i), Term: 2,
			ChunkCount: 2, FileChunkCount: 2, Data: start, ChunkSize: uint64(len(start)), FileSize: 2 * uint64(len(start)),
			Filepath:   name,
			Membership: raftpb.Membership{ConfigChangeId: 1, Addresses: map[uint64]string{ReplicaID(nodeID(9)): nodeID(9)}},
		}
		conn := dialRaft(t, b.network, r.endpoint.Addr(), 9)
		if _, err := conn.Write(framed(t, 'C', &chunk)); err != nil {
			t.Fatal(err)
		}
		eventuallyTrue(t, "a refusal", func() bool { return int(r.carrier.Refused()) > i || r.Failure() != nil })
		if err := r.Failure(); err != nil {
			t.Fatalf("a piece for the file %.40q: %v", name, err)
		}
		r.propose(t, fsm.Level{Level: uint64(i + 1)})
	}
}
