package contract_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// Only two limits that differ were refused. A call for a lock where another program had a
// semaphore, or the other way round, waited for as long as that was in use, and then both believed
// that they kept the other out.
func TestANameInUseAsALockIsNoSemaphoreAndSaysSo(t *testing.T) {
	t.Parallel()
	c := single(t)
	semaphore, shared := holdfast.WithLimit(2), holdfast.WithShared()
	refused := func(err error, want holdfast.LimitError, text string) {
		t.Helper()
		var got *holdfast.LimitError
		if !errors.As(err, &got) || *got != want || !errors.Is(err, holdfast.ErrLimitMismatch) || err.Error() != text {
			t.Errorf("%v, want %s", err, text)
		}
	}
	call := func(opts ...holdfast.Option) error {
		_, err := c.Acquire(within(t, time.Minute), "n", opts...)
		return err
	}
	asLock := func(err error) {
		t.Helper()
		refused(err, holdfast.LimitError{Name: "n", Asked: 2}, `holdfast: "n" is in use as a lock; the call asked for a semaphore of 2`)
	}
	reader := acquire(t, c, "n", shared)
	asLock(call(semaphore))
	_, err := c.TryAcquire(within(t, time.Minute), "n", semaphore)
	asLock(err)
	release(t, reader)
	rests := acquire(t, c, "n", holdfast.WithMinHold(holdfast.HoldMax))
	release(t, rests)
	asLock(call(semaphore))
	if err := call(holdfast.WithMaxHold(time.Hour), shared, semaphore); !errors.Is(err, holdfast.ErrInvalid) {
		t.Errorf("both at once: %v", err)
	}

	permit := acquire(t, c, "{s}", holdfast.WithLimit(3), holdfast.WithValue([]byte("v")))
	asSemaphore := func(err error, shared bool, kind string) {
		t.Helper()
		refused(err, holdfast.LimitError{Name: "{s}", Shared: shared, InUse: 3}, `holdfast: "{s}" is in use as a semaphore of 3; the call asked for `+kind)
	}
	_, err = c.Acquire(within(t, time.Minute), "{s}")
	asSemaphore(err, false, "an exclusive lock")
	_, err = c.TryAcquire(within(t, time.Minute), "{s}", shared)
	asSemaphore(err, true, "a shared lock")
	_, err = c.AcquireAll(within(t, time.Minute), []string{"{s}1", "{s}"})
	asSemaphore(err, false, "an exclusive lock")
	asSemaphore(c.Lead(within(t, time.Minute), "{s}", func(context.Context, *holdfast.Lease) error { return nil }), false, "an exclusive lock")
	campaign, err := c.Campaign(within(t, time.Minute), "{s}")
	if err != nil {
		t.Fatal(err)
	}
	<-campaign.Done()
	asSemaphore(campaign.Err(), false, "an exclusive lock")
	release(t, permit)
	release(t, acquire(t, c, "{s}")) // which has only a value
	release(t, acquire(t, c, "{s}", semaphore))
}

// What a call asked for is known when the name is in use as something else no more.
func TestALimitErrorSaysWhatItsNodeDoesNotKnow(t *testing.T) {
	t.Parallel()
	err := &holdfast.LimitError{Name: "n", Asked: 2, InUse: -1}
	if want := `holdfast: "n" was in use with another limit; the call asked for a semaphore of 2`; err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
