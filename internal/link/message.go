package link

import (
	"crypto/ed25519"
	"encoding/binary"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
)

// Version of what both sides say. A replica refuses any other, and names its own.
const Version = 1

// Bounds of what a frame has in it.
const (
	NonceBytes = 32
	textMax    = 1024
	peersMax   = 64
	agesMax    = 1 << 12
	ageMax     = 1 << 40 // milliseconds
)

// AskAges is the first byte of the body of a Ping whose client knows KindAges, and wants them after
// the Pong. A replica that does not know them ignores it.
const AskAges = 1

// AskLed is the second byte of the body of a Ping whose client wants Pong.Unled. Without AskAges the first is 0.
// A replica that does not know it ignores it.
const AskLed = 1

// Challenge is the first frame, of the replica.
type Challenge struct {
	Version uint64
	Replica fsm.Process
	Nonce   [NonceBytes]byte
}

// Open is the first frame of the client.
type Open struct {
	Version     uint64
	Cluster     string   // the name
	Group       [16]byte // that it belongs to; zero: to none yet
	Key         []byte   // ed25519, public
	Incarnation uint64
	Told        uint64 // the last command that its follower was told of
	Signature   []byte
}

// Welcome answers an Open.
type Welcome struct {
	Group  [16]byte
	At     uint64        // news of later commands follow
	MaxTTL time.Duration // the longest that a client may ask for, whole milliseconds
	Peers  []string
}

// Pong answers a Ping.
type Pong struct {
	At    uint64 // the last command whose news the client has by now
	Peers []string
	Unled bool // the replica hears no raft leader: only after AskLed, as a former client takes it for a fault
}

// RefuseCode says why a replica refuses a client.
type RefuseCode uint8

// Codes of a refusal.
const (
	RefuseFault RefuseCode = iota + 1 // of the client
	RefuseOther                       // the replica is of another group
	RefuseLater                       // it cannot serve the client now; only one of before says so to a client of another group
)

// Refuse ends the connection.
type Refuse struct {
	Code RefuseCode
	Text string
}

func (r Refuse) Error() string { return "holdfast: refused: " + r.Text }

// Call is what the replica answers with one reply, or, for a List and a Backup, with one after the
// other, each when the client wants it (Next), until one without a payload.
type Call struct {
	Mode    uint8  // seam.Class, seam.View, or ReadyComplete
	Millis  uint64 // until its caller gives up; 0: no bound
	Payload []byte // an encoded command, question or Order. Not to be kept
}

// ReadyComplete asks whether the voters are complete, too. An older replica only says whether it is
// ready itself.
const ReadyComplete = 1

// Order is what an operator wants to be done about a node.
type Order struct {
	Node   fsm.Node
	Reason string
}

// Watch asks for the events of the lock of a name (Exact), or of all whose names begin with it.
type Watch struct {
	ID    uint64 // Unwatch has it
	Exact bool
	Name  string
}

// ReplyCode says how a call went.
type ReplyCode uint8

// Codes of a reply.
const (
	ReplyOK             ReplyCode = iota
	ReplyOverload                 // too many calls are under way
	ReplyEnded                    // its time was over
	ReplyNoGroup                  // the replica has no group
	ReplySuperseded               // its group is given up
	ReplyGone                     // the replica ends
	ReplyFailed                   // Text
	ReplyUnknownNode              // the group has never known the node
	ReplyKept                     // the raft leader refuses to remove the node; Value is the fsm.Reason
	ReplyNotVoter                 // the node cannot be raft leader
	ReplyNotTransferred           // the node has not become raft leader in time
)

// Reply answers a call.
type Reply struct {
	Code    ReplyCode
	Unknown bool // an attempt without an answer may have been carried out
	Value   uint64
	Payload []byte // data of an outcome with Value, an encoded answer, or a piece of a backup. Not to be kept
	Text    string
}

// SignedBytes is what a client signs. binding is that of the connection.
func SignedBytes(c Challenge, cluster string, incarnation uint64, binding []byte) []byte {
	b := append([]byte("holdfast client open v1\x00"), c.Nonce[:]...)
	b = c.Replica.AppendTo(b)
	b = appendBytes(b, []byte(cluster))
	b = binary.AppendUvarint(b, incarnation)
	return append(b, binding...)
}

