// Package stdlog undoes an effect of importing dragonboat: its logging library takes over the
// standard logger (no flags, no prefix, a writer of its own). Package before remembers the logger's
// state right before that, and this package restores it right after: it imports the least that
// brings the library.
//
// So the settings of the host's packages stay, whether their init ran earlier or runs later. The
// limit is a package with a path between github.com/holdfast-go and github.com/lni that becomes
// ready by the same import as the library (log/syslog on Unix; on Windows log or a later one): its
// settings are lost.
package stdlog

import (
	_ "github.com/lni/dragonboat/v4/logger" // brings the library that takes the logger over

	"github.com/holdfast-go/holdfast/internal/consensus/preinit/stdlog/before"
)

func init() { before.Restore() }
