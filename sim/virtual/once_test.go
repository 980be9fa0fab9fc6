package virtual_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/sim"
)

// A key is remembered for at least its time, and not much longer; over the death of the raft leader
// and restarts of all.
func TestAKeyIsForgottenAfterItsTimeAndNeverBefore(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
		for _, keep := range []time.Duration{time.Second, time.Minute, time.Hour} {
			began := time.Now()
			key := fmt.Sprint("kept for ", keep)
			if r, err := s.Node(0).Cluster().Once(testkit.Until(10*time.Second), key, nothing, holdfast.WithKeepFor(keep)); err != nil || !r.Ran {
				t.Fatalf("%+v, %v", r, err)
			}
			if keep > time.Second {
				time.Sleep(keep / 2)
				n := s.RaftLeader()
				n.Crash()
				n.Open()
				n.Ready()
			}
			for {
				r, err := s.Node(1).Cluster().Once(testkit.Until(10*time.Second), key, nothing, holdfast.WithKeepFor(time.Millisecond))
				if err != nil {
					t.Fatal(err)
				}
				if r.Ran {
					break
				}
				time.Sleep(keep / 100)
			}
			if took := time.Since(began); took < keep || took > keep+keep/8+time.Second {
				t.Errorf("a key that was to be kept for %v was forgotten after %v", keep, took)
			}
		}
	})
}

func nothing(context.Context, *holdfast.Lease) error { return nil }
