// Package before remembers the standard logger as it is right before dragonboat's logging library
// takes it over. See the package above.
//
// The language says that packages are initialised in the order of their paths, each as soon as all
// that it imports is. This path comes before that of the library, and the blank imports are those
// of the library: they keep this package from running any earlier than needed, when not all of the
// host's packages have had their turn.
package before

import (
	_ "bufio"
	_ "bytes"
	_ "errors"
	_ "fmt"
	"io"
	"log"
	_ "os"
	_ "runtime"
	_ "strconv"
	_ "strings"
	_ "sync"
	_ "time"
)

// kept is what this package saw, because nothing else can carry it from one init to the next.
var kept struct {
	flags  int
	prefix string
	writer io.Writer
}

func init() { kept.flags, kept.prefix, kept.writer = log.Flags(), log.Prefix(), log.Writer() }

// Restore gives the standard logger back what it had.
func Restore() {
	log.SetFlags(kept.flags)
	log.SetPrefix(kept.prefix)
	log.SetOutput(kept.writer)
}
