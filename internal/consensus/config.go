package consensus

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/vfs"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/consensus/engine"
	"github.com/holdfast-go/holdfast/internal/consensus/report"
	"github.com/holdfast-go/holdfast/internal/consensus/store"
	"github.com/holdfast-go/holdfast/internal/consensus/wire"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/transport"
)

// Config configures a replica. Node, Incarnation, Cluster, Dir, FS, Endpoint, Resolve and Observer
// are required.
type Config struct {
	Node string // this node's id, a lower-case UUID
	// Incarnation tells this process of the node from all others: it counts the starts of the
	// node's directory, in all but the lowest RunBits, and is on the disk before Open.
	Incarnation uint64
	// Life is which of the node's lives as a replica this is: see ReplicaOf. Dir belongs to this
	// life alone.
	Life    uint64
	Replica uint64 // default, and only valid value: ReplicaOf(Node, Life)
	Cluster string // the group's id, a lower-case UUID: replicas of other clusters are refused
	Dir     string // the directory of the Raft data, made when missing
	FS      vfs.FS // of Dir

	Tick      time.Duration // unit of Raft's time, whole milliseconds. Default 50ms
	Heartbeat time.Duration // between heartbeats, whole ticks. Default 2 ticks
	Election  time.Duration // silence before an election, to twice that; over 2 heartbeats. Default 3 heartbeats

	SnapshotEntries uint64 // entries between snapshots (see also snapshots.go). Default 20,000
	SnapshotKeep    uint64 // entries before a snapshot that are kept for replicas that lag. Default 5,000

	Endpoint transport.Endpoint // the group uses its KindRaft; the owner closes it after the group
	// Resolve returns a node's present address. It must be quick and is called from many
	// goroutines; the last answer is kept for when it has none.
	Resolve  func(node string) (addr string, ok bool)
	Observer Observer
	Wall     func() time.Time // the node's wall clock. Default: the machine's
	// Clock is the node's clock. Default: the process's. Behind is called when it has lost time, which
	// drift (see internal/lease) does not explain, by the clock of another node: before anything is
	// applied that this node's replica has received since. It must be quick.
	Clock   func() lease.Instant
	Drift   float64
	Behind  func(lost time.Duration, by string)
	Logger  *slog.Logger // default: silence
	Limits  fsm.Limits   // lower bounds of the state, for tests
	Level   uint64       // highest feature level that this version knows, for tests. Default: fsm.LevelKnown
	Figures *Figures     // counters that the group adds to. Default: none

	tail  *tail        // of Read: collects the end of the log; nil: nobody asks
	state *fsm.Machine // of Found: the state before the first entry; nil: the empty one
}

// Observer receives the events of a replica.
type Observer interface {
	// Applied receives the events of a batch of commands after it was applied and before its
	// proposers have their outcomes. Applied and Restored run on the goroutine that applies: they
	// must be quick, never block, and not keep the slice.
	Applied(events []fsm.Event)
	// Restored reports that the state was replaced by a snapshot. m may be read until it returns.
	Restored(m *fsm.Machine)
	// LeaderChanged reports that RaftLeader may have changed. It must be quick.
	LeaderChanged()
	// Failed is called once when the replica has stopped for good, from a goroutine of its own, for
	// which Close does not wait.
	Failed(err error)
}

// Start is what Open does with the directory. StartBootstrap and StartJoin on a directory where
// that was done before are a restart, so a crash in between is harmless.
type Start uint8

