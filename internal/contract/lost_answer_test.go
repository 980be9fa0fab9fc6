package contract_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/sim"
)

// The tests of this file are about commands that are carried out while their answer is lost: a node
// that can send, and hears nothing.

// deafen cuts off what is sent to a node that is not raft leader, and returns it with another node.
// What the node has under way is answered before: two entries whose answers are lost would keep the
// command of the test waiting, until the node knows of no raft leader to send it to.
func deafen(s *sim.Sim) (deaf, other *sim.Node, cut func()) {
	leader := s.RaftLeader()
	deaf, other = s.Node((leader.Index()+1)%3), s.Node((leader.Index()+2)%3)
	return deaf, other, func() {
		time.Sleep(time.Second)
		for _, n := range s.Nodes() {
			if n != deaf {
				s.Cut(n.Index(), deaf.Index())
			}
		}
	}
}

// The answer to a write was lost, and the holder wrote another value meanwhile. The first call
// asked again, heard that its request was finished, and wrote its value once more: A, B, A.
func TestAWriteWhoseAnswerIsLostIsNotCarriedOutAgainAfterALaterOne(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 3, Config: longTTL}, func(s *sim.Sim) {
		deaf, other, cut := deafen(s)
		l := get(t, deaf.Cluster(), "x", holdfast.WithTTL(time.Hour))
		ctx, stop := context.WithCancel(context.Background())
		var written []string
		watching := make(chan struct{})
		var all sync.WaitGroup
		all.Go(func() {
			close(watching)
			for e, err := range other.Cluster().Watch(ctx, "x") {
				if err == nil && e.Kind == holdfast.EventValue {
					written = append(written, string(e.Holder.Value))
				}
			}
		})
		<-watching
		cut()
		var calls sync.WaitGroup
		for _, value := range []string{"A", "B"} {
			calls.Go(func() {
				if err := l.Set(until(time.Minute), []byte(value)); err != nil {
					t.Errorf("%s: %v", value, err)
				}
			})
			time.Sleep(2 * time.Second)
		}
		if info, err := other.Cluster().Inspect(until(time.Minute), "x"); err != nil || string(info.Value) != "A" {
			t.Errorf("the test is void: the value is %q, %v", info.Value, err)
		}
		s.Heal()
		calls.Wait()
		time.Sleep(time.Second)
		stop()
		all.Wait()
		if !slices.Equal(written, []string{"A", "B"}) {
			t.Errorf("written: %v", written)
		}
	})
}

// A release was answered with nil whenever an attempt before might have been carried out, and
// always for a manually renewed lease: also when an operator had taken the lock, and another had
// it.
func TestAReleaseSaysWhetherTheLockWasLostBeforeThoughItsFirstAnswerIsLost(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]holdfast.Option{"automatic": nil, "manual": {holdfast.WithManualRenew()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sim.Run(t, sim.Options{Nodes: 3, Config: longTTL}, func(s *sim.Sim) {
				opts := append(opts, holdfast.WithTTL(time.Hour))
				released := func(l *holdfast.Lease) <-chan error {
					answer := make(chan error, 1)
					go func() { answer <- l.Release(until(5 * time.Minute)) }()
					time.Sleep(2 * time.Second)
					return answer
				}
				// Carried out, and the answer is lost.
				for _, grants := range []int{0, 20} { // of others meanwhile: the group remembers the last 16
					deaf, other, cut := deafen(s)
					l := get(t, deaf.Cluster(), "x", opts...)
					cut()
					answer := released(l)
					for range grants {
						if err := get(t, other.Cluster(), "x").Release(until(time.Minute)); err != nil {
							t.Error(err)
						}
					}
					s.Heal()
					switch err := <-answer; {
					case grants == 0 && err != nil, grants > 0 && !errors.Is(err, holdfast.ErrUnknownOutcome):
						t.Errorf("released, and granted %d times since: %v", grants, err)
					}
					if err := l.Release(until(time.Minute)); err != nil {
						t.Errorf("again: %v", err)
					}
				}
				// Lost before.
				deaf, other, cut := deafen(s)
				l := get(t, deaf.Cluster(), "z", opts...)
				cut()
				if err := other.Cluster().ForceRelease(until(time.Minute), "z", l.Token(), "a test"); err != nil {
					t.Fatal(err)
				}
				get(t, other.Cluster(), "z")
				answer := released(l)
				s.Heal()
				if err := <-answer; !errors.Is(err, holdfast.ErrLost) {
					t.Errorf("the lock was lost before: %v", err)
				}
			})
		})
	}
}

// A run was finished, its answer was lost, and the key was forgotten: the next attempt heard that
// the group knows of no such run, and the call said that the lease had been lost before.
func TestARunThatMayBeFinishedAndForgottenIsNotCalledLost(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 3, Config: longTTL}, func(s *sim.Sim) {
		deaf, other, cut := deafen(s)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			r, err := deaf.Cluster().Once(until(time.Hour), "k", func(context.Context, *holdfast.Lease) error {
				cut()
				return nil
			}, holdfast.WithTTL(time.Hour), holdfast.WithKeepFor(time.Millisecond))
			if r.Finished || !errors.Is(err, holdfast.ErrUnknownOutcome) || errors.Is(err, holdfast.ErrLost) {
				t.Errorf("%+v, %v", r, err)
			}
		}()
		time.Sleep(time.Minute)
		if r, err := other.Cluster().Once(until(time.Minute), "k", nothing); err != nil || !r.Ran {
			t.Errorf("the test is void: %+v, %v", r, err)
		}
		s.Heal()
		<-ended
	})
}
