package fsm

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// A snapshot is the magic, the version, and then frames: kind (1 byte), length of the payload (4,
// little endian), payload, CRC32C of all of that (4, little endian). The payload is a run of
// records, each with its length before it; fsm.proto says what is in them. Frames come in the order
// of their kinds. The last one says how many records there were.
const (
	snapshotMagic   = "HFSN"
	snapshotVersion = 1
	frameBytes      = 64 << 10  // a frame is written when it has reached this size
	frameBytesMax   = 256 << 10 // what a reader takes: the largest record comes on top
)

type frameKind byte

const (
	frameGroup frameKind = iota + 1
	frameNodes
	frameNumbers
	frameSessions
	frameFinished
	frameLocks
	frameRests
	frameOwners
	framePast
	frameClasses
	frameKeys
	frameTeardowns
	frameEnd
)

// WriteSnapshot writes the whole state: the same state makes the same bytes, whatever led to it. It
// stops with ErrStopped soon after stop is closed; a nil stop never is. Other errors are those of
// w. To write while commands go on, write a Fork.
func (m *Machine) WriteSnapshot(w io.Writer, stop <-chan struct{}) error {
	if _, err := w.Write(append([]byte(snapshotMagic), snapshotVersion)); err != nil {
		return fmt.Errorf("holdfast: write snapshot: %w", err)
	}
	f := &frameWriter{w: w, stop: stop}
	f.begin(frameGroup)
	f.add(m.group.record())
	f.begin(frameNodes)
	m.nodes.Scan(func(n node) bool { return f.add(n.record(f.record[:0])) })
	f.begin(frameNumbers)
	m.numbers.tree.Scan(func(s span) bool { return f.add(s.record(f.record[:0])) })
	f.begin(frameSessions)
	m.sessions.Scan(func(r sessionRef) bool { return f.add(r.s.record(f.record[:0])) })
	f.begin(frameFinished)
	m.finished.tree.Scan(func(s span) bool { return f.add(s.record(f.record[:0])) })
	f.begin(frameLocks)
	m.locks.Scan(func(_ string, l *lock) bool { return m.addLock(f, l) })
	f.begin(frameRests)
	m.rests.Scan(func(r *rest) bool { return f.add(r.record(f.record[:0])) })
	m.addRemembered(f)
	f.begin(frameTeardowns)
	m.teardowns.Scan(func(t teardown) bool { return f.add(t.record(f.record[:0])) })
	f.begin(frameEnd)
	f.add(appendUint(nil, 1, f.records))
	f.flush()
	return f.err
}

// addLock writes a lock and, right after it, its claims.
func (m *Machine) addLock(f *frameWriter, l *lock) bool {
	if !f.add(l.record(f.record[:0])) {
		return false
	}
	for c := range m.holdersOf(l) {
		b := c.record(f.record[:0])
		if c.leads() {
			reason, _ := m.asked.Get(c.token)
			b = appendText(b, 22, reason)
		}
		if !f.add(b) {
			return false
		}
	}
	if l.waiters == 0 {
		return true
	}
	for c := range m.waitersOf(l) {
		if !f.add(c.record(f.record[:0])) {
			return false
		}
	}
	return true
}

// frameWriter gathers records into frames. Its first error stops it.
type frameWriter struct {
	w       io.Writer
	stop    <-chan struct{}
	frame   []byte
	record  []byte // room for the next record
	records uint64
	err     error
}

const frameHead = 5 // kind and length

func (f *frameWriter) begin(kind frameKind) {
	f.flush()
	f.frame = append(f.frame[:0], byte(kind), 0, 0, 0, 0)
}

func (f *frameWriter) add(record []byte) bool {
	f.record = record
	f.frame = protowire.AppendBytes(f.frame, record)
	f.records++
	if len(f.frame) >= frameBytes {
		f.begin(frameKind(f.frame[0]))
	}
	return f.err == nil
}

