package wire

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/lni/dragonboat/v4/raftio"
	"github.com/lni/dragonboat/v4/raftpb"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/consensus/engine"
)

func testValidator() validator {
	return validator{node: nodeID(1), replica: ReplicaID(nodeID(1)), deployment: Deployment(testCluster), disk: bottomless{}}
}

// goodBatch is what a peer sends; edit makes it worse.
func goodBatch(edit func(*raftpb.MessageBatch)) raftpb.MessageBatch {
	b := raftpb.MessageBatch{
		DeploymentId: Deployment(testCluster), BinVer: raftio.TransportBinVersion, SourceAddress: nodeID(2),
		Requests: []raftpb.Message{{
			Type: raftpb.Replicate, From: ReplicaID(nodeID(2)), To: ReplicaID(nodeID(1)), ShardID: engine.Shard,
			Term: 3, LogTerm: 2, LogIndex: 7, Commit: 7,
			Entries: []raftpb.Entry{
				{Index: 8, Term: 2, Type: raftpb.EncodedEntry, ClientID: 1, Key: 1, Cmd: []byte{0, 1, 2}},
				{Index: 9, Term: 3},
			},
		}},
	}
	if edit != nil {
		edit(&b)
	}
	return b
}

func goodChunk(edit func(*raftpb.Chunk)) raftpb.Chunk {
	c := raftpb.Chunk{
		DeploymentId: Deployment(testCluster), BinVer: raftio.TransportBinVersion, ShardID: engine.Shard,
		ReplicaID: ReplicaID(nodeID(1)), From: ReplicaID(nodeID(2)), Index: 5, Term: 2,
		ChunkCount: 2, FileChunkCount: 2, Data: []byte{1}, ChunkSize: 1, Filepath: pieceFile(5),
		Membership: raftpb.Membership{
			ConfigChangeId: 1, Addresses: map[uint64]string{ReplicaID(nodeID(2)): nodeID(2)},
		},
	}
	if edit != nil {
		edit(&c)
	}
	return c
}

// framed is a frame as it is on the wire.
func framed(t testing.TB, kind byte, p payload) []byte {
	t.Helper()
	frame := make([]byte, frameHeader+p.Size())
	n, err := p.MarshalTo(frame[frameHeader:])
	if err != nil {
		t.Fatal(err)
	}
	frame = frame[:frameHeader+n]
	putHeader(frame, kind)
	return frame
}

// proposed is a good proposal's content.
func proposed() []raftpb.Entry {
	return []raftpb.Entry{{Type: raftpb.EncodedEntry, ClientID: 1, Key: 1, Cmd: authored(fsm.Encode(fsm.Serve{})...)}}
}

// authored is an entry that some process proposed.
func authored(cmd ...byte) []byte {
	return append(fsm.Process{Node: fsm.Node{1}, Incarnation: 1}.AppendTo([]byte{0}), cmd...)
}

func change(c raftpb.ConfigChange) []byte {
	b, err := c.Marshal()
	if err != nil {
		panic(err)
	}
	return b
}

func message(edit func(*raftpb.Message)) func(*raftpb.MessageBatch) {
	return func(b *raftpb.MessageBatch) { edit(&b.Requests[0]) }
}

func proposal(e raftpb.Entry) func(*raftpb.MessageBatch) {
	return message(func(m *raftpb.Message) { m.Type, m.Term, m.Entries = raftpb.Propose, 0, []raftpb.Entry{e} })
}

