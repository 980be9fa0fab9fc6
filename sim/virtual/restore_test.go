package virtual_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/sim"
)

// token is that of a lease on a lock, which is given back.
func token(t *testing.T, n *sim.Node, name string) holdfast.Token {
	t.Helper()
	l := testkit.Get(t, n.Cluster(), name)
	if err := l.Release(testkit.Until(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return l.Token()
}

// restored takes a fleet back to a backup of all disks, from which on it granted much, and answers
// the highest token that was granted. change is called while nothing runs, before the nodes are
// opened.
func restored(t *testing.T, s *sim.Sim, change func()) (highest holdfast.Token) {
	t.Helper()
	grants := func(count int) {
		for i := range count {
			highest = token(t, s.Node(i%len(s.Nodes())), fmt.Sprint("lock", i%3))
		}
	}
	grants(10)
	var backups []*sim.Backup
	for _, n := range s.Nodes() {
		backups = append(backups, n.Backup())
	}
	grants(100)
	for _, n := range s.Nodes() {
		n.Close()
	}
	for i, n := range s.Nodes() {
		n.Restore(backups[i])
	}
	time.Sleep(time.Second)
	change()
	for _, n := range s.Nodes() {
		n.Open()
	}
	return highest
}

// rises wants the first grants of all nodes to have tokens above highest, and below what the right
// clock says.
func rises(t *testing.T, s *sim.Sim, highest holdfast.Token) {
	t.Helper()
	for _, n := range s.Nodes() {
		n.Ready()
	}
	for i, n := range s.Nodes() {
		got := token(t, n, "lock0")
		if got <= highest {
			t.Errorf("node %d was granted token %d after a restore, and %d was granted before", i, got, highest)
		}
		if now := holdfast.Token(time.Now().Unix() + 1); got > now<<20 {
			t.Errorf("node %d was granted token %d, of a time that has not come: it is %d", i, got, now<<20)
		}
		highest = max(highest, got)
	}
}

// Seen after all directories of a fleet were restored from a backup: token 381 was the highest, and
// 282 came next.
func TestTokensRiseAfterABackupOfTheWholeFleetIsRestored(t *testing.T) {
	t.Parallel()
	for _, nodes := range []int{1, 2, 3, 5} {
		t.Run(fmt.Sprint(nodes, " nodes"), func(t *testing.T) {
			t.Parallel()
			sim.Run(t, sim.Options{Nodes: nodes}, func(s *sim.Sim) {
				rises(t, s, restored(t, s, func() {}))
			})
		})
	}
}

func TestOneWrongClockDoesNotMoveTheTokensOfARestoredFleet(t *testing.T) {
	t.Parallel()
	const years = 365 * 24 * time.Hour
	for _, ahead := range []time.Duration{20 * years, -20 * years, -100 * years} {
		for wrong := range 3 {
			t.Run(fmt.Sprintf("node %d by %v", wrong, ahead), func(t *testing.T) {
				t.Parallel()
				sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
					rises(t, s, restored(t, s, func() { s.Node(wrong).WallClock(ahead) }))
				})
			})
		}
	}
}

// Where most clocks are behind, only the user's resource knows.
func TestATokenFloorThatAnswersLaterRaisesTheTokensOfARestoredFleet(t *testing.T) {
	t.Parallel()
	for _, nodes := range []int{1, 3} {
		t.Run(fmt.Sprint(nodes, " nodes"), func(t *testing.T) {
			t.Parallel()
			var floor holdfast.Token // 0: the group is born
			answer := make(chan struct{})
			ask := func(_ int, cfg *holdfast.Config) {
				cfg.TokenFloor = func(ctx context.Context) (holdfast.Token, error) {
					if floor > 0 {
						select {
						case <-answer:
						case <-ctx.Done():
							return 0, ctx.Err()
						}
					}
					return floor, nil
				}
			}
			sim.Run(t, sim.Options{Nodes: nodes, Config: ask}, func(s *sim.Sim) {
				answer = make(chan struct{})
				highest := restored(t, s, func() {
					floor = 1 << 52
					for _, n := range s.Nodes() {
						n.WallClock(-365 * 24 * time.Hour)
					}
				})
				began := time.Now()
				for _, n := range s.Nodes() {
					n.Ready()
				}
				early := token(t, s.Node(0), "lock0")
				if took := time.Since(began); took > 5*time.Second {
					t.Errorf("a TokenFloor that hangs held up the start by %v", took)
				}
				if early > highest {
					t.Errorf("all clocks are behind, and token %d after %d was granted", early, highest)
				}
				time.Sleep(time.Minute)
				close(answer)
				time.Sleep(time.Second)
				if got := token(t, s.Node(0), "lock0"); got <= floor {
					t.Errorf("token %d was granted, and the floor is %d", got, floor)
				}
			})
		})
	}
}

