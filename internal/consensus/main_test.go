package consensus

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/process/processtest"
)

func TestMain(m *testing.M) {
	if processtest.MayLeave() {
		os.Exit(m.Run()) // a failed engine leaves parked goroutines
	}
	goleak.VerifyTestMain(m)
}

// ReplicaID is the replica of a node in its first life.
func ReplicaID(node string) uint64 { return ReplicaOf(node, 0) }
