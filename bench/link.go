package main

import (
	_ "unsafe" // for go:linkname

	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/raftio"
)

// newPebbleStore is the engine's own default log store, which it has no exported way to make.
//
//go:linkname newPebbleStore github.com/lni/dragonboat/v4/internal/logdb.NewDefaultLogDB
func newPebbleStore(cfg config.NodeHostConfig, busy config.LogDBCallback, dirs, wals []string) (raftio.ILogDB, error)
