package contract_test

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/sim"
)

// In an outage the message said that 7 s remain, where the maximum of the lease left 3 s.
func TestJeopardyKnowsOfMaxHold(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
		const ttl, hold = 15 * time.Second, 10 * time.Second
		l := get(t, s.Node(0).Cluster(), "capped", holdfast.WithTTL(ttl), holdfast.WithMaxHold(hold))
		granted := time.Now()
		s.Node(0).Isolate()
		j := <-l.Jeopardy()
		if left := hold - time.Since(granted); j.Safe || j.Remaining <= 0 || j.Remaining > left || j.Remaining != l.Remaining() {
			t.Errorf("%+v, and %v remain, at most %v do", j, l.Remaining(), left)
		}
	})
}

// A lease whose maximum was over when its machine woke up was not valid, but its context went on for as long
// as the machine had slept: the timers of Go do not count that.
func TestTheContextOfALeaseWhoseMaximumEndsWhileItsMachineSleepsEndsToo(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Config: longTTL}, func(s *sim.Sim) {
		const hold, awake, asleep, slack = 10 * time.Minute, time.Minute, 30 * time.Minute, time.Second
		ttl := holdfast.WithTTL(time.Hour)
		over := get(t, s.Node(0).Cluster(), "over", ttl, holdfast.WithMaxHold(hold))
		later := get(t, s.Node(0).Cluster(), "later", ttl, holdfast.WithMaxHold(hold+asleep))
		free := get(t, s.Node(0).Cluster(), "free", ttl)
		time.Sleep(awake)
		s.Node(0).Suspend(asleep)
		woke := time.Now()
		for _, story := range []struct {
			l    *holdfast.Lease
			left time.Duration
		}{{over, 0}, {later, hold - awake}} {
			<-story.l.Done()
			if took, err := time.Since(woke), story.l.Err(); took < story.left-slack || took > story.left+slack || !errors.Is(err, holdfast.ErrMaxHold) {
				t.Errorf("%q ended %v after the suspension, want %v: %v", story.l.Name(), took, story.left, err)
			}
		}
		if !free.Valid() {
			t.Error(free.Err())
		}
	})
}
