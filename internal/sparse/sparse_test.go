package sparse

import (
	"testing"
	"time"
)

func TestEachPeriodHasSoManyLinesAndTheNextTellsOfTheRest(t *testing.T) {
	t.Parallel()
	lines := Lines{Most: 3, Period: time.Second}
	now := time.Unix(1000, 5)
	for period := range 3 {
		for i := range 10 {
			dropped, ok := lines.Take(now.Add(time.Duration(i) * time.Millisecond))
			if ok != (i < 3) {
				t.Errorf("line %d of period %d: %t", i, period, ok)
			}
			if want := 7; i == 0 && period > 0 && dropped != want || (i > 0 || period == 0) && dropped != 0 {
				t.Errorf("line %d of period %d tells of %d", i, period, dropped)
			}
		}
		now = now.Add(time.Second)
	}
}
