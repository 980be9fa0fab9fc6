package holdfast

import (
	"log/slog"
	"testing"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/seam"
	"github.com/holdfast-go/holdfast/internal/seam/seamtest"
	"github.com/holdfast-go/holdfast/internal/simenv"
)

// around is a node whose calls go through what a test has put around its group.
type around struct {
	seam.Node
	group seam.Group
}

func (n around) Group() seam.Group { return n.group }

// openAround opens a node on a group in memory, in virtual time.
func openAround(t *testing.T, log *slog.Logger, wrap func(seam.Group) seam.Group) *Cluster {
	t.Helper()
	g := seamtest.New(clock.System().Now, fsm.Limits{})
	env := simenv.Env{Clock: clock.System(), Node: func(l seam.Listener) seam.Node {
		return around{seamtest.NewNode(g, "n", log)(l), wrap(g)}
	}}
	c, err := Open(simenv.With(t.Context(), env), Config{Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
