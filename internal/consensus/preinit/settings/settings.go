// Package settings keeps files of the working directory from changing dragonboat, or from ending
// the process. Dragonboat reads dragonboat-hard-settings.json and dragonboat-soft-settings.json
// there when it is initialised, before main: a damaged file is a panic that no caller can recover,
// and a sound one would make this replica differ from its group. So the process leaves the
// directory for that moment, only if such a file is there, and also in a program that uses
// dragonboat itself.
package settings

import (
	_ "github.com/lni/dragonboat/v4/raftpb" // the least that can be imported and needs dragonboat's settings

	"github.com/holdfast-go/holdfast/internal/consensus/preinit/settings/guardcwd"
)

func init() { guardcwd.Return() }

// Ignored returns the settings files that were in the working directory when the program started.
func Ignored() []string { return guardcwd.Found() }
