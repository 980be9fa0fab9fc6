package wire

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lni/dragonboat/v4/raftio"
	"github.com/lni/dragonboat/v4/raftpb"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/consensus/engine"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/transport"
)

// talk is two replicas that send to each other.
type talk struct {
	t     *testing.T
	boxes [2]*mailbox
	conns [2]raftio.IConnection
}

func newTalk(t *testing.T, boxes ...*mailbox) *talk {
	t.Helper()
	x := &talk{t: t, boxes: [2]*mailbox(boxes)}
	for i, from := range x.boxes {
		from.Nodes.Add(0, x.boxes[1-i].validator.replica, x.boxes[1-i].validator.node)
	}
	return x
}

// say sends a heartbeat from replica i to the other one.
func (x *talk) say(i int) {
	x.t.Helper()
	if x.conns[i] == nil {
		conn, err := x.boxes[i].GetConnection(x.t.Context(), x.boxes[1-i].endpoint.Addr())
		if err != nil {
			x.t.Fatal(err)
		}
		x.conns[i] = conn
	}
	if err := x.conns[i].SendMessageBatch(heartbeat(x.boxes[i], x.boxes[1-i])); err != nil {
		x.t.Fatal(err)
	}
	synctest.Wait()
}

func (x *talk) end() {
	for i := range x.boxes {
		x.conns[i].Close()
	}
}

func heartbeat(from, to *mailbox) raftpb.MessageBatch {
	return goodBatch(func(b *raftpb.MessageBatch) {
		b.SourceAddress = from.validator.node
		b.Requests = []raftpb.Message{{
			Type: raftpb.HeartbeatResp, From: from.validator.replica, To: to.validator.replica, ShardID: engine.Shard, Term: 3,
		}}
	})
}

// setClock gives a mailbox a clock of its own, which has stood still for still. It returns what the
// mailbox is told to have lost.
func setClock(m *mailbox, still *time.Duration) *[]time.Duration {
	var lost []time.Duration
	began := time.Now()
	m.cfg.Drift = 0.01
	m.cfg.Clock = func() lease.Instant { return lease.Instant(time.Second + time.Since(began) - *still) }
	m.cfg.Behind = func(d time.Duration, _ fsm.Node) {
		if len(m.got) > 0 {
			d = -d // too late: a message is with the engine
		}
		lost = append(lost, d)
	}
	return &lost
}

func TestAReplicaIsToldThatItsClockStoodStillBeforeTheMessageThatShowsItIsDelivered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := transport.NewMemory(1)
		a, b := newMailbox(t, network, 1, func() {}), newMailbox(t, network, 2, func() {})
		defer a.end(t)
		defer b.end(t)
		still := time.Duration(0)
		aLost, bLost := setClock(a, new(time.Duration)), setClock(b, &still)
		x := newTalk(t, a, b)
		defer x.end()
		for range 100 {
			x.say(0)
			x.say(1)
			time.Sleep(40 * time.Millisecond)
		}
		time.Sleep(time.Second)
		still = time.Second
		b.got = nil
		x.say(1)
		x.say(0)
		if len(*aLost) > 0 || len(*bLost) != 1 || (*bLost)[0] < 900*time.Millisecond || (*bLost)[0] > 1010*time.Millisecond {
			t.Errorf("a clock that stood still for 1 s has lost %v, the other one %v", *bLost, *aLost)
		}
	})
}

// The clock of a process begins at any time, and what the others have heard of the one before is no measure
// for it: a replica that restarts is spoken to before it has said anything.
func TestTheClockOfANewProcessIsNotComparedToThatOfTheOneBefore(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{0, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			network := transport.NewMemory(1)
			a, b := newMailbox(t, network, 1, func() {}), newMailbox(t, network, 2, func() {})
			defer a.end(t)
			aLost := setClock(a, new(time.Duration))
			setClock(b, new(time.Duration))
			x := newTalk(t, a, b)
			for range 10 {
				x.say(0)
				x.say(1)
				time.Sleep(time.Second)
			}
			x.end()
			b.end(t)
			b = newMailbox(t, network, 2, func() {})
			defer b.end(t)
			b.self.incarnation = 2 << RunBits
			still := -ahead
			bLost := setClock(b, &still)
			x = newTalk(t, a, b)
			defer x.end()
			time.Sleep(time.Minute) // until the new clock is past what the replica has heard of the old one
			for range 10 {
				x.say(0)
				time.Sleep(time.Second)
				x.say(1)
			}
			if len(*aLost)+len(*bLost) > 0 {
				t.Errorf("after a restart the clocks have lost %v and %v", *aLost, *bLost)
			}
		})
	}
}
