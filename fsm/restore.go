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
// damaged snapshot, or that of r.
func ReadSnapshot(r io.Reader) (*Machine, error) {
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
	for in.kind != frameEnd {
		if err := in.frame(r); err != nil {
			return nil, readError(err)
		}
	}
	if err := in.whole(); err != nil {
		return nil, readError(err)
	}
	if err := in.Check(); err != nil {
		return nil, readError(err)
	}
	return in.Machine, nil
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
	switch in.kind {
	case frameGroup:
		return in.group.decode(b)
	case frameNodes:
		return in.node(b)
	case frameNumbers:
		return in.number(b)
	case frameSessions:
		return in.session(b)
	case frameFinished:
		return in.span(b)
	case frameLocks:
		return in.lockOrClaim(b)
	case frameRests:
		return in.rest(b)
	case frameOwners:
		return in.owner(b)
	case framePast:
		return in.pastGrant(b)
	case frameClasses:
		return in.class(b)
	case frameKeys:
		return in.key(b)
	case frameTeardowns:
		return in.teardown(b)
	}
	f := fields{rest: b}
	records := uint64(0)
	for f.next() {
		if f.number == 1 {
			records = f.uint64()
		}
	}
	if f.err == nil && records != in.records {
		return fmt.Errorf("%d records instead of %d: %w", in.records, records, ErrMalformed)
	}
	return f.err
}

func (g *group) decode(b []byte) error {
	f := fields{rest: b}
	for f.next() {
		switch f.number {
		case 1:
			g.cluster = f.id()
		case 2:
			g.born = f.bool()
		case 3:
			g.serving = f.bool()
		case 4:
			g.level = f.uint64()
		case 5:
			g.counter = f.uint64()
		case 6:
			g.applied = f.uint64()
		case 7:
			g.bootstrap = f.uint32()
		case 8:
			g.voters = f.uint32()
		case 9:
			g.silentSeen = f.uint64()
		case 10:
			g.commands = f.uint64()
		case 11:
			g.stepped = f.uint64()
		}
	}
	return f.err
}

func (in *restorer) node(b []byte) error {
	var n node
	f := fields{rest: b}
	for f.next() {
		switch f.number {
		case 1:
			n.id = f.id()
		case 2:
			n.incarnation = f.uint64()
		case 3:
			n.name = f.text()
		case 4:
			n.born = f.uint64()
		case 5:
			n.lowest = f.uint64()
		case 6:
			n.gone = f.uint64()
		case 7:
			n.over = f.bool()
		case 8:
			n.departure = Departure(f.uint8())
		case 9, 10, 11:
			n.place.decodeField(&f, f.number-9)
		case 12:
			n.since = f.uint64()
		case 13:
			n.back = f.bool()
		case 14:
			n.ended = f.uint64()
		case 15:
			n.withdrawn = f.uint64()
		}
	}
	if n.gone != 0 {
		in.forgotten++
	} else {
		in.here++
	}
	in.nodes.Set(n)
	in.processByIndex[n.born] = Process{n.id, n.incarnation}
	return f.err
}

func decodeSpan(b []byte) (s span, err error) {
	f := fields{rest: b}
	for f.next() {
		switch f.number {
		case 1:
			s.owner = f.uint64()
		case 2:
			s.low = f.uint64()
		case 3:
			s.high = f.uint64()
		}
	}
	s.high += s.low
	return s, f.err
}

func (in *restorer) number(b []byte) error {
	s, err := decodeSpan(b)
	if err != nil {
		return err
	}
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
	s, err := decodeSpan(b)
	if err != nil {
		return err
	}
	owner := in.sessionByIndex[s.owner]
	if owner == nil {
		return fmt.Errorf("finished requests of no session: %w", ErrMalformed)
	}
	owner.spans++
	in.finished.tree.Set(s)
	return nil
}

func (in *restorer) session(b []byte) error {
	s := &session{owner: &owner{}}
	f := fields{rest: b}
	for f.next() {
		switch f.number {
		case 1:
			s.id = f.session()
		case 2:
			s.opened = f.uint64()
		case 3:
			s.ttl = f.millis()
		case 4:
			s.renewed = f.uint64()
		case 5:
			s.seq = f.uint64()
		case 6:
			s.acked = f.uint64()
		case 7:
			s.ended = f.bool()
		}
	}
	n, known := in.process(s.id.Node, s.id.Incarnation)
	if known && n.memory() { // its record does not say that it has sessions
		n.lasting = true
		in.forgotten--
		in.nodes.Set(n)
	}
	s.nodeName = n.name
	in.sessions.Set(sessionRef{s.id, s})
	in.sessionByIndex[s.opened] = s
	return f.err
}

// lockOrClaim reads a lock when the record has a name, else a claim of the lock before it.
func (in *restorer) lockOrClaim(b []byte) error {
	var l lock
	var c claim
	var x more
	opened, part, asked := uint64(0), partOf{}, ""
	f := fields{rest: b}
	for f.next() {
		switch f.number {
		case 1:
			l.name = f.text()
		case 2:
			l.last = f.uint64()
		case 3:
			l.told = f.uint64()
		case 4:
			l.value = &value{f.text()}
		case 5:
			opened = f.uint64()
		case 14:
			x.value = &value{f.text()}
		case 15:
			x.delay = f.uint64()
		case 16:
			part.at = f.uint64()
		case 17:
			part.of = f.uint64()
		case 18:
			x.while = f.appendUints(x.while)
		case 19:
			x.clear = f.bool()
		case 21:
			l.unsettled = f.bool()
		case 22:
			asked = f.text()
		default:
			c.decodeField(&f)
		}
	}
	if f.err != nil {
		return f.err
	}
	if l.name != "" {
		in.current = &l
		in.values += l.value.size()
		in.locks.Set(l.name, &l)
		if l.unsettled {
			in.unsettled.Set(l.name, struct{}{})
		}
		return nil
	}
	s := in.sessionByIndex[opened]
	if s == nil || in.current == nil {
		return fmt.Errorf("claim of no session or lock: %w", ErrMalformed)
	}
	c.owner, c.name = s.owner, in.current.name
	if x.value != nil || x.delay != 0 || x.while != nil || x.clear || part.of > 0 {
		c.more = &x
	}
	if asked != "" {
		in.asked.Set(c.token, asked)
		in.values += int64(len(asked))
	}
	if part.of > 0 {
		if err := in.member(&c, part); err != nil {
			return err
		}
	}
	return in.claim(&c)
}

func (c *claim) decodeField(f *fields) {
	switch f.number {
	case 6:
		c.request = f.uint64()
	case 7:
		c.token = f.uint64()
	case 8:
		c.index = f.uint64()
	case 9:
		c.mode = f.mode()
	case 10:
		c.weight = f.uint32()
	case 11:
		c.limit = f.uint32()
	case 12:
		c.priority = f.sint32()
	case 13:
		c.label = f.text()
	case 20:
		c.election = f.bool()
	}
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
		in.waiters.Set(c)
		return nil
	}
	l.holders++
	l.used += c.weight
	l.mode = c.mode
	in.grants++
	if c.mode != Exclusive {
		in.shared.Set(c)
		return nil
	}
	if l.holder != nil {
		return fmt.Errorf("two exclusive holders: %w", ErrInvariant)
	}
	l.holder = c
	return nil
}
