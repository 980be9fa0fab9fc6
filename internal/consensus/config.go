package consensus

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/lni/vfs"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/transport"
)

// Config of a replica. Node, Incarnation, Cluster, Dir, FS, Endpoint, Resolve and Observer are
// required.
type Config struct {
	Node string // this node's id, a lower-case UUID
	// Incarnation tells this process of the node from all others: it counts the starts of the
	// node's directory, in all but the lowest RunBits, and is written there before Open.
	Incarnation uint64
	// Life is which of the node's lives as a replica this is: see ReplicaOf. Dir belongs to this
	// life alone.
	Life    uint64
	Replica uint64 // default ReplicaOf(Node, Life), which is what the other replicas take it to be
	Cluster string // the group's id, a lower-case UUID: replicas of another cluster are not heard
	Dir     string // the directory of the Raft data, below the data directory; made when missing
	FS      vfs.FS // where Dir is

	Tick      time.Duration // unit of Raft's time, whole milliseconds. Default 20ms
	Heartbeat time.Duration // between heartbeats, whole ticks. Default 2 ticks
	Election  time.Duration // silence before an election, to twice that; over 2 heartbeats. Default 5 heartbeats

	SnapshotEntries uint64 // entries of the log between snapshots, and a fifth of the commands; see also snapshotBytes. Default 20,000
	SnapshotKeep    uint64 // entries kept for replicas that lag, behind a snapshot. Default 5,000

	Endpoint transport.Endpoint // KindRaft of it is this package's; the owner closes it after the group
	// Resolve returns a node's present address. It must be quick and is called from many
	// goroutines; the last answer is kept for when it has none.
	Resolve  func(node string) (addr string, ok bool)
	Observer Observer
	Wall     func() time.Time // the node's wall clock. Default: the machine's
	Logger   *slog.Logger     // default: silence
	Limits   fsm.Limits       // lower bounds of the state, for tests
	Figures  *Figures         // what is counted is added here. Default: nowhere

	store storeKind // default pebble; for tests that compare
}

// Observer hears what happens to the replica.
type Observer interface {
	// Applied brings the events of a batch of commands after it was applied and before its
	// proposers have their outcomes. Applied and Restored run on the goroutine that applies: they
	// must be quick and never block. The slice is not theirs to keep.
	Applied(events []fsm.Event)
	// Restored says that the state came as a whole. m may be read until it returns.
	Restored(m *fsm.Machine)
	// LeaderChanged says that RaftLeader may answer otherwise now. It must be quick.
	LeaderChanged()
	// Failed is called once when the replica stops for good, from a goroutine of its own. Close
	// waits for it unless it is Failed that calls Close.
	Failed(err error)
}

// Start says what Open is to do with the directory. Bootstrap and Join on a directory where that
// was done before are a restart, so that a crash in between needs no care.
type Start uint8

const (
	StartBootstrap Start = iota + 1 // a new group with this replica alone
	StartJoin                       // a new replica, which others add to their group as a standby
	StartRestart                    // a replica that has data here
)

// String is the start in lower case.
func (s Start) String() string {
	switch s {
	case StartBootstrap:
		return "bootstrap"
	case StartJoin:
		return "join"
	case StartRestart:
		return "restart"
	}
	return fmt.Sprintf("start(%d)", uint8(s))
}

// ReplicaID is the replica of a node in its first life: a hash of its id, never 0.
func ReplicaID(node string) uint64 { return digest("replica", node) }

// LifeBits bound the life of a node as a replica. The lowest LifeRandomBits of it are random, the
// others count: two processes that began the same life, because one of them has a copy of the
// other's directory, are two replicas.
const (
	LifeBits       = 48
	LifeRandomBits = 24
)

// ReplicaOf is the replica of a node in one of its lives. The group never takes a replica back that
// it has removed: the node comes back in another life, with nothing of the former one. The first is
// life 0.
func ReplicaOf(node string, life uint64) uint64 { return ReplicaID(node) ^ life }

// lifeOf returns which life of a node a replica is; false for one that is none of the node's.
func lifeOf(node string, replica uint64) (life uint64, ok bool) {
	life = ReplicaID(node) ^ replica
	return life, life < 1<<LifeBits
}