// Verify returns the process of a client that proves its key.
func (o Open) Verify(c Challenge, binding []byte) (fsm.Process, error) {
	if len(o.Key) != ed25519.PublicKeySize || o.Incarnation == 0 ||
		!ed25519.Verify(o.Key, SignedBytes(c, o.Cluster, o.Incarnation, binding), o.Signature) {
		return fsm.Process{}, fmt.Errorf("%w: the client does not prove its key", ErrMalformed)
	}
	return fsm.Process{Node: fsm.KeyNode(o.Key), Incarnation: o.Incarnation}, nil
}

// Append appends the message.
func (c Challenge) Append(b []byte) []byte {
	return append(c.Replica.AppendTo(binary.AppendUvarint(b, c.Version)), c.Nonce[:]...)
}

// ParseChallenge reads it.
func ParseChallenge(b []byte) (c Challenge, err error) {
	p := parser{rest: b}
	c.Version = p.uint()
	c.Replica, _, _ = fsm.CutProcess(p.take(fsm.ProcessBytes))
	copy(c.Nonce[:], p.take(NonceBytes))
	return c, p.done()
}

// Append appends the message.
func (o Open) Append(b []byte) []byte {
	b = appendBytes(binary.AppendUvarint(b, o.Version), []byte(o.Cluster))
	b = appendBytes(append(b, o.Group[:]...), o.Key)
	b = binary.AppendUvarint(binary.AppendUvarint(b, o.Incarnation), o.Told)
	return appendBytes(b, o.Signature)
}

// ParseOpen reads it.
func ParseOpen(b []byte) (o Open, err error) {
	p := parser{rest: b}
	o.Version, o.Cluster = p.uint(), string(p.bytes(textMax))
	copy(o.Group[:], p.take(len(o.Group)))
	o.Key = slices.Clone(p.bytes(textMax))
	o.Incarnation, o.Told = p.uint(), p.uint()
	o.Signature = slices.Clone(p.bytes(textMax))
	return o, p.done()
}

// Append appends the message.
func (w Welcome) Append(b []byte) []byte {
	b = binary.AppendUvarint(append(b, w.Group[:]...), w.At)
	return appendPeers(binary.AppendUvarint(b, uint64(w.MaxTTL/time.Millisecond)), w.Peers)
}

// ParseWelcome reads it.
func ParseWelcome(b []byte) (w Welcome, err error) {
	p := parser{rest: b}
	copy(w.Group[:], p.take(len(w.Group)))
	w.At = p.uint()
	w.MaxTTL = time.Duration(min(p.uint(), uint64(fsm.TTLMax/time.Millisecond))) * time.Millisecond
	w.Peers = p.peers()
	return w, p.done()
}

// Append appends the message.
func (p Pong) Append(b []byte) []byte {
	b = appendPeers(binary.AppendUvarint(b, p.At), p.Peers)
	if p.Unled {
		b = append(b, 1)
	}
	return b
}

// ParsePong reads it.
func ParsePong(b []byte) (pong Pong, err error) {
	p := parser{rest: b}
	pong.At, pong.Peers = p.uint(), p.peers()
	if len(p.rest) > 0 {
		pong.Unled = p.byte() == 1
	}
	return pong, p.done()
}

func appendPeers(b []byte, peers []string) []byte {
	peers = peers[:min(len(peers), peersMax)]
	b = binary.AppendUvarint(b, uint64(len(peers)))
	for _, peer := range peers {
		b = appendBytes(b, []byte(peer))
	}
	return b
}

// AppendAges appends how long ago commands were applied, in their order.
func AppendAges(b []byte, ages iter.Seq2[uint64, time.Duration]) []byte {
	n, before := 0, uint64(0)
	for number, age := range ages {
		if n++; n > agesMax {
			break
		}
		b = binary.AppendUvarint(binary.AppendUvarint(b, number-before), uint64(age/time.Millisecond))
		before = number
	}
	return b
}

// ParseAges reads them; what they are read from is not kept.
func ParseAges(b []byte) (iter.Seq2[uint64, time.Duration], error) {
	p := parser{rest: b}
	var numbers []uint64
	var ages []time.Duration
	for number := uint64(0); len(p.rest) > 0; {
		more, millis := p.uint(), p.uint()
		p.bad = p.bad || len(numbers) >= agesMax || number+more < number || more == 0 && len(numbers) > 0 || millis > ageMax
		if p.bad {
			break
		}
		number += more
		numbers, ages = append(numbers, number), append(ages, time.Duration(millis)*time.Millisecond)
	}
	return func(yield func(uint64, time.Duration) bool) {
		for i, number := range numbers {
			if !yield(number, ages[i]) {
				return
			}
		}
	}, p.done()
}

