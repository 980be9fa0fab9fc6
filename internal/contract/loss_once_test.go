package contract_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// A loss that a function returns as it was told of it was joined with itself: its text came twice.
func TestALossThatAFunctionReturnsIsToldOnce(t *testing.T) {
	t.Parallel()
	c := single(t)
	for call, use := range map[string]func(ctx context.Context, fn func(context.Context, *holdfast.Lease) error) error{
		"Do": func(ctx context.Context, fn func(context.Context, *holdfast.Lease) error) error {
			return c.Do(ctx, "do", fn)
		},
		"Lead": func(ctx context.Context, fn func(context.Context, *holdfast.Lease) error) error {
			ctx, cancel := context.WithCancel(ctx)
			return c.Lead(ctx, "lead", func(ctx context.Context, l *holdfast.Lease) error {
				err := fn(ctx, l)
				cancel() // else it campaigns again
				return err
			})
		},
		"Once": func(ctx context.Context, fn func(context.Context, *holdfast.Lease) error) error {
			_, err := c.Once(ctx, "once", fn)
			return err
		},
	} {
		var told error
		cause := func(ctx context.Context, _ *holdfast.Lease) error {
			if err := c.RevokeNode(within(t, time.Minute), c.ID(), "tried"); err != nil { // a Once key cannot be forced free
				t.Error(err)
			}
			<-ctx.Done()
			told = context.Cause(ctx)
			return told
		}
		err := use(within(t, time.Minute), cause)
		if !errors.Is(err, holdfast.ErrLost) || told == nil || err.Error() != told.Error() {
			t.Errorf("%s: %v, and fn was told: %v", call, err, told)
		}
		other := errors.New("of its own")
		err = use(within(t, time.Minute), func(ctx context.Context, l *holdfast.Lease) error {
			_ = cause(ctx, l)
			return other
		})
		if !errors.Is(err, holdfast.ErrLost) || !errors.Is(err, other) {
			t.Errorf("%s: %v is not both", call, err)
		}
	}
}
