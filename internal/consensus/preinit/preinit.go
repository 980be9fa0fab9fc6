// Package preinit runs before the engine, when the program's packages are initialised: package
// stdlog restores the host's standard logger, package settings keeps the engine from files of the
// working directory, and this one sets a variable of the engine that has no setting. Importing
// this package is enough.
//
// Go initialises packages in the order of their paths, each as soon as its imports are. The first
// two rely on that, and their tests prove it, so their paths and imports are fixed. Package pooled
// is for simulations alone, and not imported here.
package preinit

import (
	_ "unsafe" // for go:linkname

	_ "github.com/lni/dragonboat/v4" // brings the variable, and is set up before init

	"github.com/holdfast-go/holdfast/internal/consensus/preinit/settings"
	_ "github.com/holdfast-go/holdfast/internal/consensus/preinit/stdlog" // gives the host its logger back
)

// IgnoredFiles returns the engine's settings files that are ignored.
func IgnoredFiles() []string { return settings.Ignored() }

// entrySliceSize is the number of entries for which the engine allocates memory at each commit of a
// quiet group. Its default of 512 takes 45 KB each time, and more than a quarter of the processor
// time of an uncontended pair (BenchmarkAcquireRelease). A group has a few entries under way.
//
//go:linkname entrySliceSize github.com/lni/dragonboat/v4/internal/raft.entrySliceSize
var entrySliceSize uint64

// minEntrySliceSize is for how few more entries that memory has room when the engine allocates it
// anew. It must be below entrySliceSize.
//
//go:linkname minEntrySliceSize github.com/lni/dragonboat/v4/internal/raft.minEntrySliceSize
var minEntrySliceSize uint64

func init() { entrySliceSize, minEntrySliceSize = 32, 8 }
