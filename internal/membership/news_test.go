package membership

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// A raft leader that misses the news that a node wants to join hears of it only at the next
// push/pull: of a few hundred fleets of seven that formed, with fewer repetitions, one took half a
// minute. No news may be missed by anybody in a healthy fleet.
func TestNewsReachEverybodySoon(t *testing.T) {
	t.Parallel()
	const nodes, rounds = 7, 150
	for group := range 4 {
		t.Run(fmt.Sprint(group), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t)
				var all []*member
				for i := range nodes {
					all = append(all, f.start(fmt.Sprint(i), 1, fmt.Sprintf("10.0.0.%d:7643", i+1), nil, "10.0.0.1:7643"))
				}
				together(t, 40*time.Second, all...)
				for round := range uint64(rounds) {
					for _, m := range all {
						meta := m.self
						meta.Applied = round + 1
						if err := m.SetMeta(meta); err != nil {
							t.Fatal(err)
						}
					}
					within(t, 4*time.Second, fmt.Sprint("all have all news of round ", round), func() bool { return informed(all, round+1) })
				}
			})
		})
	}
}

// informed reports whether all see of all what they said in a round.
func informed(all []*member, round uint64) bool {
	for _, m := range all {
		for _, other := range all {
			if seen, ok := m.Member(other.self.Node); !ok || seen.Applied != round {
				return false
			}
		}
	}
	return true
}
