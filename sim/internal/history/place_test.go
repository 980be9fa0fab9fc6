package history_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/sim/internal/history"
)

// Two false alarms of real processes: a restarted node tells those who watch it what happened long
// before, and does not tell who had come before that; and a call whose session ended while nobody
// answered it asks again, waits in two places for a while, and is told of as withdrawn from one of
// them.
func TestWhoseArrivalIsNotCertainOvertookNobody(t *testing.T) {
	t.Parallel()
	a := watching(8, "lock")
	granted, queued, withdrawn := history.ChangeGranted, history.ChangeQueued, history.ChangeWithdrawn
	accepted(t, "who came before the watch is granted first", script(ask(1, 0), ask(2, 1), a, told(8, 5, queued, 2, 0), told(8, 6, granted, 1, 10)))
	accepted(t, "who came within a gap is granted first", script(a, told(8, 4, queued, 3, 0), ask(1, 0), told(8, 5, history.ChangeResync, 0, 0),
		ask(2, 1), told(8, 6, queued, 2, 0), told(8, 7, granted, 1, 10)))
	accepted(t, "who waited in two places", script(a, ask(1, 0), ask(2, 1), told(8, 5, queued, 1, 0), told(8, 6, queued, 1, 0),
		told(8, 7, withdrawn, 1, 0), told(8, 8, queued, 2, 0), told(8, 9, granted, 1, 10)))
}
