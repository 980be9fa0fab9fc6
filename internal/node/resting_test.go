package node

import (
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/seam"
	"github.com/holdfast-go/holdfast/transport"
)

// A fleet that nobody asks anything makes no read for its health, and one whose Status is polled makes no
// entry of the log.
func TestHealthAtRestCostsNoReadAndPollingNoProposal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes := fleet(t, []*heard{{}, {}, {}}, transport.NewMemory(1), slog.New(slog.DiscardHandler))
		ready(t, nodes...)
		time.Sleep(time.Minute) // the membership is as it stays
		committed := func() (all []uint64) {
			for _, n := range nodes {
				group, _ := n.Proposer.Current()
				all = append(all, group.Signs().Committed)
			}
			return all
		}
		before, since := committed(), time.Now()
		time.Sleep(time.Minute)
		for i, n := range nodes {
			group, _ := n.Proposer.Current()
			if last := group.SinceAnswer(); last < time.Since(since) {
				t.Errorf("node %d: nobody asked it, and the group answered it %v ago", i, last)
			}
		}
		for range 600 {
			time.Sleep(100 * time.Millisecond)
			for _, n := range nodes {
				n.Status()
			}
		}
		for i, n := range nodes {
			group, _ := n.Proposer.Current()
			if last := group.SinceAnswer(); last > 2*n.patience() {
				t.Errorf("node %d: it was polled, and has known nothing of the group for %v", i, last)
			}
			if now := committed()[i]; now != before[i] {
				t.Errorf("node %d: at rest the log grew from %d to %d", i, before[i], now)
			}
		}
	})
}

// Calls that wait for their turn have asked the group nothing: that their node is busy is no illness.
func TestCallsThatWaitForTheirTurnDoNotMakeANodeIll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		told := &heard{}
		n := opened(t, told, Config{})
		ready(t, n)
		ctx := t.Context() // one with a deadline would be refused
		group, _ := n.Proposer.Current()
		turns, begin := make(chan error, 1000), make(chan struct{})
		var calls sync.WaitGroup
		for range cap(turns) { // more than are let in at a time
			calls.Go(func() {
				err := n.Proposer.Enter(ctx, seam.Holding)
				if err == nil {
					<-begin
					_, _, err = n.Proposer.Propose(ctx, seam.Holding, fsm.Encode(fsm.Serve{}))
				}
				turns <- err
			})
		}
		for range 100 {
			time.Sleep(100 * time.Millisecond)
			if waits := n.Proposer.Waiting(); waits == 0 {
				t.Error("no call waits for its turn")
				break
			}
			if unanswered := group.Signs().Unanswered; unanswered != 0 {
				t.Errorf("nothing was asked, and has had no answer for %v", unanswered)
				break
			}
		}
		close(begin)
		calls.Wait()
		for range cap(turns) {
			if err := <-turns; err != nil {
				t.Error(err)
			}
		}
		if st := n.Status(); st.Ill || st.Waits != "" {
			t.Errorf("ill %v: %q", st.Ill, st.Waits)
		}
		for _, call := range told.told() {
			if call == "Ill" {
				t.Error("it called itself ill")
			}
		}
	})
}
