package store

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
