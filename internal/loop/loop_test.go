package loop

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// A wake that is lost while a step runs is a lease renewed too late, or a waiter that hears of
// nothing.
func TestALoopTakesAStepWhenItIsTimeOrWhenItIsWokenAlsoDuringAStep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var at []time.Duration
		pauses := []time.Duration{time.Minute, -time.Hour, UntilWoken, UntilWoken, UntilWoken}
		var l Loop
		l = New(func(context.Context) time.Duration {
			at = append(at, time.Since(began))
			if len(at) == 3 {
				l.Wake()
				l.Wake()
			}
			return pauses[len(at)-1]
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			l.Run(ctx)
			close(ended)
		}()
		time.Sleep(time.Hour)
		l.Wake()
		synctest.Wait()
		cancel()
		<-ended
		again := time.Minute + PauseMin // after the step that asked for no pause at all
		if want := []time.Duration{0, time.Minute, again, again, time.Hour}; !slices.Equal(at, want) {
			t.Errorf("steps after %v, not %v", at, want)
		}
	})
}
