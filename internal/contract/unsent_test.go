package contract_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
)

// A candidate waited for hours while callers gave up before anything was sent. The numbers of their
// requests used up what the group remembers of one session, and every call of that TTL was refused.
func TestCallsThatGiveUpBeforeTheyAreSentUseNothingUpBesideOneThatWaits(t *testing.T) {
	t.Parallel()
	c := alonely(t, fsm.Limits{Spans: 4})
	held := acquire(t, c, "a")
	waits := make(chan error, 1)
	go func() {
		l, err := c.Acquire(within(t, 30*time.Second), "a")
		if err == nil {
			err = l.Release(context.Background())
		}
		waits <- err
	}()
	eventually(t, c, "one waits", func() bool { return c.Status().Waiting == 1 })
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for range 10 {
		if _, err := c.TryAcquire(over, "c"); !errors.Is(err, context.Canceled) {
			t.Errorf("a call whose context is over was told %v", err)
		}
		// The group has room for four numbers, and hears of the last one in the background: on a busy machine a call
		// comes too early.
		polled(t, "served", func() bool {
			l, err := c.Acquire(within(t, 10*time.Second), "b")
			if err == nil {
				release(t, l)
			}
			return err == nil
		})
	}
	release(t, held)
	if err := <-waits; err != nil {
		t.Error(err)
	}
}
