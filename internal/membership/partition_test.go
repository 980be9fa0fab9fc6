package membership

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestCrashIsNoticedAndTheAddressIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		a, b, c := f.trio()
		c.crash()
		within(t, 10*time.Second, "a or b suspects c", func() bool { return a.sees("c", Suspect) || b.sees("c", Suspect) })
		within(t, 20*time.Second, "c has failed", func() bool { return a.sees("c", Failed) && b.sees("c", Failed) })
		time.Sleep(10 * time.Minute)
		if addr, ok := a.Address("c"); !ok || addr != "10.0.0.3:7643" {
			t.Errorf("Address = %q, %v long after the crash, want the last known one", addr, ok)
		}
	})
}

func TestFiveNodesNoticeACrash(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		a, b, c := f.trio()
		d := f.start("d", 1, "10.0.0.4:7643", nil, "10.0.0.1:7643")
		e := f.start("e", 1, "10.0.0.5:7643", nil, "10.0.0.4:7643")
		together(t, 20*time.Second, a, b, c, d, e)
		a.crash()
		within(t, 40*time.Second, "all noticed", func() bool {
			return b.sees("a", Failed) && c.sees("a", Failed) && d.sees("a", Failed) && e.sees("a", Failed)
		})
		together(t, time.Second, b, c, d, e)
	})
}

func TestRestartedNodeIsKnownByItsNewAddressAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		a, b, c := f.trio()
		c.crash()
		c = f.start("c", 2, "10.0.0.33:7643", nil, "10.0.0.1:7643")
		together(t, 20*time.Second, a, b, c)
		// The death of its former life, noticed later, says nothing about it.
		for range 600 {
			time.Sleep(100 * time.Millisecond)
			m, _ := a.Member("c")
			if m.State != Alive || m.Incarnation != 2 || m.Addr != "10.0.0.33:7643" {
				t.Fatalf("c is seen as %v, incarnation %d, at %s", m.State, m.Incarnation, m.Addr)
			}
		}
	})
}

func TestRestartedNodeMayTakeAnothersAddress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		a, b, c := f.trio()
		b.crash()
		c.crash()
		b = f.start("b", 2, "10.0.0.3:7643", nil, "10.0.0.1:7643")
		c = f.start("c", 2, "10.0.0.2:7643", nil, "10.0.0.1:7643")
		together(t, 20*time.Second, a, b, c)
		time.Sleep(time.Minute)
		together(t, 0, a, b, c)
	})
}

func TestPartitionHealsByItself(t *testing.T) {
	t.Parallel()
	for _, length := range []time.Duration{20 * time.Second, 40 * time.Second, 10 * time.Minute} {
		t.Run(length.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t)
				a, b, c := f.trio() // a is alone with nobody in its Join
				d := f.start("d", 1, "10.0.0.4:7643", nil, "10.0.0.1:7643")
				together(t, 20*time.Second, a, b, c, d)
				f.network.Partition([]string{"10.0.0.1:7643", "10.0.0.2:7643"}, []string{"10.0.0.3:7643", "10.0.0.4:7643"})
				time.Sleep(length)
				if !a.sees("c", Failed) || !a.sees("b", Alive) || !c.sees("a", Failed) || !c.sees("d", Alive) {
					t.Fatal("the halves did not part")
				}
				f.network.Heal()
				together(t, 20*time.Second, a, b, c, d)
			})
		})
	}
}

// Found by seed 1012 of the random test under exact replay: the power of a whole fleet failed
// during a partition. The halves had never met in their new lives, met again 43 s after the
// partition only, and the group had no majority until then.
func TestHalvesThatStartedApartMeetSoonAfterThePartition(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		all := []string{"10.0.0.1:7643", "10.0.0.2:7643", "10.0.0.3:7643", "10.0.0.4:7643"}
		f.network.Partition(all[:2], all[2:])
		var members []*peer
		for i, addr := range all {
			members = append(members, f.start(string(rune('a'+i)), 1, addr, nil, all...))
		}
		time.Sleep(5 * time.Minute)
		together(t, 0, members[:2]...)
		f.network.Heal()
		together(t, 12*time.Second, members...)
	})
}

func TestIsolatedNodeComesBackQuickly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		a, b, c := f.trio()
		f.network.Partition([]string{"10.0.0.1:7643"}, []string{"10.0.0.2:7643", "10.0.0.3:7643"})
		time.Sleep(5 * time.Minute)
		f.network.Heal()
		together(t, 25*time.Second, a, b, c)
	})
}

func TestPartitionHealsAlthoughTheSeedIsGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		seed, b, c := f.trio()
		d := f.start("d", 1, "10.0.0.4:7643", nil, "10.0.0.1:7643")
		e := f.start("e", 1, "10.0.0.5:7643", nil, "10.0.0.1:7643")
		together(t, 20*time.Second, seed, b, c, d, e)
		seed.crash()
		f.network.Partition([]string{"10.0.0.2:7643", "10.0.0.3:7643"}, []string{"10.0.0.4:7643", "10.0.0.5:7643"})
		time.Sleep(10 * time.Minute)
		f.network.Heal()
		together(t, 90*time.Second, b, c, d, e)
	})
}

func TestNodeThatLosesAllOthersSeeksAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.names.set("seed", "10.0.0.2")
		a := f.start("a", 1, "10.0.0.1:7643", nil, "seed")
		b := f.start("b", 1, "10.0.0.2:7643", nil)
		together(t, 20*time.Second, a, b)
		b.crash()
		time.Sleep(10 * time.Second)
		f.names.set("seed", "10.0.0.3")
		c := f.start("c", 1, "10.0.0.3:7643", nil)
		together(t, 20*time.Second, a, c) // not only with the next minute's round
	})
}

// Found by seed 380755514 of the random test: a node that lost its disk came back as another at its
// old address. A failed node was sought without a pause, and where there is no time but the
// virtual one that is for ever.
func TestNodeThatCameBackAsAnotherIsNotSought(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		a, b, c := f.trio()
		c.crash()
		within(t, time.Minute, "c has failed", func() bool { return a.sees("c", Failed) && b.sees("c", Failed) })
		d := f.start("d", 1, "10.0.0.3:7643", nil, "10.0.0.1:7643")
		together(t, 20*time.Second, a, b, d)
		time.Sleep(10 * time.Minute)
		if a.incomplete() {
			t.Error("whose place was taken is missed")
		}
		together(t, 0, a, b, d)
	})
}
