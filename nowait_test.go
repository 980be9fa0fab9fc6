package holdfast

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/seam"
)

// gatedGroup is out of reach while its gate is shut.
type gatedGroup struct {
	seam.Group
	gate    *atomic.Pointer[chan struct{}]
	refused *atomic.Int64 // requests for a lock that is held
}

// Propose waits for the gate. What no caller waits for comes last then.
func (g gatedGroup) Propose(ctx context.Context, class seam.Class, cmd []byte) (fsm.Outcome, bool, error) {
	if gate := g.gate.Load(); gate != nil {
		if class == seam.Attempt {
			return fsm.Outcome{}, false, errors.New("out of reach")
		}
		select {
		case <-*gate:
		case <-ctx.Done():
			return fsm.Outcome{}, false, &seam.UnreachedError{Ended: ctx.Err()}
		}
		if class == seam.Urgent {
			time.Sleep(time.Millisecond)
		}
	}
	out, unknown, err := g.Group.Propose(ctx, class, cmd)
	if err == nil && out.Code == fsm.CodeHeld {
		g.refused.Add(1)
	}
	return out, unknown, err
}

// The campaign after an outage came to the group before the end of the session that was lost in it: Lead
// ended with the news that its own node leads.
func TestALeaderThatDoesNotWaitIsNotRefusedForItsOwnLeadership(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := gatedGroup{gate: new(atomic.Pointer[chan struct{}]), refused: new(atomic.Int64)}
		c := openAround(t, slog.New(slog.DiscardHandler), func(inner seam.Group) seam.Group {
			g.Group = inner
			return g
		})
		defer c.Close()
		terms := 0
		err := c.Lead(t.Context(), "x", func(ctx context.Context, l *Lease) error {
			if terms++; terms > 1 {
				return nil
			}
			gate := make(chan struct{})
			g.gate.Store(&gate)
			<-ctx.Done()
			time.AfterFunc(2*campaignPause, func() { // when both wait, and before the group ends the session itself
				g.gate.Store(nil)
				close(gate)
			})
			return nil
		}, WithNoWait(), WithTTL(150*time.Second))
		if err != nil || terms != 2 {
			t.Errorf("%v after %d terms", err, terms)
		}
		if n := g.refused.Load(); n != 1 {
			t.Errorf("the test is void: %d requests were refused", n)
		}
	})
}
