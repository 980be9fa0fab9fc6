package consensus

import (
	"os"
	"os/exec"
	"testing"

	"go.uber.org/goleak"
)

const childEnv = "HOLDFAST_CONSENSUS_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(m.Run()) // a failed engine leaves parked goroutines
	}
	goleak.VerifyTestMain(m)
}

// inChild runs the calling test in a process of its own, because what it does leaves parked
// goroutines behind, and returns true there. That the process does not end by itself is half of
// such a test.
func inChild(t *testing.T) bool {
	t.Helper()
	if os.Getenv(childEnv) == t.Name() {
		return true
	}
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=5m")
	cmd.Env = append(os.Environ(), childEnv+"="+t.Name())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("in a process of its own: %v\n%s", err, out)
	}
	return false
}

// ReplicaID is the replica of a node in its first life.
func ReplicaID(node string) uint64 { return ReplicaOf(node, 0) }
