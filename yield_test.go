package holdfast

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/consensus"
)

// A command to the group that was given up would open its session again in the next one, where nobody would renew or
// close it: what it takes would stay taken for a TTL.
func TestACommandUnderWayToAGroupThatIsGivenUpNeverGoesToTheNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newProposer(time.Second, make(chan struct{}), func() error { return ErrClosed }, func(*consensus.Group) {})
		answer := make(chan error, 1)
		go func() {
			_, _, err := p.insist(t.Context(), []byte("acquire"))
			answer <- err
		}()
		synctest.Wait()
		p.wake() // another raft leader
		synctest.Wait()
		if len(answer) > 0 {
			t.Fatalf("it waits no more: %v", <-answer)
		}
		p.giveUp()
		if err := <-answer; !errors.Is(err, ErrLost) || !errors.Is(err, ErrYielded) {
			t.Errorf("it was told %v", err)
		}
	})
}

func TestNobodyIsLetThroughBetweenTwoGroups(t *testing.T) {
	t.Parallel()
	p := newProposer(time.Second, make(chan struct{}), func() error { return ErrClosed }, func(*consensus.Group) {})
	p.greet()
	before, err := p.view.Load(), consensus.ErrClosed
	p.giveUp()
	if v := p.view.Load(); v.greeted || v.group != nil || !p.over(before, err) || p.over(v, err) {
		t.Errorf("after a group was given up: %+v", v)
	}
	p.wake()
	if v := p.view.Load(); v.greeted || !p.over(before, err) {
		t.Errorf("after a change of raft leaders: %+v", v)
	}
}
