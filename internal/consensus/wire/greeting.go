package wire

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/consensus/store"
)

// greeting is the first frame of a connection: its sender.
type greeting struct {
	deployment  uint64
	node        fsm.Node
	incarnation uint64
	life        uint64         // of the node as a replica
	began       store.Position // the replica's position when this process started it
	wall        time.Duration  // the node's wall clock, since 1970 (see clocks.go)
	addr        string         // the node's address, "" if it does not know it
}

const (
	greetingVersion = 5
	greetingBytes   = 1 + 8 + 16 + 2*8 + 3*8 + 8 // before the address
	greetingAddrMax = greetingMax - greetingBytes
)

// Size is the size of a greeting on the wire.
func (g greeting) Size() int { return greetingBytes + len(g.addr) }

// MarshalTo writes the greeting.
func (g greeting) MarshalTo(b []byte) (int, error) {
	out := append(b[:0], greetingVersion)
	out = binary.LittleEndian.AppendUint64(out, g.deployment)
	out = append(out, g.node[:]...)
	for _, v := range []uint64{g.incarnation, g.life, g.began.Term, g.began.Vote, g.began.Index, uint64(g.wall)} {
		out = binary.LittleEndian.AppendUint64(out, v)
	}
	return len(append(out, g.addr...)), nil
}

func decodeGreeting(b []byte) (g greeting, err error) {
	if len(b) < greetingBytes || len(b) > greetingBytes+greetingAddrMax || b[0] != greetingVersion {
		return g, fmt.Errorf("%w: greeting of %d bytes in another version", errFrame, len(b))
	}
	g.deployment = binary.LittleEndian.Uint64(b[1:])
	copy(g.node[:], b[9:])
	numbers := [6]uint64{}
	for i := range numbers {
		numbers[i] = binary.LittleEndian.Uint64(b[25+8*i:])
	}
	g.incarnation, g.life, g.began = numbers[0], numbers[1], store.Position{Term: numbers[2], Vote: numbers[3], Index: numbers[4]}
	g.wall = time.Duration(numbers[5])
	if g.life >= 1<<LifeBits {
		return g, fmt.Errorf("%w: greeting of life %d", errFrame, g.life)
	}
	g.addr = string(b[greetingBytes:])
	return g, nil
}

// IsNode reports whether s is a UUID in lower case, as the engine keeps it.
func IsNode(s string) bool {
	u, err := uuid.Parse(s)
	return err == nil && u.String() == s
}

// ReplicaID is the replica of a node in its first life: a hash of its id, never 0.
func ReplicaID(node string) uint64 { return digest("replica", node) }

// LifeBits bound the life of a node as a replica. Its lowest LifeRandomBits are random, the others
// count: two processes that began the same life, on copies of one directory, are two replicas.
const (
	LifeBits       = 48
	LifeRandomBits = 24
)

// ReplicaOf is the replica of a node in one of its lives, from 0. The group never takes back a
// replica that was removed: its node comes back in another life, with an empty directory.
func ReplicaOf(node string, life uint64) uint64 { return ReplicaID(node) ^ life }

// lifeOf returns which life of a node a replica is; false if the replica is not the node's.
func lifeOf(node string, replica uint64) (life uint64, ok bool) {
	life = ReplicaID(node) ^ replica
	return life, life < 1<<LifeBits
}

// IsOf reports whether a replica is one of a node's.
func IsOf(node string, replica uint64) bool {
	_, ok := lifeOf(node, replica)
	return ok
}

// mayFollow reports whether a node that was in life known may be in life next: the same life, a
// later one, or another one with the same count, which only a copy of its directory has.
func mayFollow(known, next uint64) bool { return next>>LifeRandomBits >= known>>LifeRandomBits }

// LaterLife reports whether replica next of a node is of a later life than replica known.
func LaterLife(node string, known, next uint64) bool {
	before, _ := lifeOf(node, known)
	after, ok := lifeOf(node, next)
	return ok && !mayFollow(after, before)
}

// Deployment is the cluster's id in messages: never 0 nor 1, which mean "none".
func Deployment(cluster string) uint64 { return digest("cluster", cluster) }

func digest(kind, id string) uint64 {
	sum := sha256.Sum256([]byte(kind + "\x00" + id))
	return binary.LittleEndian.Uint64(sum[:]) | 1<<63>>1 // one bit less, for "never 0 or 1"
}

// RunBits of an incarnation, the lowest, are random: two processes on copies of one directory, with
// as many starts, are told apart.
const RunBits = 24

// after reports whether process next of a node is known, or may come after known. Of two processes
// with as many starts, the known one stays.
func after(known, next uint64) bool {
	return known == 0 || next == known || next>>RunBits > known>>RunBits
}
