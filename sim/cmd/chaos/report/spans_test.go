package report_test

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/sim/cmd/chaos/report"
	"github.com/holdfast-go/holdfast/sim/internal/history"
)

func TestASetIsDrawnAtEachOfItsNamesAndARestAfterItsHolder(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	ask := history.Event{Kind: history.Asked, Op: 9, Lock: "{set}x", Others: []string{"{set}y"}, Wait: true, Weight: 1, Limit: 1, MinHold: 3 * second}
	page := string(report.Page(judge(t, small(
		event(1, 1000*ms, ask),
		event(1, 1500*ms, history.Event{Kind: history.Granted, Op: 9, Lock: "{set}x", Token: 20}),
		event(1, 2000*ms, history.Event{Kind: history.Held, Lock: "{set}x", Token: 20, Remaining: second}),
		event(1, 2500*ms, history.Event{Kind: history.Release, Lock: "{set}x", Token: 20}),
	))))
	for what, n := range map[string]int{
		">{set}x</text>": 1, ">{set}y</text>": 1,
		`<rect class="n1" x="132.5" y="`:  2, // 1060 pixels for 12 seconds
		"{set}x with {set}y: token 20":    4, // a lease and a rest at each name
		"released; its place stays taken": 2,
		"<td>never served</td>":           0,
		">1</b>sets had together<":        1,
	} {
		if got := strings.Count(page, what); got != n {
			t.Errorf("%q stands %d times in the page, want %d", what, got, n)
		}
	}
}
