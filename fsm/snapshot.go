package fsm

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

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
	m.group.fields(f.record())
	f.add()
	f.begin(frameNodes)
	m.nodes.Scan(func(n node) bool { n.fields(f.record()); return f.add() })
	f.begin(frameNumbers)
	m.numbers.tree.Scan(f.addSpan)
	f.begin(frameSessions)
	m.sessions.Scan(func(r sessionRef) bool { r.s.fields(f.record()); return f.add() })
	f.begin(frameFinished)
	m.finished.tree.Scan(f.addSpan)
	f.begin(frameLocks)
	m.locks.Scan(func(_ string, l *lock) bool { return m.addLock(f, l) })
	f.begin(frameRests)
	m.rests.Scan(func(r *rest) bool { r.fields(f.record()); return f.add() })
	m.resizes.Scan(func(name string, r resize) bool {
		(&rest{name: name}).fields(f.record())
		r.fields(&f.next)
		return f.add()
	})
	m.quotas.Scan(func(q Quota) bool {
		q.inRest(f.record())
		return f.add()
	})
	m.addRemembered(f)
	f.begin(frameTeardowns)
	m.teardowns.Scan(func(t teardown) bool { t.fields(f.record()); return f.add() })
	f.begin(frameEnd)
	records := f.records
	f.record().uint(1, &records)
	f.add()
	f.flush()
	return f.err
}

// addLock writes a lock and, right after it, its claims.
func (m *Machine) addLock(f *frameWriter, l *lock) bool {
	at, _ := m.unsettled.Get(l.name)
	r := claimRecord{lock: *l, sift: at}
	if l.value != nil {
		r.by = l.value.by
	}
	if !f.addClaim(r) {
		return false
	}
	for c := range m.holdersOf(l) {
		r := c.record()
		if c.leads() {
			r.asked, _ = m.asked.Get(c.token)
		}
		if !f.addClaim(r) {
			return false
		}
	}
	if l.waiters == 0 {
		return true
	}
	for c := range m.waitersOf(l) {
		if !f.addClaim(c.record()) {
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
	next    codec // the next record
	records uint64
	err     error
}

const frameHead = 5 // kind and length

func (f *frameWriter) begin(kind frameKind) {
	f.flush()
	f.frame = append(f.frame[:0], byte(kind), 0, 0, 0, 0)
}

// record begins a record, which add adds.
func (f *frameWriter) record() *codec {
	f.next = writing(f.next.out[:0])
	return &f.next
}

func (f *frameWriter) add() bool {
	f.frame = protowire.AppendBytes(f.frame, f.next.out)
	f.records++
	if len(f.frame) >= frameBytes {
		f.begin(frameKind(f.frame[0]))
	}
	return f.err == nil
}

func (f *frameWriter) addSpan(s span) bool {
	s.high -= s.low
	s.fields(f.record())
	return f.add()
}

func (f *frameWriter) addClaim(r claimRecord) bool {
	r.fields(f.record())
	return f.add()
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

// addRemembered writes what is over and remembered: past grants, and Once keys with their classes.
// Both name their owners by their place in a list, as a few sessions make a million keys.
func (m *Machine) addRemembered(f *frameWriter) {
	places := make(map[SessionID]uint64)
	var owners []*owner
	note := func(o *owner) {
		if _, ok := places[o.id]; !ok {
			places[o.id] = 0
			owners = append(owners, o)
		}
	}
	m.past.scan(func(_ string, g *pastGrant) bool { note(g.owner); return true })
	m.keys.Scan(func(r *onceRecord) bool { note(r.owner); return true })
	slices.SortFunc(owners, func(a, b *owner) int {
		if lessSession(&a.id, &b.id) {
			return -1
		}
		return 1
	})
	f.begin(frameOwners)
	for i, o := range owners {
		places[o.id] = uint64(i)
		o.fields(f.record())
		f.add()
	}
	f.begin(framePast)
	m.past.scan(func(name string, g *pastGrant) bool {
		place := places[g.owner.id]
		g.fields(f.record(), &name, &place)
		return f.add()
	})
	f.begin(frameClasses)
	m.classes.Scan(func(keep uint64, k class) bool {
		k.fields(f.record(), &keep)
		return f.add()
	})
	f.begin(frameKeys)
	m.keys.Scan(func(r *onceRecord) bool {
		key, place := r.name[len(onceMark):], places[r.owner.id]
		r.fields(f.record(), &key, &place)
		return f.add()
	})
}
