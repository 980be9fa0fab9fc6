package consensus

import (
	_ "unsafe" // for go:linkname

	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/raftio"
)

// newPebbleStore is the engine's own default log store. The engine uses it when it is given none,
// but has no exported way to make one, which logStore needs to wrap it. An engine that renames it
// fails to link.
//
//go:linkname newPebbleStore github.com/lni/dragonboat/v4/internal/logdb.NewDefaultLogDB
func newPebbleStore(cfg config.NodeHostConfig, busy config.LogDBCallback, dirs, wals []string) (raftio.ILogDB, error)

// entrySliceSize is for how many entries the engine makes room in memory, at every commit of a
// quiet group. By its own default of 512 that is 45 KB each time, and more than a quarter of the
// processor time of an uncontended pair (BenchmarkAcquireRelease). It must be above 96, the
// engine's minEntrySliceSize.
//
//go:linkname entrySliceSize github.com/lni/dragonboat/v4/internal/raft.entrySliceSize
var entrySliceSize uint64

func init() { entrySliceSize = 128 }
