package wire

import (
	"fmt"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/fsm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testCluster = "c1000000-0000-4000-8000-000000000001"

// nodeID is the id of the nth node.
func nodeID(n int) string { return fmt.Sprintf("a0000000-0000-4000-8000-%012d", n) }

// life is the nth life of a node that counts from 0.
func life(n uint64) uint64 { return n << LifeRandomBits }

// newTable is the registry of a replica without gossip, whose group has no process on record.
func newTable(self uint64) *Registry {
	return newRegistry(self, func(string) (string, bool) { return "", false }, func(fsm.Node) (uint64, bool) { return 0, false }, func() {})
}
