// Package away takes the process out of its working directory while dragonboat's package of settings is
// initialised, if a file lies there that would change them. See the package above.
//
// It runs right before that package does. The language says that packages are initialised in the order of
// their paths, each as soon as all that it imports is: this path comes first, and the blank imports, which
// are those of dragonboat's package, keep it from running any earlier than needed.
package away

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

// trip is what this package did, because nothing else can carry it from one init to the next.
var trip struct {
	found []string
	home  *os.File // the working directory; nil where it may not be read
	path  string   // of it; "" when there is nothing to go back to
}

func init() {
	trip.found = found(".")
	if len(trip.found) == 0 {
		return
	}
	trip.home, _ = os.Open(".")
	trip.path, _ = os.Getwd()
	for _, dir := range []string{"/", filepath.Dir(os.DevNull), os.TempDir()} {
		if len(found(dir)) == 0 && os.Chdir(dir) == nil {
			return
		}
	}
}

// found answers which of the files are in dir, as far as dragonboat would read them: it takes one that it
// is not allowed to look at for present, and ends the process.
func found(dir string) []string {
	names := []string{"dragonboat-hard-settings.json", "dragonboat-soft-settings.json"}
	return slices.DeleteFunc(names, func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return os.IsNotExist(err)
	})
}

// Return goes back to the working directory. A second call does nothing. A directory that may not be searched
// cannot be returned to; nothing could be opened in it either, so the process stays where it went.
func Return() {
	if trip.home == nil || trip.home.Chdir() != nil {
		_ = os.Chdir(trip.path)
	}
	_ = trip.home.Close()
	trip.home, trip.path = nil, ""
}

// Found answers the files that dragonboat was kept from.
func Found() []string { return trip.found }