func TestATokenFloorThatNeverAnswersHoldsUpNoRestart(t *testing.T) {
	t.Parallel()
	hang := false
	ask := func(_ int, cfg *holdfast.Config) {
		cfg.TokenFloor = func(ctx context.Context) (holdfast.Token, error) {
			if hang {
				<-ctx.Done()
			}
			return 0, ctx.Err()
		}
	}
	sim.Run(t, sim.Options{Nodes: 3, Config: ask}, func(s *sim.Sim) {
		highest := restored(t, s, func() { hang = true })
		began := time.Now()
		rises(t, s, highest)
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("the fleet served after %v", took)
		}
	})
}

// Each disk is copied at a moment of its own, with grants in between, and all are put back at once. What the
// older two lack may be lost, and the newest may be refused: docs/guarantees.md says so. What stays: tokens
// rise, one node holds at a time, and a node that does not serve has ended, or waits.
func TestTokensRiseAfterDisksThatWereCopiedApartInTimeArePutBack(t *testing.T) {
	t.Parallel()
	for _, order := range [][]int{{0, 1, 2}, {2, 0, 1}, {1, 2, 0}} {
		t.Run(fmt.Sprint(order), func(t *testing.T) {
			t.Parallel()
			sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
				servesApart(t, s, restoredApart(t, s, order))
			})
		})
	}
}

// restoredApart puts the disks of a fleet back as they were copied in an order, and answers the highest token
// that was granted.
func restoredApart(t *testing.T, s *sim.Sim, order []int) (highest holdfast.Token) {
	t.Helper()
	backups := make([]*sim.Backup, len(order))
	for _, i := range order {
		for n := range 40 {
			highest = token(t, s.Node(n%len(order)), fmt.Sprint("lock", n%3))
		}
		backups[i] = s.Node(i).Backup()
	}
	for n := range 40 {
		highest = token(t, s.Node(n%len(order)), fmt.Sprint("lock", n%3))
	}
	for _, n := range s.Nodes() {
		n.Close()
	}
	for _, i := range order { // the oldest first
		s.Node(i).Restore(backups[i])
		s.Node(i).Open()
	}
	return highest
}

func servesApart(t *testing.T, s *sim.Sim, highest holdfast.Token) {
	t.Helper()
	serve := 0
	for i, n := range s.Nodes() {
		err := n.Cluster().Ready(testkit.Until(time.Minute))
		switch ended := n.Cluster().Err(); {
		case err == nil:
			serve++
			l := testkit.Get(t, n.Cluster(), "lock0")
			if l.Token() <= highest {
				t.Errorf("node %d was granted token %d, and %d was granted before", i, l.Token(), highest)
			}
			highest = l.Token()
			for j, other := range s.Nodes() {
				if second, err := other.Cluster().TryAcquire(testkit.Until(time.Second), "lock0"); err == nil {
					t.Errorf("node %d holds by token %d what node %d holds by %d", j, second.Token(), i, l.Token())
				}
			}
			if err := l.Release(testkit.Until(time.Minute)); err != nil {
				t.Errorf("node %d: %v", i, err)
			}
		case errors.Is(ended, holdfast.ErrIncompatible), ended == nil && n.Cluster().Status().Waits != "":
			t.Logf("node %d does not serve: %v, it waits for %q", i, ended, n.Cluster().Status().Waits)
		default:
			t.Errorf("node %d: %v, ended with %v", i, err, ended)
		}
	}
	if serve < 2 {
		t.Errorf("%d nodes serve", serve)
	}
}
