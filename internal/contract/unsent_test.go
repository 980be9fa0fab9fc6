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
	// The group hears of the last ones in the background. A call that comes while all of its room is in use is
	// refused, and so are all that follow while one waits.
	const room = 512
	c := alonely(t, fsm.Limits{Spans: room})
	held := acquire(t, c, "a")
	waits := make(chan error, 1)
	go func() {
		l, err := c.Acquire(within(t, 10*time.Minute), "a")
		if err == nil {
			err = l.Release(context.Background())
		}
		waits <- err
	}()
	eventually(t, c, "one waits", func() bool { return c.Status().Waiting == 1 })
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for range room + room/4 {
		if _, err := c.TryAcquire(over, "c"); !errors.Is(err, context.Canceled) {
			t.Errorf("a call whose context is over was told %v", err)
		}
		release(t, acquire(t, c, "b"))
	}
	release(t, held)
	if err := <-waits; err != nil {
		t.Error(err)
	}
}