func (f *frameWriter) flush() {
	if f.err != nil || len(f.frame) <= frameHead {
		return
	}
	select {
	case <-f.stop:
		f.err = ErrStopped
		return
	default:
	}
	binary.LittleEndian.PutUint32(f.frame[1:], uint32(len(f.frame)-frameHead))
	sum := crc32.Checksum(f.frame, crc32.MakeTable(crc32.Castagnoli))
	f.frame = binary.LittleEndian.AppendUint32(f.frame, sum)
	if _, err := f.w.Write(f.frame); err != nil {
		f.err = fmt.Errorf("holdfast: write snapshot: %w", err)
	}
}

func (g group) record() []byte {
	b := appendBytes(nil, 1, g.cluster[:])
	b = appendBool(b, 2, g.born)
	b = appendBool(b, 3, g.serving)
	b = appendUint(b, 4, g.level)
	b = appendUint(b, 5, g.counter)
	b = appendUint(b, 6, g.applied)
	b = appendUint(b, 7, uint64(g.bootstrap))
	b = appendUint(b, 8, uint64(g.voters))
	b = appendUint(b, 9, g.silentSeen)
	b = appendUint(b, 10, g.commands)
	return appendUint(b, 11, g.stepped)
}

func (n node) record(b []byte) []byte {
	b = appendBytes(b, 1, n.id[:])
	b = appendUint(b, 2, n.incarnation)
	b = appendText(b, 3, n.name)
	b = appendUint(b, 4, n.born)
	b = appendUint(b, 5, n.lowest)
	b = appendUint(b, 6, n.gone)
	b = appendBool(b, 7, n.over)
	b = appendUint(b, 8, uint64(n.departure))
	b = n.place.appendTo(b, 9)
	b = appendUint(b, 12, n.since)
	b = appendBool(b, 13, n.back)
	b = appendUint(b, 14, n.ended)
	return appendUint(b, 15, n.withdrawn)
}

func (s span) record(b []byte) []byte {
	b = appendUint(b, 1, s.owner)
	b = appendUint(b, 2, s.low)
	return appendUint(b, 3, s.high-s.low)
}

func (s *session) record(b []byte) []byte {
	b = appendSession(b, 1, s.id)
	b = appendUint(b, 2, s.opened)
	b = appendUint(b, 3, uint64(s.ttl/time.Millisecond))
	b = appendUint(b, 4, s.renewed)
	b = appendUint(b, 5, s.seq)
	b = appendUint(b, 6, s.acked)
	return appendBool(b, 7, s.ended)
}

func (l *lock) record(b []byte) []byte {
	b = appendText(b, 1, l.name)
	b = appendUint(b, 2, l.last)
	b = appendBool(appendUint(b, 3, l.told), 21, l.unsettled)
	if l.value != nil {
		b = protowire.AppendString(protowire.AppendTag(b, 4, protowire.BytesType), l.value.text)
	}
	return b
}

func (c *claim) record(b []byte) []byte {
	b = appendUint(b, 5, c.owner.opened)
	b = appendUint(b, 6, c.request)
	b = appendUint(b, 7, c.token)
	b = appendUint(b, 8, c.index)
	b = appendUint(b, 9, uint64(c.mode))
	b = appendUint(b, 10, uint64(c.weight))
	b = appendUint(b, 11, uint64(c.limit))
	b = appendUint(b, 12, protowire.EncodeZigZag(int64(c.priority)))
	b = appendBool(appendText(b, 13, c.label), 20, c.election)
	if c.more == nil {
		return b
	}
	if v := c.more.value; v != nil {
		b = protowire.AppendString(protowire.AppendTag(b, 14, protowire.BytesType), v.text)
	}
	b = appendUint(b, 15, c.more.delay)
	if all := c.more.set; all != nil {
		b = appendUint(b, 16, uint64(slices.Index(all.claims, c)+1))
		b = appendUint(b, 17, uint64(len(all.claims)))
	}
	b = appendPacked(b, 18, c.more.while)
	return appendBool(b, 19, c.more.clear)
}
