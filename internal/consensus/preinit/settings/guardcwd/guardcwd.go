// Package guardcwd takes the process out of its working directory while dragonboat's package of
// settings is initialised, if a file there would change them.
//
// It runs right before that package. Go initialises packages in the order of their paths, each as
// soon as its imports are: this path comes first, and the blank imports, those of dragonboat's
// package, keep it from running any earlier.
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

// guard passes from one init to the next what this package did.
var guard struct {
	found []string
	home  *os.File // the working directory; nil where it may not be read
	path  string   // of home; "" if there is no way back
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

// found returns which of the files dragonboat would read in dir. It takes one without permission
// for present, and ends the process.
func found(dir string) []string {
	names := []string{"dragonboat-hard-settings.json", "dragonboat-soft-settings.json"}
	return slices.DeleteFunc(names, func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return os.IsNotExist(err)
	})
}

// Return goes back to the working directory. A second call does nothing. The process stays away
// from a directory without search permission, in which it could open no file.
func Return() {
	if guard.home == nil || guard.home.Chdir() != nil {
		_ = os.Chdir(guard.path)
	}
	_ = guard.home.Close()
	guard.home, guard.path = nil, ""
}

// Found returns the files that dragonboat did not read.
func Found() []string { return guard.found }