// isOf reports whether a replica is one of a node's.
func isOf(node string, replica uint64) bool {
	_, ok := lifeOf(node, replica)
	return ok
}

// mayFollow reports whether a node that was in life known may be in life next: the same one,
// another with as high a count, which only a copy of its directory has, or a later one.
func mayFollow(known, next uint64) bool { return next>>LifeRandomBits >= known>>LifeRandomBits }

// LaterLife reports whether replica next of a node is of a later life than replica known.
func LaterLife(node string, known, next uint64) bool {
	before, _ := lifeOf(node, known)
	after, ok := lifeOf(node, next)
	return ok && !mayFollow(after, before)
}

// deployment is the cluster's id as messages carry it: never 0 and never 1, which mean "none".
func deployment(cluster string) uint64 { return digest("cluster", cluster) }

func digest(kind, id string) uint64 {
	sum := sha256.Sum256([]byte(kind + "\x00" + id))
	return binary.LittleEndian.Uint64(sum[:]) | 1<<63>>1 // one bit is given away for "never 0 or 1"
}

// Pace returns the timing of a group, where what is 0 takes its default: docs/benchmarks.md has
// what they were chosen by.
func Pace(tick, heartbeat, election time.Duration) (_, _, _ time.Duration) {
	tick = cmp.Or(tick, 20*time.Millisecond)
	heartbeat = cmp.Or(heartbeat, 2*tick)
	return tick, heartbeat, cmp.Or(election, 5*heartbeat)
}

func (c Config) withDefaults() Config {
	if c.Replica == 0 {
		c.Replica = ReplicaOf(c.Node, c.Life)
	}
	c.Tick, c.Heartbeat, c.Election = Pace(c.Tick, c.Heartbeat, c.Election)
	if c.SnapshotEntries == 0 {
		c.SnapshotEntries = 20_000
	}
	if c.SnapshotKeep == 0 {
		c.SnapshotKeep = 5_000
	}
	if c.Wall == nil {
		c.Wall = time.Now
	}
	if c.Figures == nil {
		c.Figures = new(Figures)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.store.name == "" {
		c.store = pebbleStore()
	}
	return c
}

func (c Config) validate(how Start) error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
	}
	switch {
	case how < StartBootstrap || how > StartRestart:
		return wrong("start %d", how)
	case !isNode(c.Node):
		return wrong("Node %q is no lower-case UUID", c.Node)
	case c.Incarnation == 0:
		return wrong("Incarnation is required")
	case c.Life >= 1<<LifeBits:
		return wrong("Life %d is too high", c.Life)
	case c.Replica != ReplicaOf(c.Node, c.Life):
		return wrong("Replica %d is not that of life %d of Node %s", c.Replica, c.Life, c.Node)
	case !isNode(c.Cluster):
		return wrong("Cluster %q is no lower-case UUID", c.Cluster)
	case c.Dir == "", c.FS == nil:
		return wrong("Dir and FS are required")
	case c.Endpoint == nil, c.Resolve == nil, c.Observer == nil:
		return wrong("Endpoint, Resolve and Observer are required")
	case c.Tick < time.Millisecond, c.Tick%time.Millisecond != 0:
		return wrong("Tick %v is not whole milliseconds", c.Tick)
	case c.Heartbeat < c.Tick, c.Heartbeat%c.Tick != 0:
		return wrong("Heartbeat %v is not whole ticks of %v", c.Heartbeat, c.Tick)
	case c.Election <= 2*c.Heartbeat, c.Election%c.Tick != 0:
		return wrong("Election %v is not over two heartbeats and whole ticks", c.Election)
	case c.Election > time.Hour:
		return wrong("Election %v is over an hour", c.Election)
	}
	return nil
}

// attempt bounds one attempt: by then a new raft leader has been elected if the old one was lost.
func (c Config) attempt() time.Duration { return 3 * c.Election }

// settling is how long after a change of the raft leader an answer may still come: what the new one
// has in its log it commits at once.
func (c Config) settling() time.Duration { return c.Heartbeat }

// isNode reports whether s is a UUID as this library writes it. The engine keeps ids in lower case.
func isNode(s string) bool {
	u, err := uuid.Parse(s)
	return err == nil && u.String() == s
}
