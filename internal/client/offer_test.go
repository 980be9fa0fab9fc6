package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/link"
	"github.com/holdfast-go/holdfast/internal/testlog"
)

// The fault that cut a client off kept it from its name server as well: it tried each replica that it knew once, and
// then nothing before all lookups were over, 5 s for each entry of Join, while its leases ended.
func TestKnownReplicasAreTriedWhileJoinIsLookedUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r := &Roamer{group: newGroup(nil), peers: []string{"a:1", "b:1"}, cfg: Roaming{
			Find: func(ctx context.Context) ([]string, error) { <-ctx.Done(); return nil, ctx.Err() },
		}}
		candidates := make(chan candidate)
		go r.offer(ctx, candidates)
		began, seen := time.Now(), map[string]int{}
		for range 6 {
			c := <-candidates
			seen[c.addr]++
		}
		if took := time.Since(began); took != 2*againTime || seen["a:1"] != 3 || seen["b:1"] != 3 {
			t.Errorf("after %v: %v", took, seen)
		}
		cancel()
		for c := range candidates { // it ends
			if c.failed == nil {
				t.Errorf("given after the end: %+v", c)
			}
		}
	})
}

func TestAddressesThatAreFoundAreTriedAfterTheKnownOnesAndEachOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		missing := errors.New("no such host")
		r := &Roamer{group: newGroup(nil), peers: []string{"a:1"}, left: []leaving{{"a:1", time.Now()}}, cfg: Roaming{
			Find: func(context.Context) ([]string, error) { return []string{"a:1", "b:1", "b:1"}, missing },
		}}
		candidates := make(chan candidate)
		go r.offer(t.Context(), candidates)
		var all []string
		for c := range candidates {
			all = append(all, fmt.Sprint(c.addr, c.failed))
		}
		if want := "[a:1<nil> b:1<nil> no such host]"; fmt.Sprint(all) != want {
			t.Errorf("given %v, not %s", all, want)
		}
	})
}

// A client of another cluster's name wrote eight lines a second, for ever.
func TestRefusalsAreSaidSeldom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lines := new(testlog.Lines)
		r := NewRoamer(nil)
		r.Configure(Roaming{Logger: lines.Logger(slog.LevelWarn)})
		for range 600 {
			r.refused("a:1", link.Refuse{Code: link.RefuseFault, Text: "of cluster b"})
			time.Sleep(100 * time.Millisecond)
		}
		if said := lines.Of("a replica has refused this client"); len(said) != 18 || len(lines.Of("unreported=97")) != 5 {
			t.Errorf("%d lines in a minute: %v", len(said), said)
		}
	})
}
