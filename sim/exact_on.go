//go:build simexact

package sim

import (
	"math/rand"
	"sync"
	"testing/synctest"
	_ "unsafe" // for go:linkname
)

// seedRuntime makes all that the runtime leaves to chance in this bubble follow from seed, and the
// election timeouts of Raft, whose generator is of the whole process.
func seedRuntime(seed uint64) {
	synctest.Seed(seed)
	elections.mu.Lock()
	defer elections.mu.Unlock()
	elections.source = rand.New(rand.NewSource(int64(seed)))
}

// lots is the state of the runtime's generator: it tells how many lots were drawn.
func lots() uint64 { return synctest.Lots() }

// elections is the generator that dragonboat draws election timeouts from. A version that renames
// it fails to link.
//
//go:linkname elections github.com/lni/goutils/random.LockGuardedRand
var elections *struct {
	source rand.Source64
	mu     sync.Mutex
}
