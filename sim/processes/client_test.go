//go:build unix

package processes_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

// A client hangs on one replica. Whichever process is killed, or stands still with its connections
// open, that one and the raft leader among them: the client's leases live, its calls go on at another
// replica, and no lock is granted twice.
func TestALeaseOfAClientOutlivesEachReplica(t *testing.T) {
	t.Parallel()
	const ttl = 15 * time.Second // two were enough, if the machine were this test's alone
	p := procs(t, 3)
	c, err := holdfast.Open(t.Context(), holdfast.Config{Cluster: p[0].cfg.Cluster, Name: "client", ClientOnly: true, Join: p[0].cfg.Join, Logger: testkit.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	held := testkit.Get(t, c, "held", holdfast.WithTTL(ttl))
	goesOn := func(what string, i int) {
		t.Helper()
		l := testkit.Get(t, c, fmt.Sprint(what, i))
		testkit.Release(t, l)
		left := held.Remaining()
		testkit.Polled(t, "renewal of the lease", func() bool { // the next fault would come too early
			if !held.Valid() {
				t.Fatalf("process %d %s: the lease of the client is over: %v", i, what, held.Err())
			}
			before := left
			left = held.Remaining()
			return left > before
		})
	}
	for i, one := range p {
		one.signal(syscall.SIGSTOP)
		goesOn("stopped", i)
		one.signal(syscall.SIGCONT)
		one.ready()
		one.kill()
		goesOn("killed", i)
		one.start()
		one.ready()
		if of := one.must(order{Op: "inspect", Name: "held"}).Info; len(of.Holders) != 1 || of.Holders[0].Token != held.Token() {
			t.Fatalf("process %d knows %+v as the holders, not token %d", i, of.Holders, held.Token())
		}
	}
	testkit.Release(t, held)
}
