package membership

import (
	"errors"
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
				var all []*peer
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
func informed(all []*peer, round uint64) bool {
	for _, m := range all {
		for _, other := range all {
			if seen, ok := m.Member(other.self.Node); !ok || seen.Applied != round {
				return false
			}
		}
	}
	return true
}

// A fleet that forms waits for the news of two nodes, one after the other: by rounds of gossip that
// took up to 400 ms.
func TestAnAnnouncementOvertakesTheGossip(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		a, b, c := f.trio()
		meta := a.self
		meta.Applied = 7
		if err := a.SetMeta(meta); err != nil {
			t.Fatal(err)
		}
		if err := a.Announce(t.Context(), "b"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if seen, _ := b.Member("a"); seen.Applied != 7 {
			t.Errorf("b sees %+v", seen.Meta)
		}
		within(t, 4*time.Second, "gossip brings it to c", func() bool { seen, _ := c.Member("a"); return seen.Applied == 7 })
		if err := a.Announce(t.Context(), "nobody"); !errors.Is(err, ErrUnknownNode) {
			t.Error(err)
		}
		b.table.announced(Meta{Node: "stranger", Applied: 1})
		b.table.announced(Meta{Node: "c", Incarnation: 9, Applied: 9})
		if _, known := b.Member("stranger"); known {
			t.Error("an announcement has made a member: gossip alone may, which bounds them and knows their addresses")
		}
		if seen, _ := b.Member("c"); seen.Applied != 0 {
			t.Errorf("an announcement of another incarnation changed the member to %+v", seen.Meta)
		}
	})
}

// Of three hundred nodes that started at once, some waited half a minute for a raft leader that most
// had long heard of: it did not know them, and gossip had too much to tell it.
func TestAnExchangeTellsANodeOfOneThatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		a := f.start("a", 1, "10.0.0.1:7643", nil)
		b := f.start("b", 1, "10.0.0.2:7643", nil, "10.0.0.1:7643")
		together(t, 20*time.Second, a, b)
		c := f.start("c", 1, "10.0.0.3:7643", nil, "10.0.0.2:7643")
		<-c.Tried()
		if !c.sees("a", Alive) || a.sees("c", Alive) {
			t.Fatal("c is to know a by b alone, and a not yet c")
		}
		if err := c.Exchange(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		if !a.sees("c", Alive) {
			t.Error("a does not know c")
		}
		if err := c.Exchange(t.Context(), "nobody"); !errors.Is(err, ErrUnknownNode) {
			t.Error(err)
		}
	})
}