// Append appends the message.
func (r Refuse) Append(b []byte) []byte {
	return appendBytes(append(b, byte(r.Code)), []byte(r.Text[:min(len(r.Text), textMax)]))
}

// ParseRefuse reads it.
func ParseRefuse(b []byte) (r Refuse, err error) {
	p := parser{rest: b}
	r.Code, r.Text = RefuseCode(p.byte()), string(p.bytes(textMax))
	return r, p.done()
}

// Append appends the message.
func (c Call) Append(b []byte) []byte {
	return append(binary.AppendUvarint(append(b, c.Mode), c.Millis), c.Payload...)
}

// ParseCall reads it.
func ParseCall(b []byte) (c Call, err error) {
	p := parser{rest: b}
	c.Mode, c.Millis = p.byte(), p.uint()
	c.Payload = p.take(len(p.rest))
	return c, p.done()
}

// Append appends the message.
func (o Order) Append(b []byte) []byte { return append(append(b, o.Node[:]...), o.Reason...) }

// ParseOrder reads it.
func ParseOrder(b []byte) (o Order, err error) {
	p := parser{rest: b}
	copy(o.Node[:], p.take(len(o.Node)))
	o.Reason = string(p.take(len(p.rest)))
	return o, p.done()
}

// Append appends the message.
func (w Watch) Append(b []byte) []byte {
	exact := byte(0)
	if w.Exact {
		exact = 1
	}
	return appendBytes(append(binary.AppendUvarint(b, w.ID), exact), []byte(w.Name))
}

// ParseWatch reads it.
func ParseWatch(b []byte) (w Watch, err error) {
	p := parser{rest: b}
	w.ID, w.Exact, w.Name = p.uint(), p.byte() != 0, string(p.bytes(textMax))
	return w, p.done()
}

// Append appends the message.
func (r Reply) Append(b []byte) []byte {
	unknown := byte(0)
	if r.Unknown {
		unknown = 1
	}
	b = binary.AppendUvarint(append(b, byte(r.Code), unknown), r.Value)
	return append(appendBytes(b, []byte(r.Text[:min(len(r.Text), textMax)])), r.Payload...)
}

// ParseReply reads it.
func ParseReply(b []byte) (r Reply, err error) {
	p := parser{rest: b}
	r.Code, r.Unknown, r.Value = ReplyCode(p.byte()), p.byte() != 0, p.uint()
	r.Text = string(p.bytes(textMax))
	r.Payload = p.take(len(p.rest))
	return r, p.done()
}

func appendBytes(b, v []byte) []byte { return append(binary.AppendUvarint(b, uint64(len(v))), v...) }

// parser reads the fields of a body. After a fault it reads zeros.
type parser struct {
	rest []byte
	bad  bool
}

func (p *parser) take(n int) []byte {
	if n < 0 || n > len(p.rest) {
		p.bad, p.rest, n = true, nil, 0
	}
	b := p.rest[:n]
	p.rest = p.rest[n:]
	return b
}

func (p *parser) byte() byte {
	if b := p.take(1); len(b) == 1 {
		return b[0]
	}
	return 0
}

func (p *parser) uint() uint64 {
	v, n := binary.Uvarint(p.rest)
	if n <= 0 {
		p.bad, p.rest = true, nil
		return 0
	}
	p.rest = p.rest[n:]
	return v
}

func (p *parser) bytes(most uint64) []byte {
	n := p.uint()
	if n > most {
		p.bad, p.rest = true, nil
		return nil
	}
	return p.take(int(n))
}

func (p *parser) peers() (peers []string) {
	n := p.uint()
	if n > peersMax {
		p.bad = true
		return nil
	}
	for range n {
		if peer := p.bytes(textMax); !p.bad {
			peers = append(peers, string(peer))
		}
	}
	return peers
}

// done is the fault of a body; a body with bytes after its last field is one.
func (p *parser) done() error {
	if p.bad || len(p.rest) > 0 {
		return fmt.Errorf("%w: its body", ErrMalformed)
	}
	return nil
}
