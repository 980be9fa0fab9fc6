package sim_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/sim"
)

// careless is a service that goes on in its critical section when its lease is lost.
func careless(ctx context.Context, n *sim.Node, c *holdfast.Cluster) error {
	l, err := c.Acquire(ctx, "lock", holdfast.WithTTL(2*time.Second))
	if err != nil {
		return nil // the end of the test
	}
	leave := n.Section("work").Enter(ctx, l.Token())
	<-ctx.Done()
	leave()
	return nil
}

func TestAServiceThatGoesOnWithoutItsLeaseFailsAndTheRunIsStoredAndRepeated(t *testing.T) {
	dir := t.TempDir()
	out, failed, here := victim(t, sim.RepeatVar+"=2", sim.DirVar+"="+dir)
	if here {
		sim.Run(t, sim.Options{Nodes: 3, Seed: 77, Service: careless}, func(s *sim.Sim) {
			time.Sleep(5 * time.Second)
			s.Note("a note of the test")
			s.Attach("own file", func(w io.Writer) error { _, err := fmt.Fprintln(w, "attached"); return err })
			for _, n := range s.Nodes() {
				n.Isolate()
				time.Sleep(10 * time.Second)
				n.Rejoin()
			}
		})
		return
	}
	stored := filepath.Join(dir, t.Name()+"-seed-77")
	for _, want := range []string{`two are in the critical section "work"`, stored, "of 2 further runs 2 failed"} {
		if !failed || !strings.Contains(out, want) {
			t.Errorf("failed=%v, without %q:\n%s", failed, want, out)
		}
	}
	for name, want := range map[string]string{
		"run.txt":      "HOLDFAST_SEED=77 go test -run '^" + t.Name() + "$'",
		"schedule.txt": "fault: node 0 is isolated",
		"history.txt":  "a note of the test",
		"own_file.txt": "attached",
	} {
		b, err := os.ReadFile(filepath.Join(stored, name))
		if err != nil || !strings.Contains(string(b), want) {
			t.Errorf("%s: %v, without %q:\n%s", name, err, want, b)
		}
	}
}

func TestABubbleThatIsStuckIsStoredToo(t *testing.T) {
	dir := t.TempDir()
	out, failed, here := victim(t, sim.DirVar+"="+dir)
	if here {
		sim.Run(t, sim.Options{Late: true}, func(s *sim.Sim) {
			go func() { <-make(chan struct{}) }()
			s.Note("about to end")
		})
		return
	}
	b, err := os.ReadFile(filepath.Join(dir, t.Name()+"-seed-1", "history.txt"))
	if !failed || err != nil || !strings.Contains(string(b), "about to end") {
		t.Errorf("failed=%v, %v: %s\n%s", failed, err, b, out)
	}
}

func TestARunThatSucceedsLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	sim.Run(t, sim.Options{Late: true, Dir: dir}, func(s *sim.Sim) { s.Note("nothing to see") })
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v is left (%v)", left, err)
	}
}

func TestAServiceThatFailsWhileItsNodeLivesFailsTheTest(t *testing.T) {
	out, failed, here := victim(t)
	if here {
		sim.Run(t, sim.Options{Service: func(context.Context, *sim.Node, *holdfast.Cluster) error {
			return errors.New("out of order")
		}}, func(s *sim.Sim) { time.Sleep(time.Second) })
		return
	}
	if !failed || !strings.Contains(out, "the service on node 0 has failed: out of order") {
		t.Errorf("failed=%v:\n%s", failed, out)
	}
}

func TestAServiceThatDoesNotEndWithItsNodeFailsTheTest(t *testing.T) {
	out, failed, here := victim(t)
	if here {
		sim.Run(t, sim.Options{Service: func(context.Context, *sim.Node, *holdfast.Cluster) error {
			time.Sleep(10 * time.Minute)
			return nil
		}}, func(s *sim.Sim) {
			s.Node(0).Close()
			time.Sleep(10 * time.Minute)
		})
		return
	}
	if !failed || !strings.Contains(out, "the service on node 0 did not return within 1m0s") {
		t.Errorf("failed=%v:\n%s", failed, out)
	}
}
