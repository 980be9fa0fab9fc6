package virtual_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/sim"
)

func TestFormingTakesSecondsAtMost(t *testing.T) {
	t.Parallel()
	for nodes, limit := range map[int]time.Duration{1: time.Second / 2, 3: 3 * time.Second, 5: 4 * time.Second, 7: 5 * time.Second} {
		for seed := range uint64(5) {
			t.Run(fmt.Sprintf("%d nodes, seed %d", nodes, seed+1), func(t *testing.T) {
				t.Parallel()
				sim.Run(t, sim.Options{Nodes: nodes, Seed: seed + 1, Late: true}, func(s *sim.Sim) {
					began := time.Now()
					for _, n := range s.Nodes() {
						n.Open()
					}
					for i, n := range s.Nodes() {
						n.Ready()
						if took := time.Since(began); took > limit {
							t.Errorf("node %d was ready after %v", i, took)
						}
						testkit.Get(t, n.Cluster(), fmt.Sprint("own", i))
					}
				})
			})
		}
	}
}

func TestNodesThatStartMinutesApartFormOneGroup(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 5, Late: true}, func(s *sim.Sim) {
		for i, n := range s.Nodes() {
			n.Open()
			if i < 2 {
				if err := n.Cluster().Ready(testkit.Until(10 * time.Second)); !errors.Is(err, holdfast.ErrNoQuorum) {
					t.Errorf("%d of 3 nodes are ready: %v", i+1, err)
				}
			}
			time.Sleep(3 * time.Minute)
		}
		want := ""
		for i, n := range s.Nodes() {
			n.Ready()
			st := n.Cluster().Status()
			if want == "" {
				want = st.ClusterID
			}
			if st.ClusterID != want || len(st.Voters) != 3 || len(st.Standbys) != 2 {
				t.Errorf("node %d: %d voters and %d standbys of group %s, want 3 and 2 of %s",
					i, len(st.Voters), len(st.Standbys), st.ClusterID, want)
			}
			testkit.Get(t, n.Cluster(), fmt.Sprint("local", i))
		}
	})
}