const (
	StartBootstrap Start = iota + 1 // a new group with this replica alone
	StartJoin                       // a new replica, which the group adds as a standby
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

func (c Config) withDefaults() Config {
	c.Replica = cmp.Or(c.Replica, ReplicaOf(c.Node, c.Life))
	c.Tick, c.Heartbeat, c.Election = report.Pace(c.Tick, c.Heartbeat, c.Election)
	c.SnapshotEntries = cmp.Or(c.SnapshotEntries, 20_000)
	c.SnapshotKeep = cmp.Or(c.SnapshotKeep, 5_000)
	if c.Wall == nil {
		c.Wall = time.Now
	}
	if c.Clock == nil {
		began := time.Now()
		c.Clock = func() lease.Instant { return lease.Instant(time.Since(began)) }
	}
	if c.Behind == nil {
		c.Behind = func(time.Duration, string) {}
	}
	c.Figures, c.Level = cmp.Or(c.Figures, new(Figures)), cmp.Or(c.Level, fsm.LevelKnown)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c
}

func (c Config) validate(how Start) error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
	}
	switch {
	case how < StartBootstrap || how > StartRestart:
		return wrong("start %d", how)
	case !wire.IsNode(c.Node):
		return wrong("Node %q is no lower-case UUID", c.Node)
	case c.Incarnation == 0:
		return wrong("Incarnation is required")
	case c.Life >= 1<<wire.LifeBits:
		return wrong("Life %d is too high", c.Life)
	case c.Replica != ReplicaOf(c.Node, c.Life):
		return wrong("Replica %d is not that of life %d of Node %s", c.Replica, c.Life, c.Node)
	case !wire.IsNode(c.Cluster):
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

// attempt bounds one attempt: time enough for a new raft leader if the old one was lost.
func (c Config) attempt() time.Duration { return 3 * c.Election }

// settling is how long after a change of the raft leader an answer may still come, at the longest:
// the new one commits its log at once.
func (c Config) settling() time.Duration { return c.Heartbeat }

// RunBits of an incarnation, the lowest, are random: see the wire.
const RunBits = wire.RunBits

// ReplicaOf is the replica of a node in one of its lives, from 0. The group never takes back a
// replica that was removed: its node comes back in another life, with an empty directory.
func ReplicaOf(node string, life uint64) uint64 { return wire.ReplicaOf(node, life) }

// LaterLife reports whether replica next of a node is in a later life than replica known.
func LaterLife(node string, known, next uint64) bool { return wire.LaterLife(node, known, next) }

// The engine's settings. Those of hostConfig with "frozen" are stamped into the data directory;
// those of replicaConfig with "group" must be the same on all replicas, forever: they change how
// entries apply.

func (c Config) ticks(d time.Duration) uint64 { return uint64(d / c.Tick) }

func (c Config) hostConfig(d vfs.FS, wires config.TransportFactory, nodes *wire.Registry, logs store.Factory, leaders *leaders) config.NodeHostConfig {
	logDB := config.GetTinyMemLogDBConfig()
	logDB.Shards = 1 // frozen
	return config.NodeHostConfig{
		DeploymentID:        wire.Deployment(c.Cluster), // frozen
		NodeHostID:          c.Node,                     // frozen
		NodeHostDir:         c.Dir,
		RTTMillisecond:      uint64(c.Tick / time.Millisecond),
		RaftAddress:         c.Node,
		RaftEventListener:   leaders,
		MaxSendQueueSize:    64 << 20,
		MaxReceiveQueueSize: 64 << 20,
		Expert: config.ExpertConfig{
			LogDBFactory:        logs,
			TransportFactory:    wires,
			NodeRegistryFactory: nodes,
			LogDB:               logDB,
			// ExecShards is frozen. One worker of each kind is right for one group.
			Engine: config.EngineConfig{ExecShards: 1, CommitShards: 1, ApplyShards: 1, SnapshotShards: 1, CloseShards: 1},
			// The log store accepts three types of file system; this one can wrap another.
			FS: vfs.Wrap(d, faultless{}),
		},
	}
}

func (c Config) replicaConfig(standby bool) config.Config {
	return config.Config{
		ReplicaID:               c.Replica,
		ShardID:                 engine.Shard,
		CheckQuorum:             true, // group
		PreVote:                 true, // group
		OrderedConfigChange:     true, // group
		ElectionRTT:             c.ticks(c.Election),
		HeartbeatRTT:            c.ticks(c.Heartbeat),
		SnapshotEntries:         c.SnapshotEntries,
		CompactionOverhead:      c.SnapshotKeep,
		MaxInMemLogSize:         128 << 20,
		SnapshotCompressionType: config.Snappy,
		EntryCompressionType:    config.NoCompression,
		IsNonVoting:             standby, // as at the replica's first start, forever
		WaitReady:               true,
	}
}

// faultless injects no faults: vfs.Wrap is made for tests.
type faultless struct{}

// MaybeError returns nil.
func (faultless) MaybeError(vfs.Op) error { return nil }
