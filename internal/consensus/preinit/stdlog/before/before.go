// Package before remembers the standard logger right before dragonboat's logging library takes it
// over.
//
// Go initialises packages in the order of their paths, each as soon as its imports are. This path
// comes before the library's, and the blank imports, those of the library, keep this package from
// running before the host's packages have.
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

// kept passes the logger's state from one init to the next.
var kept struct {
	flags  int
	prefix string
	writer io.Writer
}

func init() { kept.flags, kept.prefix, kept.writer = log.Flags(), log.Prefix(), log.Writer() }

// Restore restores the standard logger.
func Restore() {
	log.SetFlags(kept.flags)
	log.SetPrefix(kept.prefix)
	log.SetOutput(kept.writer)
}
