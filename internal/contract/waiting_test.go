package contract_test

import (
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// A call that waits under WithManualRenew has a session that its caller cannot renew yet. It
// expired after a TTL, and the call went back to the end of the queue: behind others it would never
// have been served.
func TestAManuallyRenewedWaiterKeepsItsPlaceForLongerThanItsTTL(t *testing.T) {
	t.Parallel()
	virtual(t, func(c *holdfast.Cluster) {
		const ttl = 2 * time.Second
		l := get(t, c, "queue")
		order := make(chan string, 2)
		var all sync.WaitGroup
		wait := func(who string, opts ...holdfast.Option) {
			l, err := c.Acquire(until(time.Minute), "queue", opts...)
			if err != nil {
				t.Errorf("%s: %v", who, err)
				return
			}
			if left := l.Remaining(); left < ttl*9/10 {
				t.Errorf("%s begins with %v of %v", who, left, ttl)
			}
			order <- who
			if err := l.Release(until(time.Second)); err != nil {
				t.Error(err)
			}
		}
		all.Go(func() { wait("manual", holdfast.WithManualRenew(), holdfast.WithTTL(ttl)) })
		time.Sleep(time.Second)
		all.Go(func() { wait("automatic") })
		time.Sleep(5 * ttl)
		if err := l.Release(until(time.Second)); err != nil {
			t.Error(err)
		}
		if first, second := <-order, <-order; first != "manual" {
			t.Errorf("served %s before %s", first, second)
		}
		all.Wait()
	})
}

// The group tells a new holder at once that others wait behind it. That came before its call had
// made the lease, and was lost: a holder that hands over when it is wanted never did.
func TestANewHolderIsToldOfThoseWhoAlreadyWait(t *testing.T) {
	t.Parallel()
	c := single(t)
	l := acquire(t, c, "wanted")
	got := make(chan *holdfast.Lease, 2)
	for range 2 {
		go func() {
			l, err := c.Acquire(within(t, 10*time.Second), "wanted")
			if err != nil {
				t.Error(err)
			}
			got <- l
		}()
	}
	eventually(t, c, "two waiters", func() bool {
		info, err := c.Inspect(within(t, 5*time.Second), "wanted")
		return err == nil && len(info.Waiters) == 2
	})
	release(t, l)
	next := <-got
	select {
	case <-next.Wanted():
	case <-time.After(10 * time.Second):
		t.Error("the new holder was not told")
	}
	release(t, next)
	release(t, <-got)
}
