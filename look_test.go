package holdfast

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/seam"
)

// silent is the group of a client whose replica hangs.
type silent struct{ seam.Group }

func (silent) Ask(ctx context.Context, _ seam.View, _ fsm.Question) (fsm.Answer, error) {
	<-ctx.Done()
	return nil, &seam.UnreachedError{Ended: ctx.Err()}
}

// Every look was cut after 50 ms: the errors of a client under load named no holder, though their callers
// had time. A look for a call whose context is over must not keep its caller either.
func TestALookTakesTheTimeThatItsCallerHas(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &Cluster{group: silent{}}
		over, end := context.WithCancel(t.Context())
		end()
		short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		for _, story := range []struct {
			name string
			ctx  context.Context
			want time.Duration
		}{
			{"a deadline", short, 200 * time.Millisecond},
			{"no deadline", t.Context(), time.Second},
			{"a context that is over", over, 50 * time.Millisecond},
		} {
			began := time.Now()
			now := c.look(story.ctx, "lock")
			if took := time.Since(began); took != story.want {
				t.Errorf("%s: the look took %v", story.name, took)
			}
			began = time.Now()
			_ = c.holderOf(story.ctx, "lock", "of", "a", "set")
			if took := time.Since(began); took > story.want {
				t.Errorf("%s: the looks at a set took %v", story.name, took)
			}
			// The group has not said that the lock is free.
			if err := staleToken("lock", 3, now); strings.Contains(err.Error(), "holder") {
				t.Errorf("%s: %v", story.name, err)
			}
		}
	})
}
