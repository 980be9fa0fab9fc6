package sim_test

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/sim"
)

// message runs f on three nodes in a process of its own, where the section must complain as wanted;
// "" for not at all.
func message(t *testing.T, want string, f func(s *sim.Sim)) {
	t.Helper()
	out, failed, here := victim(t)
	switch {
	case here:
		sim.Run(t, sim.Options{Nodes: 3}, f)
	case failed != (want != "") || !strings.Contains(out, want):
		t.Errorf("failed=%v, want %q:\n%s", failed, want, out)
	}
}

func TestTwoInASectionFailTheTestWhoeverTheyAre(t *testing.T) {
	message(t, `two are in the critical section "x": node 1 with token 2 since`, func(s *sim.Sim) {
		s.Section("x").Enter(s.Node(0).Context(), 1)
		s.Section("x").Enter(s.Node(1).Context(), 2)
	})
}

func TestTwoOfOneNodeInASectionFailTheTest(t *testing.T) {
	message(t, `two are in the critical section "x": node 1`, func(s *sim.Sim) {
		s.Section("x").Enter(s.Node(1).Context(), 1)
		s.Section("x").Enter(s.Node(1).Context(), 1)
	})
}

func TestOneAfterTheOtherIsWhatASectionIsFor(t *testing.T) {
	message(t, "", func(s *sim.Sim) {
		x := s.Section("x")
		for i := range 6 {
			leave := x.Enter(s.Node(i%3).Context(), 0)
			time.Sleep(time.Second)
			leave()
		}
		if x.Entered() != 6 || s.Node(2).Section("x") != x {
			t.Errorf("entered %d times", x.Entered())
		}
	})
}

func TestATokenThatGoesBackFailsTheTest(t *testing.T) {
	message(t, `the critical section "x" is entered by node 1 with token 4 since`, func(s *sim.Sim) {
		s.Section("x").Enter(s.Node(0).Context(), 5)()
		s.Section("x").Enter(s.Node(1).Context(), 4)()
	})
}

func TestASectionWithALimitTakesSoManyAndNoMore(t *testing.T) {
	message(t, `two are in the critical section "x": node 2`, func(s *sim.Sim) {
		x := s.Section("x").Limit(2)
		x.Enter(s.Node(0).Context(), 2)
		x.Enter(s.Node(1).Context(), 1)
		if t.Failed() {
			t.Fatal("two of two failed already")
		}
		x.Enter(s.Node(2).Context(), 3)
	})
}

func TestTheCodeOfACrashedNodeIsInNoSection(t *testing.T) {
	message(t, "", func(s *sim.Sim) {
		x := s.Section("x")
		dead := s.Node(0).Context()
		x.Enter(dead, 1)
		s.Node(0).Crash()
		leave := x.Enter(s.Node(1).Context(), 2)
		x.Enter(dead, 1)
		leave()
		if dead.Err() == nil || s.Node(0).Context().Err() == nil {
			t.Error("the context of a crashed node lives on")
		}
	})
}

func TestCodeThatGoesOnAfterItsNodeWasClosedInGoodOrderIsStillInItsSection(t *testing.T) {
	message(t, `two are in the critical section "x"`, func(s *sim.Sim) {
		s.Section("x").Enter(s.Node(0).Context(), 1)
		s.Node(0).Close()
		s.Section("x").Enter(s.Node(1).Context(), 2)
	})
}

func TestAStoppedProcessIsOvertakenInItsSectionAndAtItsDoor(t *testing.T) {
	message(t, "", func(s *sim.Sim) {
		x := s.Section("x")
		inside := x.Enter(s.Node(0).Context(), 1)
		s.Node(0).Pause()
		s.Node(2).Pause()
		late := make(chan func())
		go func() { late <- x.Enter(s.Node(2).Context(), 1) }()
		time.Sleep(time.Second)
		next := x.Enter(s.Node(1).Context(), 2)
		s.Node(0).Resume()
		inside()
		s.Node(2).Resume()
		(<-late)()
		next()
		if x.Overtaken() != 2 || x.Entered() != 2 {
			t.Errorf("%d were overtaken and %d entered, want 2 and 2", x.Overtaken(), x.Entered())
		}
	})
}

func TestAContextOfNoNodeFailsTheTest(t *testing.T) {
	message(t, "with a context that is of no node", func(s *sim.Sim) {
		s.Section("x").Enter(t.Context(), 1)()
	})
}
