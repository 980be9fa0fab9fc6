package wire

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/frozen"
	"github.com/holdfast-go/holdfast/transport"
)

func TestAWordIsWrittenAndReadAsItWas(t *testing.T) {
	t.Parallel()
	w := Word{Term: 1, Leader: 2, Last: 3, Pick: 4, Lives: true}
	frame := framed(t, frameWord, w)
	frozen.Check(t, "testdata/word.v1", fmt.Appendf(nil, "word %x\n", frame))
	for _, more := range [][]byte{nil, {1, 2, 3}} { // of a later version
		if got, err := decodeWord(slices.Concat(frame[frameHeader:], more)); err != nil || got != w {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if _, err := decodeWord(frame[frameHeader : len(frame)-1]); err == nil {
		t.Error("half a word was read")
	}
}

// watched is a mailbox that notes what it is told of processes.
type watched struct {
	*mailbox
	endings []Ending
	words   []Word
	risen   int
}

func watch(t *testing.T, network transport.Network, n int) *watched {
	w := &watched{mailbox: newMailbox(t, network, n, func() {})}
	w.cfg.Ended = func(e Ending) { w.endings = append(w.endings, e) }
	w.cfg.Word = func(_ uint64, word Word) { w.words = append(w.words, word) }
	w.cfg.Risen = func(uint64) { w.risen++ }
	return w
}

func TestTheEndOfTheLastConnectionOfAProcessIsReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := transport.NewMemory(1)
		to := watch(t, network, 1)
		defer to.end(t)
		batch := goodBatch(nil)
		last := batch.Requests[0].LogIndex + uint64(len(batch.Requests[0].Entries))
		for name, end := range map[string]struct {
			close  func(...interface{ Close() error })
			report bool
		}{
			"closed": {func(all ...interface{ Close() error }) {
				for _, one := range all {
					one.Close()
					synctest.Wait()
				}
			}, true},
			"reset":      {func(...interface{ Close() error }) { network.Break("10.0.0.66", "10.0.0.1") }, true},
			"one of two": {func(all ...interface{ Close() error }) { all[0].Close() }, false},
			"cut off":    {func(...interface{ Close() error }) { network.Cut("10.0.0.66", "10.0.0.1"); time.Sleep(time.Hour) }, false},
		} {
			to.endings = nil
			first, second := dialRaft(t, network, to.endpoint.Addr(), 2), dialRaft(t, network, to.endpoint.Addr(), 2)
			if _, err := first.Write(framed(t, frameBatch, &batch)); err != nil {
				t.Fatal(err)
			}
			<-to.arrived
			synctest.Wait()
			end.close(first, second)
			synctest.Wait()
			if !end.report {
				if len(to.endings) > 0 {
					t.Errorf("%s: reported %+v", name, to.endings)
				}
			} else if len(to.endings) != 1 || to.endings[0].Replica != ReplicaID(nodeID(2)) || to.endings[0].Offered != last || to.endings[0].Term != batch.Requests[0].Term {
				t.Errorf("%s: reported %+v, want the last entry %d", name, to.endings, last)
			}
			network.Heal()
			first.Close()
			second.Close()
			synctest.Wait()
		}
	})
}

func TestALaterProcessOfANodeEndsTheEarlierOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := transport.NewMemory(1)
		to := watch(t, network, 1)
		defer to.end(t)
		dialRaft(t, network, to.endpoint.Addr(), 2)
		synctest.Wait()
		conn, hello := dialRaft(t, network, to.endpoint.Addr(), 0), goodGreeting(2)
		hello.incarnation += 1 << RunBits
		if _, err := conn.Write(framed(t, frameGreeting, hello)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(to.endings) != 1 || !to.endings[0].Succeeded || to.endings[0].Incarnation != goodGreeting(2).incarnation {
			t.Errorf("reported %+v", to.endings)
		}
	})
}

