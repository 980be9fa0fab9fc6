package contract_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/sim"
)

func TestCloseGivesTheLeasesBackSoThatAnotherNodeHasThemAtOnce(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 3, Config: longTTL}, func(s *sim.Sim) {
		for i, n := range s.Nodes() {
			automatic := get(t, n.Cluster(), "automatic", holdfast.WithTTL(time.Hour))
			manual := get(t, n.Cluster(), "manual", holdfast.WithTTL(time.Hour), holdfast.WithManualRenew())
			other := s.Node((i + 1) % 3).Cluster()
			granted := make(chan *holdfast.Lease, 2)
			var last time.Time
			go func() {
				for _, name := range []string{"automatic", "manual"} {
					l, err := other.Acquire(until(time.Minute), name)
					if err != nil {
						t.Error(err)
					}
					last = time.Now()
					granted <- l
				}
			}()
			time.Sleep(time.Second)
			began := time.Now()
			n.Close() // which takes longer than giving back: gossip may have a probe under way
			l, next := <-granted, <-granted
			if took := last.Sub(began); took > 2*time.Second {
				t.Errorf("node %d: granted again %v after Close", i, took)
			}
			if l.Token() <= automatic.Token() || next.Token() <= manual.Token() {
				t.Errorf("node %d: tokens %d, %d after %d, %d", i, l.Token(), next.Token(), automatic.Token(), manual.Token())
			}
			for _, l := range []*holdfast.Lease{l, next} {
				if err := l.Release(until(time.Minute)); err != nil {
					t.Error(err)
				}
			}
			n.Open()
			n.Ready()
		}
	})
}

func TestTenClustersRunInOneProcessAndKnowNothingOfEachOther(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	list := make([]*holdfast.Cluster, 10)
	for i := range list {
		cfg := holdfast.Config{Cluster: fmt.Sprint("cluster", i%5), Logger: quiet()} // five names, two groups of each
		if i%2 == 0 {
			cfg.DataDir = filepath.Join(dir, fmt.Sprint(i))
		}
		c, err := holdfast.Open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		list[i] = c
	}
	allReady(t, list)
	groups := make(map[string]bool)
	for i, c := range list {
		acquire(t, c, "the same name", holdfast.WithValue([]byte{byte(i)}))
		groups[c.Status().ClusterID] = true
		if m := c.Members(); len(m) != 1 {
			t.Errorf("node %d sees %d members", i, len(m))
		}
	}
	if len(groups) != len(list) {
		t.Errorf("%d groups of %d nodes", len(groups), len(list))
	}
	for i, c := range list[:9] {
		closed(t, c)
		last := list[9]
		if info, err := last.Inspect(within(t, 5*time.Second), "the same name"); err != nil || info.Value[0] != 9 {
			t.Errorf("after %d were closed: %+v, %v", i+1, info, err)
		}
	}
}
