// Package settings keeps what lies in the working directory from changing dragonboat, or from
// ending the process. Dragonboat reads dragonboat-hard-settings.json and
// dragonboat-soft-settings.json from there when it is initialised, which is before main: a damaged
// one is a panic that nothing can catch, and a sound one would make this replica another than the
// rest of its group. So the process looks elsewhere for that moment, and only if such a file is
// there. It does so also for a program that uses dragonboat itself.
package settings

import (
	_ "github.com/lni/dragonboat/v4/raftpb" // the least that can be imported and needs dragonboat's settings

	"github.com/holdfast-go/holdfast/internal/consensus/settings/guardcwd"
)

func init() { guardcwd.Return() }

// Ignored returns the files of settings that lay in the working directory when the program started.
func Ignored() []string { return guardcwd.Found() }
