package consensus

import (
	"log"
	"os"
)

// init undoes what merely importing dragonboat does to the host's program: its logging library takes over
// the standard logger (no flags, no prefix, its own writer). This is the only init of the module.
func init() {
	log.SetFlags(log.LstdFlags)
	log.SetOutput(os.Stderr)
}