// Whatever else there is may be the process, out of reach for a while.
func TestOnlyARefusedDialOrALaterProcessSaysThatAProcessIsGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := transport.NewMemory(1)
		from := watch(t, network, 1)
		defer from.end(t)
		e := Ending{Node: goodGreeting(2).node, Incarnation: 5 << RunBits, Addr: "10.0.0.2:7946"}
		check := func(name string, want bool) {
			t.Helper()
			if began := time.Now(); from.Gone(e) != want || time.Since(began) > goneTime {
				t.Errorf("%s: gone is not %v, or took %v", name, want, time.Since(began))
			}
		}
		check("nothing listens", true)
		there, err := network.Listen(t.Context(), e.Addr, transport.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer there.Close()
		check("each connection is closed", false)
		var answer atomic.Pointer[fsm.Process]
		there.Handle(transport.KindProbe, func(conn net.Conn) {
			_, _ = conn.Write(answer.Load().AppendTo(nil))
			conn.Close()
		})
		for _, c := range []struct {
			node        fsm.Node
			incarnation uint64
			want        bool
		}{
			{e.Node, e.Incarnation, false}, {e.Node, e.Incarnation + 1<<RunBits, true}, {e.Node, e.Incarnation - 1<<RunBits, false},
			{goodGreeting(3).node, e.Incarnation + 1<<RunBits, false},
		} {
			answer.Store(&fsm.Process{Node: c.node, Incarnation: c.incarnation})
			check(fmt.Sprintf("%+v", c), c.want)
		}
		answer.Store(&fsm.Process{Node: e.Node, Incarnation: e.Incarnation})
		closes := time.AfterFunc(60*time.Millisecond, func() {
			network.SetFaults("10.0.0.1", "10.0.0.2", transport.Faults{Refuse: true})
		})
		check("it answers once more, and ends then", true)
		closes.Stop()
		network.SetFaults("10.0.0.1", "10.0.0.2", transport.Faults{})
		network.Isolate("10.0.0.2")
		check("a dial is not answered", false)
		network.SetFaults("10.0.0.1", "10.0.0.2", transport.Faults{Refuse: true})
		check("a dial is refused", true)
		e.Addr = ""
		check("no address is known", false)
	})
}

// What has a connection here lives, and needs no further question.
func TestAProcessThatAnswersAndIsConnectedAgainIsAskedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := transport.NewMemory(1)
		to, from := watch(t, network, 1), watch(t, network, 2)
		defer to.end(t)
		defer from.end(t)
		asked := 0
		from.endpoint.Handle(transport.KindProbe, func(conn net.Conn) {
			asked++
			_, _ = conn.Write(fsm.Process{Node: goodGreeting(2).node, Incarnation: 1 << RunBits}.AppendTo(nil))
			conn.Close()
		})
		ending := Ending{
			Node: goodGreeting(2).node, Replica: ReplicaID(nodeID(2)), Incarnation: 1 << RunBits, Addr: from.endpoint.Addr(),
		}
		to.Nodes.Add(0, ending.Replica, nodeID(2))
		in, err := to.Nodes.admit(goodGreeting(2), func() {})
		if err != nil {
			t.Fatal(err)
		}
		if to.Gone(ending) || asked != 1 {
			t.Errorf("one that is connected is asked %d times, or gone", asked)
		}
		to.Nodes.leave(in)
		if to.Gone(ending) || asked < 3 {
			t.Errorf("one that is not is asked %d times, or gone", asked)
		}
	})
}

func TestWordsArriveAndAProcessThatIsHeardAgainIsReportedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := transport.NewMemory(1)
		to, from := watch(t, network, 1), watch(t, network, 2)
		defer to.end(t)
		defer from.end(t)
		from.Nodes.Add(0, ReplicaID(nodeID(1)), nodeID(1))
		from.cfg.Resolve = nil
		from.Nodes.resolve = func(string) (string, bool) { return to.endpoint.Addr(), true }
		to.Await(ReplicaID(nodeID(2)), 1<<RunBits)
		ctx, cancel := context.WithCancel(t.Context())
		words := make(chan Word)
		go from.Speak(ctx, ReplicaID(nodeID(1)), words)
		for term := range uint64(3) {
			words <- Word{Term: term + 1}
			synctest.Wait()
			time.Sleep(time.Second)
		}
		network.Break("10.0.0.1", "10.0.0.2") // what is said while there is no connection is lost
		for term := range uint64(3) {
			words <- Word{Term: term + 4}
			time.Sleep(time.Second)
		}
		cancel()
		synctest.Wait()
		if n := len(to.words); n < 5 || to.words[0].Term != 1 || to.words[n-1].Term != 6 {
			t.Errorf("arrived %+v", to.words)
		}
		if to.risen != 1 {
			t.Errorf("reported %d times", to.risen)
		}
	})
}
