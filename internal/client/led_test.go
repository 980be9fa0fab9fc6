package client_test

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/client/clienttest"
)

// The majority was lost, a replica was connected, and the status of each client said that it is ready.
func TestAClientIsNotReadyWhileItsReplicaHearsNoRaftLeader(t *testing.T) {
	t.Parallel()
	world(t, func(t *testing.T, r *clienttest.Replica, a, _ *holdfast.Cluster) {
		time.Sleep(2 * time.Second)
		if st := a.Status(); !st.Ready {
			t.Fatalf("it waits for %q", st.Waits)
		}
		r.Unled.Store(true)
		time.Sleep(1100 * time.Millisecond) // its next ping
		for range 100 {                     // also when the replica sends it away, and takes it in again
			if st := a.Status(); st.Ready || !strings.Contains(st.Waits, "raft leader") && !strings.Contains(st.Waits, "has not answered it yet") {
				t.Fatalf("ready: %v, and waits for %q", st.Ready, st.Waits)
			}
			time.Sleep(101 * time.Millisecond)
		}
		r.Unled.Store(false)
		time.Sleep(2 * time.Second)
		if st := a.Status(); !st.Ready {
			t.Errorf("it waits for %q", st.Waits)
		}
	})
}
