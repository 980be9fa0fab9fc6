package forming

import (
	"errors"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/holdfast-go/holdfast/internal/member"
)

// Bounds of a message, in bytes.
const (
	IDMax      = 64  // of a node id
	MessageMax = 512 // of an encoded message
)

// Kind is the kind of a message.
type Kind uint8

// Kinds of messages.
const (
	VoteRequest Kind = iota + 1 // a candidate asks for a vote
	VoteReply                   // a voter answers, or repeats its vote
	Release                     // a candidate gives up all its ballots up to this one
	Welcome                     // a raft leader: the group has added the node's replica, which may start
	Removed                     // a raft leader: the group has removed the node's replica, forever
	Ask                         // a node that is Alone asks for the claim of another group
	Answer                      // the claim of the sender's group
	TakeOver                    // an operator, by way of a node that does not vote: the receiver shall be raft leader
	Client                      // a raft leader: the group has its replicas, and the node is a client until it is given one
)

// Message goes from one node to another.
type Message struct {
	Kind               Kind
	From, To           string // node ids
	Ballot             uint64
	Granted            bool   // of VoteReply
	Unix               int64  // of VoteReply: the voter's wall clock, seconds
	Cluster            string // of Welcome, Removed, Answer, TakeOver and Client: the group's id
	Alone              bool   // of Answer: see Claim
	Birth              uint64 // of Answer: see Claim
	Replica            uint64 // of Welcome, Removed and Client: id of the node's replica; a message about another than the present one is late
	AfterLeave         bool   // of Removed: the node's farewell has committed
	DuplicateDirectory bool   // of Removed: the group has a replica of the node in a life unknown to this process
	Lives              bool   // of Answer: a majority of the sender's group has answered it since the Ask. Versions of before do not say
}

// ErrMalformed answers Decode of bytes that are not a message.
var ErrMalformed = errors.New("holdfast: forming message is malformed")

// Field numbers on the wire. A number never changes its meaning; unknown ones are skipped.
const (
	fieldKind protowire.Number = iota + 1
	fieldFrom
	fieldTo
	fieldBallot
	fieldGranted
	fieldUnix
	fieldCluster
	fieldAlone
	fieldBirth
	fieldReplica
	fieldAfterLeave
	fieldDuplicateDirectory
	fieldLives
)

// Encode returns the wire form of m.
func (m Message) Encode() []byte {
	var b []byte
	number := func(field protowire.Number, v uint64) {
		b = protowire.AppendTag(b, field, protowire.VarintType)
		b = protowire.AppendVarint(b, v)
	}
	text := func(field protowire.Number, v string) {
		b = protowire.AppendTag(b, field, protowire.BytesType)
		b = protowire.AppendString(b, v)
	}
	number(fieldKind, uint64(m.Kind))
	text(fieldFrom, m.From)
	text(fieldTo, m.To)
	text(fieldCluster, m.Cluster)
	number(fieldAlone, protowire.EncodeBool(m.Alone))
	number(fieldBirth, m.Birth)
	number(fieldReplica, m.Replica)
	number(fieldAfterLeave, protowire.EncodeBool(m.AfterLeave))
	number(fieldDuplicateDirectory, protowire.EncodeBool(m.DuplicateDirectory))
	number(fieldBallot, m.Ballot)
	number(fieldGranted, protowire.EncodeBool(m.Granted))
	number(fieldUnix, uint64(m.Unix))
	if m.Lives { // the bytes of other messages are those of before
		number(fieldLives, protowire.EncodeBool(m.Lives))
	}
	return b
}

// Decode reads a message. It never panics, and returns ErrMalformed for messages that no node
// sends.
func Decode(b []byte) (Message, error) {
	var m Message
	if len(b) > MessageMax {
		return m, ErrMalformed
	}
	if !member.Fields(b, m.setText, m.setNumber) || !m.valid() {
		return Message{}, ErrMalformed
	}
	return m, nil
}

func (m *Message) setNumber(field protowire.Number, v uint64) {
	switch field {
	case fieldKind:
		m.Kind = Kind(min(v, 255))
	case fieldBallot:
		m.Ballot = v
	case fieldGranted:
		m.Granted = protowire.DecodeBool(v)
	case fieldUnix:
		m.Unix = int64(v)
	case fieldAlone:
		m.Alone = protowire.DecodeBool(v)
	case fieldBirth:
		m.Birth = v
	case fieldReplica:
		m.Replica = v
	case fieldAfterLeave:
		m.AfterLeave = protowire.DecodeBool(v)
	case fieldDuplicateDirectory:
		m.DuplicateDirectory = protowire.DecodeBool(v)
	case fieldLives:
		m.Lives = protowire.DecodeBool(v)
	}
}

func (m *Message) setText(field protowire.Number, v []byte) {
	switch field {
	case fieldFrom:
		m.From = string(v)
	case fieldTo:
		m.To = string(v)
	case fieldCluster:
		m.Cluster = string(v)
	}
}

func (m Message) valid() bool {
	switch {
	case !isID(m.From), !isID(m.To):
		return false
	case m.Kind == Welcome, m.Kind == Removed, m.Kind == Client:
		return isID(m.Cluster) && m.Replica != 0
	case m.Kind == Answer, m.Kind == TakeOver:
		return isID(m.Cluster)
	case m.Kind == Ask:
		return true
	}
	return m.Kind >= VoteRequest && m.Kind <= Release && m.Ballot != 0 && len(m.Cluster) <= IDMax
}

func isID(s string) bool { return s != "" && len(s) <= IDMax }
