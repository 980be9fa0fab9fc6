package consensus

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
)

// Each step of a start that was given up had the time for its end anew: Open returned after nine seconds.
func TestAllStepsOfAStartAreWithinOneBound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(Config{Logger: slog.New(slog.DiscardHandler), Observer: &counting{}}.withDefaults(), fsm.Process{})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		began, await := time.Now(), g.awaiting(ctx)
		first := make(chan error, 1)
		time.AfterFunc(closeWithin-closeFailed-time.Second, func() { first <- nil })
		if err := await(first); err != nil {
			t.Fatal(err)
		}
		err := await(make(chan error))
		if took := time.Since(began); took != closeWithin-closeFailed || !errors.Is(err, errStopped) {
			t.Errorf("after %v: %v", took, err)
		}
	})
}
