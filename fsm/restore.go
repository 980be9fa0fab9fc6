package fsm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
)

// ReadSnapshot reads what WriteSnapshot wrote and checks it, the invariants included. It reads no
// further than the end mark, never panics, and never allocates more than what it has read
// justifies. The error wraps ErrUnsupported for a newer version, ErrMalformed or ErrInvariant for a
// damaged snapshot, or that of r. One of a feature level above LevelKnown is read if this version can:
// the caller looks at the Level.
func ReadSnapshot(r io.Reader) (*Machine, error) { return readSnapshot(r, defaultLimits()) }

// readSnapshot reads the snapshot of a machine that has these bounds.
func readSnapshot(r io.Reader, bounds limits) (*Machine, error) {
	var head [len(snapshotMagic) + 1]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, readError(err)
	}
	if string(head[:len(snapshotMagic)]) != snapshotMagic {
		return nil, readError(ErrMalformed)
	}
	if version := head[len(snapshotMagic)]; version != snapshotVersion {
		return nil, readError(fmt.Errorf("version %d: %w", version, ErrUnsupported))
	}
	in := restorer{
		Machine: New(), processByIndex: make(map[uint64]Process), sessionByIndex: make(map[uint64]*session),
		sets: make(map[request]*set),
	}
	in.limits = bounds
	if err := in.all(r); err != nil {
		return nil, in.judged(readError(err))
	}
	return in.Machine, nil
}

// all takes in the frames and checks what they make.
func (in *restorer) all(r io.Reader) error {
	for in.kind != frameEnd {
		if err := in.frame(r); err != nil {
			return err
		}
	}
	if err := in.whole(); err != nil {
		return err
	}
	return in.sound()
}

// judged is the error of a snapshot whose content is refused. Above LevelKnown that may be what a later
// version has added: it is no damage, and nobody is to delete it. The group's record, which has the level,
// comes first.
func (in *restorer) judged(err error) error {
	if in.Level() <= LevelKnown || !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrInvariant) {
		return err
	}
	return fmt.Errorf("%w: the group is at feature level %d, this version knows %d: %w", ErrUnsupported, in.Level(), LevelKnown, err)
}

func readError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("cut short: %w", ErrMalformed)
	}
	return fmt.Errorf("holdfast: read snapshot: %w", err)
}

// restorer builds a machine from the records of a snapshot.
type restorer struct {
	*Machine
	kind           frameKind
	records        uint64
	processByIndex map[uint64]Process
	sessionByIndex map[uint64]*session
	current        *lock            // the claims that come are this one's
	sets           map[request]*set // by session and number
	owners         []*owner
	payload        []byte // room for the next frame
}

// frame reads one frame and takes in its records.
func (in *restorer) frame(r io.Reader) error {
	var head [frameHead]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	size := binary.LittleEndian.Uint32(head[1:])
	if size > frameBytesMax {
		return fmt.Errorf("frame of %d bytes: %w", size, ErrMalformed)
	}
	if in.payload == nil {
		in.payload = make([]byte, frameBytesMax+crc32.Size)
	}
	payload := in.payload[:size+crc32.Size]
	if _, err := io.ReadFull(r, payload); err != nil {
		return err
	}
	table := crc32.MakeTable(crc32.Castagnoli)
	sum := crc32.Update(crc32.Checksum(head[:], table), table, payload[:size])
	if sum != binary.LittleEndian.Uint32(payload[size:]) {
		return fmt.Errorf("checksum: %w", ErrMalformed)
	}
	kind := frameKind(head[0])
	if kind < in.kind || kind == 0 || kind > frameEnd {
		return fmt.Errorf("frame of kind %d after %d: %w", kind, in.kind, ErrMalformed)
	}
	in.kind = kind
	for b := payload[:size]; len(b) > 0; {
		record, n := protowire.ConsumeBytes(b)
		if n < 0 {
			return ErrMalformed
		}
		if err := in.record(record); err != nil {
			return err
		}
		b = b[n:]
		in.records++
	}
	return nil
}