func TestMessagesThatTheEngineWouldPanicOnAreRefused(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(*raftpb.MessageBatch){
		"another cluster":       func(b *raftpb.MessageBatch) { b.DeploymentId++ },
		"another version":       func(b *raftpb.MessageBatch) { b.BinVer++ },
		"no sender":             func(b *raftpb.MessageBatch) { b.SourceAddress = "" },
		"this replica":          func(b *raftpb.MessageBatch) { b.SourceAddress = nodeID(1) },
		"empty":                 func(b *raftpb.MessageBatch) { b.Requests = nil },
		"false sender":          message(func(m *raftpb.Message) { m.From = ReplicaID(nodeID(3)) }),
		"another of its lives":  func(b *raftpb.MessageBatch) { b.Requests = append(b.Requests, b.Requests[0]); b.Requests[1].From++ },
		"to nobody":             message(func(m *raftpb.Message) { m.To = 0 }),
		"another shard":         message(func(m *raftpb.Message) { m.ShardID = 2 }),
		"huge commit":           message(func(m *raftpb.Message) { m.Commit = 1 << 63 }),
		"a snapshot":            message(func(m *raftpb.Message) { m.Snapshot.Index = 1 }),
		"type out of range":     message(func(m *raftpb.Message) { m.Type, m.Entries = 29, nil }),
		"negative type":         message(func(m *raftpb.Message) { m.Type, m.Entries = -1, nil }),
		"entry of nobody":       message(func(m *raftpb.Message) { m.Entries[0].ClientID = 0 }),
		"entry without key":     message(func(m *raftpb.Message) { m.Entries[0].Key = 0 }),
		"entry out of order":    message(func(m *raftpb.Message) { m.Entries[0].Index = 9 }),
		"entry of later term":   message(func(m *raftpb.Message) { m.Entries[1].Term = 4 }),
		"terms that fall":       message(func(m *raftpb.Message) { m.Entries[1].Term = 1 }),
		"compressed entry":      message(func(m *raftpb.Message) { m.Entries[0].Cmd[0] = 2 }),
		"entry type":            message(func(m *raftpb.Message) { m.Entries[1].Type = 7 }),
		"metadata entry":        message(func(m *raftpb.Message) { m.Entries[1].Type = raftpb.MetadataEntry }),
		"heartbeat with entry":  message(func(m *raftpb.Message) { m.Type = raftpb.Heartbeat }),
		"transfer to nobody":    message(func(m *raftpb.Message) { m.Type, m.Term, m.Entries = raftpb.LeaderTransfer, 0, nil }),
		"empty proposal":        message(func(m *raftpb.Message) { m.Type, m.Term, m.Entries = raftpb.Propose, 0, nil }),
		"proposal of a term":    message(func(m *raftpb.Message) { m.Type, m.Entries = raftpb.Propose, proposed() }),
		"read of a term":        message(func(m *raftpb.Message) { m.Type, m.Entries = raftpb.ReadIndex, nil }),
		"transfer of a term":    message(func(m *raftpb.Message) { m.Type, m.Hint, m.Entries = raftpb.LeaderTransfer, 1, nil }),
		"heartbeat of no term":  message(func(m *raftpb.Message) { m.Type, m.Term, m.Entries = raftpb.Heartbeat, 0, nil }),
		"entries of no term":    message(func(m *raftpb.Message) { m.Term, m.LogTerm, m.Entries = 0, 0, nil }),
		"proposal with session": proposal(raftpb.Entry{Type: raftpb.EncodedEntry, ClientID: 1, Key: 1, Cmd: []byte{0, 1}, SeriesID: 5}),
		"proposal of nobody":    proposal(raftpb.Entry{Type: raftpb.EncodedEntry, Key: 1, Cmd: proposed()[0].Cmd}),
		"proposal without key":  proposal(raftpb.Entry{Type: raftpb.EncodedEntry, ClientID: 1, Cmd: proposed()[0].Cmd}),
		"later version":         proposal(raftpb.Entry{Type: raftpb.EncodedEntry, ClientID: 1, Key: 1, Cmd: authored(2, 1)}),
		"later command":         proposal(raftpb.Entry{Type: raftpb.EncodedEntry, ClientID: 1, Key: 1, Cmd: authored(1, 200)}),
		"garbage change":        proposal(raftpb.Entry{Type: raftpb.ConfigChangeEntry, Cmd: []byte{255}}),
		"witness":               proposal(raftpb.Entry{Type: raftpb.ConfigChangeEntry, Cmd: change(raftpb.ConfigChange{Type: raftpb.AddWitness, ReplicaID: ReplicaID(nodeID(3)), Address: nodeID(3)})}),
		"false address":         proposal(raftpb.Entry{Type: raftpb.ConfigChangeEntry, Cmd: change(raftpb.ConfigChange{ReplicaID: 3, Address: nodeID(3)})}),
	} {
		b := goodBatch(edit)
		if _, err := testValidator().batch(&b); !errors.Is(err, errRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMessagesThatNoPeerSendsAreRefused(t *testing.T) {
	t.Parallel()
	for _, local := range []raftpb.MessageType{
		raftpb.LocalTick, raftpb.Election, raftpb.LeaderHeartbeat, raftpb.ConfigChangeEvent, raftpb.Ping, raftpb.Pong,
		raftpb.SnapshotStatus, raftpb.Unreachable, raftpb.CheckQuorum, raftpb.BatchedReadIndex,
		raftpb.InstallSnapshot, raftpb.Quiesce, raftpb.LogQuery,
	} {
		b := goodBatch(message(func(m *raftpb.Message) { m.Type, m.Entries = local, nil }))
		if _, err := testValidator().batch(&b); !errors.Is(err, errRefused) {
			t.Errorf("%v: %v", local, err)
		}
	}
}

func TestMessagesThatPeersSendAreLetIn(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(*raftpb.MessageBatch){
		"entries":  nil,
		"proposal": proposal(proposed()[0]),
		"read":     message(func(m *raftpb.Message) { m.Type, m.Term, m.Entries = raftpb.ReadIndex, 0, nil }),
		"transfer": message(func(m *raftpb.Message) { m.Type, m.Term, m.Hint, m.Entries = raftpb.LeaderTransfer, 0, 1, nil }),
		"arrival":  message(func(m *raftpb.Message) { m.Type, m.Term, m.Entries = raftpb.SnapshotReceived, 0, nil }),
		"pre-vote": message(func(m *raftpb.Message) { m.Type, m.Term, m.Entries = raftpb.RequestPreVoteResp, 0, nil }),
	} {
		good := goodBatch(edit)
		if from, err := testValidator().batch(&good); err != nil || from != ReplicaID(nodeID(2)) {
			t.Errorf("good %s: %d, %v", name, from, err)
		}
	}
}

func TestSnapshotPiecesThatTheEngineWouldPanicOnAreRefused(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(*raftpb.Chunk){
		"another cluster":  func(c *raftpb.Chunk) { c.DeploymentId++ },
		"another version":  func(c *raftpb.Chunk) { c.BinVer++ },
		"another replica":  func(c *raftpb.Chunk) { c.ReplicaID++ },
		"this replica":     func(c *raftpb.Chunk) { c.From = c.ReplicaID },
		"index 0":          func(c *raftpb.Chunk) { c.Index = 0 },
		"beyond the count": func(c *raftpb.Chunk) { c.ChunkId, c.FileChunkId = 2, 2 },
		"poison": func(c *raftpb.Chunk) {
			c.ChunkCount, c.FileChunkCount = raftpb.PoisonChunkCount, raftpb.PoisonChunkCount
		},
		"second file":        func(c *raftpb.Chunk) { c.FileChunkId = 1 },
		"no data":            func(c *raftpb.Chunk) { c.Data, c.ChunkSize = nil, 0 },
		"false size":         func(c *raftpb.Chunk) { c.ChunkSize = 2 },
		"external file":      func(c *raftpb.Chunk) { c.HasFileInfo = true },
		"witness":            func(c *raftpb.Chunk) { c.Witness = true },
		"no name":            func(c *raftpb.Chunk) { c.Filepath = "" },
		"a directory":        func(c *raftpb.Chunk) { c.Filepath = ".." },
		"a place":            func(c *raftpb.Chunk) { c.Filepath = "/x/" + pieceFile(5) },
		"another's name":     func(c *raftpb.Chunk) { c.Filepath = pieceFile(6) },
		"no voters":          func(c *raftpb.Chunk) { c.Membership.Addresses = nil },
		"no change":          func(c *raftpb.Chunk) { c.Membership.ConfigChangeId = 0 },
		"voter at no node":   func(c *raftpb.Chunk) { c.Membership.Addresses[1] = "10.0.0.1:1" },
		"members of a fraud": func(c *raftpb.Chunk) { c.Membership.Addresses[ReplicaID(nodeID(2))] = nodeID(3) },
	} {
		c := goodChunk(edit)
		if err := testValidator().chunk(&c); !errors.Is(err, errRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
	good := goodChunk(nil)
	if err := testValidator().chunk(&good); err != nil {
		t.Errorf("good piece: %v", err)
	}
}

func TestFramesCutOffOrDamagedAreNotDelivered(t *testing.T) {
	t.Parallel()
	batch := goodBatch(nil)
	frame := framed(t, frameBatch, &batch)
	for i := range frame {
		cut := frameReader{r: bytes.NewReader(frame[:i])}
		if _, _, err := cut.next(); err == nil {
			t.Errorf("frame cut at %d was read", i)
		}
		damaged := bytes.Clone(frame)
		damaged[i] ^= 0x40
		reader := frameReader{r: bytes.NewReader(damaged)}
		if _, _, err := reader.next(); err == nil {
			t.Errorf("frame damaged at %d was read", i)
		}
	}
}

// endless returns zeros for ever, and counts.
type endless struct{ n int }

func (e *endless) Read(b []byte) (int, error) {
	if e.n += len(b); e.n > 1<<20 {
		return 0, io.ErrUnexpectedEOF
	}
	clear(b)
	return len(b), nil
}

func TestLengthOfAFrameCostsMemoryOnlyAsItsBytesArrive(t *testing.T) {
	t.Parallel()
	header := make([]byte, frameHeader)
	putHeader(append(header, make([]byte, batchBytesMax)...), frameBatch)
	copy(header, []byte{frameBatch, 0, 0, 0, 0, 0, 0, 5}) // 80 MiB
	reader := frameReader{r: io.MultiReader(bytes.NewReader(header), &endless{})}
	if _, _, err := reader.next(); err == nil {
		t.Error("endless frame was read")
	}
	if cap(reader.buffer) > 4<<20 {
		t.Errorf("%d bytes allocated for 1 MiB that arrived", cap(reader.buffer))
	}
}

func TestPayloadsThatTheEngineCannotDecodeSafelyDoNotReachItsDecoder(t *testing.T) {
	t.Parallel()
	batch := goodBatch(nil)
	encoded := framed(t, frameBatch, &batch)[frameHeader:]
	// A field of bytes as a number, which the decoder takes for a negative length.
	negative := append([]byte{0x08}, protowire.AppendVarint(nil, 1<<63+5)...)
	for name, payload := range map[string][]byte{
		"message counted for ever": append(bytes.Clone(encoded), negative...),
		"entry counted for ever":   append([]byte{0x0a, 24, 0x5a, 1, 0, 0x58}, append(negative[1:], make([]byte, 24)...)...),
		"groups in groups":         bytes.Repeat([]byte{0x2b}, 1<<20),
		"unknown field":            append(bytes.Clone(encoded), 0x28, 1),
		"messages without end":     bytes.Repeat([]byte{0x0a, 0}, messagesMax+1),
		"entries without end":      manyEntries(entriesMax + 1),
	} {
		if _, _, err := testValidator().decodeBatch(payload); !errors.Is(err, errFrame) {
			t.Errorf("batch, %s: %v", name, err)
		}
		if _, err := (&Carrier{validator: testValidator()}).decodeChunk(payload); !errors.Is(err, errFrame) {
			t.Errorf("snapshot piece, %s: %v", name, err)
		}
	}
}

func manyEntries(n int) []byte {
	return protowire.AppendBytes([]byte{0x0a}, bytes.Repeat([]byte{0x5a, 0}, n))
}

func FuzzFramesFromStrangersNeverPanic(f *testing.F) {
	batch, chunk := goodBatch(nil), goodChunk(nil)
	f.Add(framed(f, frameBatch, &batch))
	f.Add(framed(f, frameChunk, &chunk))
	f.Fuzz(func(t *testing.T, frame []byte) {
		if len(frame) >= frameHeader { // or hardly any input would pass the checksum
			putHeader(frame, frame[0])
		}
		reader := frameReader{r: bytes.NewReader(frame)}
		kind, payload, err := reader.next()
		if err != nil {
			return
		}
		c := &Carrier{validator: testValidator()}
		if kind == frameChunk {
			_, _ = c.decodeChunk(payload)
			return
		}
		if b, from, err := c.validator.decodeBatch(payload); err == nil && (from == 0 || len(b.Requests) == 0) {
			t.Errorf("let in: from %d, %d messages", from, len(b.Requests))
		}
	})
}
