package testkit

import (
	"slices"
	"testing"
	"time"
)

// Price reports how much longer one function takes than another, as "ratio": that of the medians of
// their single calls. They take turns of a few calls, and so does the first place, so what else the
// machine does falls on both. An operation of the benchmark is a call of each.
func Price(b *testing.B, without, with func()) {
	b.Helper()
	const turn = 8
	without() // opens the session
	with()
	calls := 0
	var took [2][]time.Duration
	for b.Loop() {
		for range 2 {
			begun, which := time.Now(), (calls/turn+calls/turn/2)%2 // 0, 1, 1, 0
			if which == 0 {
				without()
			} else {
				with()
			}
			took[which] = append(took[which], time.Since(begun))
			calls++
		}
	}
	median := func(list []time.Duration) float64 {
		slices.Sort(list)
		return float64(list[len(list)/2])
	}
	b.ReportMetric(median(took[1])/median(took[0]), "ratio")
}
