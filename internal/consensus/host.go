package consensus

import (
	"time"

	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/vfs"
)

// The engine's settings. Those of hostConfig with "frozen" are stamped into the data directory;
// those of replicaConfig with "group" must be the same on all replicas, for ever: they change how
// entries apply.

func (c Config) ticks(d time.Duration) uint64 { return uint64(d / c.Tick) }

func (c Config) hostConfig(d *disk, wires config.TransportFactory, nodes *registry, store *logStoreFactory, leaders *leaders) config.NodeHostConfig {
	logDB := config.GetTinyMemLogDBConfig()
	logDB.Shards = 1 // frozen
	return config.NodeHostConfig{
		DeploymentID:        deployment(c.Cluster), // frozen
		NodeHostID:          c.Node,                // frozen
		NodeHostDir:         c.Dir,
		RTTMillisecond:      uint64(c.Tick / time.Millisecond),
		RaftAddress:         c.Node,
		RaftEventListener:   leaders,
		MaxSendQueueSize:    64 << 20,
		MaxReceiveQueueSize: 64 << 20,
		Expert: config.ExpertConfig{
			LogDBFactory:        store,
			TransportFactory:    wires,
			NodeRegistryFactory: nodes,
			LogDB:               logDB,
			// ExecShards is frozen. One worker of each kind is right for one group.
			Engine: config.EngineConfig{ExecShards: 1, CommitShards: 1, ApplyShards: 1, SnapshotShards: 1, CloseShards: 1},
			// The log store accepts three types of file system only, and this is the one that can
			// carry another.
			FS: vfs.Wrap(d, faultless{}),
		},
	}
}

func (c Config) replicaConfig(standby bool) config.Config {
	return config.Config{
		ReplicaID:               c.Replica,
		ShardID:                 shard,
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
		IsNonVoting:             standby, // what the replica was at its first start, for ever
		WaitReady:               true,
	}
}

// faultless injects no faults: vfs.Wrap is meant for tests.
type faultless struct{}

// MaybeError returns nil.
func (faultless) MaybeError(vfs.Op) error { return nil }
