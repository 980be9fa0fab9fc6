package client

import (
	"context"
	"iter"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/link"
	"github.com/holdfast-go/holdfast/internal/seam"
)

// asker is a follower that asks about each gap.
type asker struct{ gaps int }

func (a *asker) Gap(_ uint64, ask func(fsm.Question) (fsm.Answer, error)) {
	a.gaps++
	_, _ = ask(fsm.QueryClaims{})
}

func (a *asker) Applied([]fsm.Event) {}

func (a *asker) Ages(iter.Seq2[uint64, time.Duration]) {}

// A connection ended before the question of its gap was answered, and a pong that waited behind the gap said
// that all was told: the gap was forgotten. A waiter that was granted in it waited for ever.
func TestAGapWhoseQuestionFailsIsToldByTheNextConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		follower := &asker{}
		n := &news{wake: make(chan struct{}, 1), follower: follower, told: 100}
		c := newConn(near, "replica")
		if err := n.resume(c, 105, false, false); err != nil {
			t.Fatal(err)
		}
		if err := n.push(item{from: c, at: 105}, 0); err != nil { // the pong
			t.Fatal(err)
		}
		c.end(errGone)
		ctx, cancel := context.WithCancel(t.Context())
		go n.run(ctx)
		synctest.Wait()
		if told := n.cut(); told != 100 || follower.gaps != 1 {
			t.Errorf("told of %d after %d gaps", told, follower.gaps)
		}
		cancel()
	})
}

// A question waited for its turn while its replica sent the client away. It was asked there all the same, and its
// caller was told that there is no group, though another replica served.
func TestAQuestionIsAskedAtTheReplicaOfItsTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(make(chan struct{}))
		conns := make([]*conn, 2)
		for i := range conns {
			near, far := net.Pipe()
			defer far.Close()
			conns[i] = newConn(near, "replica")
		}
		g.show(conns[0], link.Welcome{})
		for range asksMax {
			g.asks <- struct{}{}
		}
		answered := make(chan error, 1)
		go func() {
			_, err := g.AskOnce(t.Context(), seam.Now, fsm.QueryClaims{})
			answered <- err
		}()
		synctest.Wait()
		conns[0].end(errGone)
		g.show(conns[1], link.Welcome{})
		<-g.asks
		synctest.Wait()
		if calls := len(conns[1].calls); calls != 1 || len(answered) != 0 {
			t.Errorf("%d questions at the second replica, and %d answers", calls, len(answered))
		}
		conns[1].end(errGone)
		<-answered
	})
}
