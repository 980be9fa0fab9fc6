package sim_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/sim"
)

func TestADiskThatIsPutBackHoldsWhatItHeldWhenItWasCopied(t *testing.T) {
	fleet(t, 1, func(s *sim.Sim) {
		n := s.Node(0)
		id := n.Cluster().ID()
		value := func() string {
			info, err := n.Cluster().Inspect(until(time.Minute), "lock")
			if err != nil {
				t.Fatal(err)
			}
			return string(info.Value)
		}
		set := func(value string) {
			l := acquire(t, n.Cluster(), "lock")
			if err := l.Set(until(time.Minute), []byte(value)); err != nil {
				t.Fatal(err)
			}
			release(t, l)
		}
		set("old")
		backup := n.Backup()
		for range 2 { // the copy does not change
			set("new")
			n.Close()
			n.Restore(backup)
			n.Crash() // nothing runs
			n.Open()
			n.Ready()
			if n.Cluster().ID() != id || value() != "old" {
				t.Errorf("node %s came back as %s, with %q", id, n.Cluster().ID(), value())
			}
		}
	})
}

func TestAWrongWallClockMovesTheTokensOfTheOnlyNodeAndNoLease(t *testing.T) {
	fleet(t, 1, func(s *sim.Sim) {
		n := s.Node(0)
		l := acquire(t, n.Cluster(), "held")
		n.WallClock(10 * 365 * 24 * time.Hour)
		time.Sleep(time.Minute)
		if !l.Valid() {
			t.Error("a lease ended with a jump of the wall clock")
		}
		release(t, l)
		n.Restart()
		n.Ready()
		next := acquire(t, n.Cluster(), "held")
		if years := (next.Token() - l.Token()) >> 20 / (365 * 24 * 3600); years != 10 {
			t.Errorf("token %d after %d: %d years", next.Token(), l.Token(), years)
		}
		release(t, next)
	})
}
