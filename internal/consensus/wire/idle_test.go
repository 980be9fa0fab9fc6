package wire

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/transport"
)

// Found by seed 1000 of the random test under exact replay: two replicas that follow have nothing
// to say to each other, so neither saw that the connection had ended with the other's restart; the
// first message on it, the answer to a vote, was lost, the engine sent none for another second, and
// leases of two seconds ended on healthy nodes.
func TestTheFirstMessageAfterARestartOfTheOtherReplicaArrives(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := transport.NewMemory(1)
		to, from := newMailbox(t, network, 1, func() {}), newMailbox(t, network, 2, func() {})
		defer from.end(t)
		conn, err := from.GetConnection(t.Context(), to.endpoint.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := conn.SendMessageBatch(goodBatch(nil)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		time.Sleep(2 * ackPause)
		to.end(t)
		synctest.Wait() // the sender has seen the end
		if err := conn.SendMessageBatch(goodBatch(nil)); err == nil {
			t.Error("a message to nobody was sent")
		}
		to = newMailbox(t, network, 1, func() {})
		defer to.end(t)
		if err := conn.SendMessageBatch(goodBatch(nil)); err != nil {
			t.Errorf("the first message after the restart: %v", err)
		}
		synctest.Wait()
		if len(to.got) != 1 {
			t.Errorf("%d messages arrived after the restart, want 1", len(to.got))
		}
	})
}

// A replica that closes while it is spoken to is left to the engine, which waits before it connects
// again.
func TestAConnectionThatEndsUnderWayIsNotMadeAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := transport.NewMemory(1)
		to, from := newMailbox(t, network, 1, func() {}), newMailbox(t, network, 2, func() {})
		defer from.end(t)
		conn, err := from.GetConnection(t.Context(), to.endpoint.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		to.end(t)
		to = newMailbox(t, network, 1, func() {})
		defer to.end(t)
		synctest.Wait() // the sender has seen the end
		if err := conn.SendMessageBatch(goodBatch(nil)); err == nil {
			t.Error("it was made again at once")
		}
	})
}
