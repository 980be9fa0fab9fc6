package fsm

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"time"
)

// Node is a node's stable id, a UUID.
type Node [16]byte

// ParseNode reads the 36-character form of a UUID, as Node.String writes it.
func ParseNode(s string) (Node, error) {
	var n Node
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return n, fmt.Errorf("holdfast: node id %q is not a UUID", s)
	}
	digits := s[:8] + s[9:13] + s[14:18] + s[19:23] + s[24:]
	if _, err := hex.Decode(n[:], []byte(digits)); err != nil {
		return Node{}, fmt.Errorf("holdfast: node id %q is not a UUID: %w", s, err)
	}
	return n, nil
}

// String is the UUID in its usual 36 characters.
func (n Node) String() string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", n[:4], n[4:6], n[6:8], n[8:10], n[10:])
}

// Process is one run of a node's process.
type Process struct {
	Node        Node
	Incarnation uint64
}

// ProcessBytes is the size of an encoded Process: the node's id, and the incarnation, big-endian.
const ProcessBytes = 16 + 8

// AppendTo appends the encoded process.
func (p Process) AppendTo(b []byte) []byte {
	return binary.BigEndian.AppendUint64(append(b, p.Node[:]...), p.Incarnation)
}

// CutProcess reads the process that b begins with, and returns what follows it; false if b is too
// short for one.
func CutProcess(b []byte) (p Process, rest []byte, ok bool) {
	if len(b) < ProcessBytes {
		return p, nil, false
	}
	copy(p.Node[:], b)
	p.Incarnation = binary.BigEndian.Uint64(b[len(p.Node):])
	return p, b[ProcessBytes:], true
}

// Departure is whether a node stays in the group after one of its processes has said good-bye.
type Departure uint8

const (
	Stays  Departure = iota // a later process of the node may come
	Leaves                  // the node waits for its replica to be removed, which is there until then
	Gone                    // its replica has ended, too, and comes back no more
)

// SessionID names a session forever: the node, the run of its process, and a number that the run
// counts up from 1 and never uses twice.
type SessionID struct {
	Node        Node
	Incarnation uint64
	Number      uint64
}

// Process is the run of the process that the session is of.
func (id SessionID) Process() Process { return Process{id.Node, id.Incarnation} }

// String is "node/incarnation/number", for logs.
func (id SessionID) String() string {
	return fmt.Sprintf("%v/%d/%d", id.Node, id.Incarnation, id.Number)
}

// Mode is how a holder has a lock.
type Mode uint8

const (
	Exclusive Mode = iota // alone
	Shared                // together with other shared holders
	Permit                // with a weight, as long as the weights of all fit the limit
)

// String is the mode in lower case.
func (m Mode) String() string { return named("mode", uint8(m), "exclusive", "shared", "permit") }

// Holder is one grant of a lock, or one waiter for it (Token is 0).
type Holder struct {
	Session  SessionID
	Request  uint64
	NodeName string
	Terms
	Token   uint64
	Granted uint64 // number of the command that granted it; of its own for a waiter
}

// Lock is what is known about one name.
type Lock struct {
	Name      string
	Mode      Mode     // of the holders and rests
	Limit     uint32   // of the semaphore that the name is in use as, or was resized to; 0: in use as a lock, or not in use
	Former    uint32   // the limit before it was resized, which is accepted as well; 0: it was not
	Holders   []Holder // in the order of their tokens; none: free
	Waiters   []Holder // in the order in which they will be served
	Value     []byte   // nil: none
	LastToken uint64   // highest token granted, as far as it is remembered
	Wanted    bool     // the present holders have been told that the lock is wanted
	Rests     []Rest   // places that stay taken though their holder is gone, in the order of their tokens
}

// Head is the first holder of a lock, and how many wait.
type Head struct {
	Holder  // with the lowest token
	Value   []byte
	Waiters int
}

// Session is an open session.
type Session struct {
	ID      SessionID
	TTL     time.Duration
	Renewed uint64 // number of the command that renewed it last
}

// NodeRecord is a process of a node as the group knows it.
type NodeRecord struct {
	Node        Node
	Incarnation uint64
	Name        string
	Place       Place
	Since       uint64 // number of its Hello, or of what it asked for first after it was gone
	Gone        bool   // it was said that the node has no replica, and it has asked for nothing since
	Idle        bool   // its id is bound to a key, and it has no session
	Lasting     bool   // it is gone, and has sessions
	Level       uint64 // highest that the process knows
}

// Info is the state in numbers.
type Info struct {
	Cluster    [16]byte
	Born       bool
	Serving    bool
	Level      uint64 // feature level, from 1
	Counter    uint64 // no token up to it is granted any more
	Applied    uint64 // log index of the last entry
	Commands   uint64 // applied so far: the number of the last one
	Bootstrap  uint32 // as Birth said
	Voters     uint32 // as Birth said
	Locks      int    // names that are held, waited for or have a value
	Grants     int
	Waiters    int
	Sessions   int
	Nodes      int
	ValueBytes int64 // values of locks and of waiters
	Rests      int
	Keys       int           // Once keys that are remembered as finished
	MaxTTL     time.Duration // bound on the TTLs of sessions, 0 before the first RaiseTTL
	Wait       time.Duration // of a recovered group that does not serve yet: before its Serve, from its opening on
}

// RequestState is what became of a request number.
type RequestState uint8

const (
	RequestUnknown     RequestState = iota // not seen yet: it may still come
	RequestWaiting                         // in the queue of its lock
	RequestGranted                         // holds its lock
	RequestFinished                        // over: refused, withdrawn, released or lost
	RequestSessionLost                     // its session has ended
)

// String is the state in lower case.
func (s RequestState) String() string {
	return named("request", uint8(s), "unknown", "waiting", "granted", "finished", "session lost")
}
