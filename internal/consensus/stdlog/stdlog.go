// Package stdlog undoes what merely importing dragonboat does to the host's program: its logging
// library takes over the standard logger (no flags, no prefix, a writer of its own). What the
// logger had right before is remembered by package before, and given back right after: this package
// imports the least that brings the library with it.
//
// So whatever the host's packages set in their own init stays, whether that ran earlier or runs
// later. The limit is a package between the two in the order of paths, from github.com/holdfast-go
// to github.com/lni, that becomes ready by the very import for which the library has waited last
// (log/syslog on Unix; on Windows log or one of those that come after it): what it sets is lost. No
// package can come closer, as paths are what they are.
package stdlog

import (
	_ "github.com/lni/dragonboat/v4/logger" // brings the library that takes the logger over

	"github.com/holdfast-go/holdfast/internal/consensus/stdlog/before"
)

func init() { before.Restore() }
