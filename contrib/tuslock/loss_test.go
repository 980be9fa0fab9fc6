package tuslock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/contrib/tuslock"
	"github.com/holdfast-go/holdfast/sim"
)

// forced takes the lock of upload id away from its holder, as an operator can.
func forced(t *testing.T, s *sim.Sim) {
	info, err := s.Node(1).Cluster().Inspect(context.Background(), "uploads/id")
	if err != nil || len(info.Holders) != 1 {
		t.Fatalf("%+v, %v", info, err)
	}
	if err := s.Node(1).Cluster().ForceRelease(context.Background(), "uploads/id", info.Holders[0].Token, "test"); err != nil {
		t.Fatal(err)
	}
}

// Nobody else wants the lock here: it is the loss alone that is told, once, and in time.
func TestTheRequestIsToldOfALoss(t *testing.T) {
	t.Parallel()
	const ttl = 5 * time.Second
	for _, test := range []struct {
		name   string
		lose   func(t *testing.T, s *sim.Sim)
		within time.Duration
	}{
		{"the node is closed", func(_ *testing.T, s *sim.Sim) { s.Node(0).Close() }, time.Second},
		{"an operator has ended it", forced, time.Second},
		{"the node is cut off", func(_ *testing.T, s *sim.Sim) { s.Node(0).Isolate() }, ttl},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
				l, err := tuslock.New(s.Node(0).Cluster(), "uploads/", holdfast.WithTTL(ttl)).NewLock("id")
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				told := make(chan struct{}, 2)
				if err := l.Lock(ctx, func() { told <- struct{}{} }); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute) // it renews itself
				if len(told) > 0 {
					t.Error("told before there was a loss")
				}
				test.lose(t, s)
				select {
				case <-told:
				case <-time.After(test.within):
					t.Errorf("not told within %v", test.within)
				}
				time.Sleep(2 * ttl)
				if len(told) > 0 {
					t.Error("told twice")
				}
				if err := l.Unlock(); !errors.Is(err, holdfast.ErrLost) {
					t.Errorf("Unlock: %v", err)
				}
			})
		})
	}
}