func (in *restorer) record(b []byte) error {
	if in.kind == frameGroup {
		return read(b, &in.group)
	}
	if in.kind != frameEnd {
		return [...]func(*restorer, []byte) error{
			frameNodes: (*restorer).node, frameNumbers: (*restorer).number, frameSessions: (*restorer).session,
			frameFinished: (*restorer).span, frameLocks: (*restorer).lockOrClaim, frameRests: (*restorer).rest,
			frameOwners: (*restorer).owner, framePast: (*restorer).pastGrant, frameClasses: (*restorer).class,
			frameKeys: (*restorer).key, frameTeardowns: (*restorer).teardown,
		}[in.kind](in, b)
	}
	f, records := reading(b), uint64(0)
	for f.more() {
		f.uint(1, &records)
	}
	if f.err == nil && records != in.records {
		return fmt.Errorf("%d records instead of %d: %w", in.records, records, ErrMalformed)
	}
	return f.err
}

func (in *restorer) node(b []byte) error {
	var n node
	err := read(b, &n)
	if n.gone != 0 {
		in.forgotten++
	} else {
		in.here++
	}
	in.nodes.Set(n)
	in.processByIndex[n.born] = Process{n.id, n.incarnation}
	return err
}

func (in *restorer) number(b []byte) error {
	var s span
	if err := read(b, &s); err != nil {
		return err
	}
	s.high += s.low
	of := in.processByIndex[s.owner]
	n, known := in.process(of.Node, of.Incarnation)
	if !known {
		return fmt.Errorf("session numbers of no node: %w", ErrMalformed)
	}
	n.spans++
	in.nodes.Set(n)
	in.numbers.tree.Set(s)
	return nil
}

func (in *restorer) span(b []byte) error {
	var s span
	if err := read(b, &s); err != nil {
		return err
	}
	s.high += s.low
	owner := in.sessionByIndex[s.owner]
	if owner == nil {
		return fmt.Errorf("finished requests of no session: %w", ErrMalformed)
	}
	owner.spans++
	owner.heard = owner.heard || s.low < owner.acked
	in.finished.tree.Set(s)
	return nil
}

func (in *restorer) session(b []byte) error {
	s := &session{owner: &owner{}}
	err := read(b, s)
	n, known := in.process(s.id.Node, s.id.Incarnation)
	if known && n.memory() { // its record does not say that it has sessions
		n.lasting = true
		in.forgotten--
		in.nodes.Set(n)
	}
	s.nodeName = n.name
	in.sessions.Set(sessionRef{s.id, s})
	in.takes(s.id.Node, use{sessions: 1})
	in.sessionByIndex[s.opened] = s
	return err
}

func (in *restorer) lockOrClaim(b []byte) error {
	var r claimRecord
	f := reading(b)
	for f.more() {
		r.fields(&f)
	}
	if f.err != nil {
		return f.err
	}
	if r.lock.name != "" {
		l := r.lock
		in.current = &l
		if l.value != nil {
			l.value.by = r.by
		}
		in.replaces(block{name: l.name}, nil, l.value)
		in.locks.Set(l.name, &l)
		if l.unsettled {
			in.unsettled.Set(l.name, r.sift)
		}
		return nil
	}
	s := in.sessionByIndex[r.opened]
	if s == nil || in.current == nil {
		return fmt.Errorf("claim of no session or lock: %w", ErrMalformed)
	}
	c := r.claim
	c.owner, c.name = s.owner, in.current.name
	if x := r.more; x.value != nil || x.while != nil || x.clear || r.of > 0 {
		if c.more = &x; x.value != nil {
			x.value.by = s.id.Node
		}
	}
	if r.asked != "" {
		in.asked.Set(c.token, r.asked)
		in.values += int64(len(r.asked))
	}
	if r.of > 0 {
		if err := in.member(&c, r.at, r.of); err != nil {
			return err
		}
	}
	return in.claim(&c)
}

// claim makes a claim part of its lock; what does not add up is left to Check.
func (in *restorer) claim(c *claim) error {
	l := in.current
	in.add(l, c)
	in.nest(c)
	if c.leads() {
		in.requests.Set(request{c.owner.opened, c.request, c})
	}
	if c.token == 0 {
		l.waiters++
		in.queues(c)
		return nil
	}
	l.holders++
	l.used += c.Weight
	l.mode = c.Mode
	in.grants++
	in.takes(c.owner.id.Node, use{locks: 1})
	if c.Mode != Exclusive {
		in.shared.Set(c)
		return nil
	}
	if l.holder != nil {
		return fmt.Errorf("two exclusive holders: %w", ErrInvariant)
	}
	l.holder = c
	return nil
}
