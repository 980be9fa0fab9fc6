// Package guardcwd takes the process out of its working directory while dragonboat's package of
// settings is initialised, if a file lies there that would change them. See the package above.
//
// It runs right before that package does. The language says that packages are initialised in the
// order of their paths, each as soon as all that it imports is: this path comes first, and the
// blank imports, which are those of dragonboat's package, keep it from running any earlier than
// needed.
package guardcwd

import (
	_ "crypto/md5"
	_ "encoding/binary"
	_ "encoding/json"
	_ "fmt"
	_ "io"
	"os"
	"path/filepath"
	_ "reflect"
	"slices"

	_ "github.com/lni/dragonboat/v4/logger"
)

// guard is what this package did, because nothing else can carry it from one init to the next.
var guard struct {
	found []string
	home  *os.File // the working directory; nil where it may not be read
	path  string   // of it; "" when there is nothing to go back to
}

func init() {
	guard.found = found(".")
	if len(guard.found) == 0 {
		return
	}
	guard.home, _ = os.Open(".")
	guard.path, _ = os.Getwd()
	for _, dir := range []string{"/", filepath.Dir(os.DevNull), os.TempDir()} {
		if len(found(dir)) == 0 && os.Chdir(dir) == nil {
			return
		}
	}
}

// found returns which of the files are in dir, as far as dragonboat would read them: it takes one
// that it is not allowed to look at for present, and ends the process.
func found(dir string) []string {
	names := []string{"dragonboat-hard-settings.json", "dragonboat-soft-settings.json"}
	return slices.DeleteFunc(names, func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return os.IsNotExist(err)
	})
}

// Return goes back to the working directory. A second call does nothing. A directory that may not
// be searched cannot be returned to; nothing could be opened in it either, so the process stays
// where it went.
func Return() {
	if guard.home == nil || guard.home.Chdir() != nil {
		_ = os.Chdir(guard.path)
	}
	_ = guard.home.Close()
	guard.home, guard.path = nil, ""
}

// Found returns the files that dragonboat was kept from.
func Found() []string { return guard.found }
