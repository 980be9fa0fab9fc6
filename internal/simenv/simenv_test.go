package simenv

import (
	"context"
	"testing"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/datadir"
)

func TestANodeRunsOnWhatItsContextCarries(t *testing.T) {
	t.Parallel()
	want := Env{Clock: clock.NewManual(), Dir: datadir.Memory()}
	ctx, cancel := context.WithCancel(With(t.Context(), want))
	defer cancel()
	if got, ok := From(ctx); !ok || got.Clock != want.Clock || got.Dir != want.Dir {
		t.Errorf("got %+v, %v", got, ok)
	}
	if _, ok := From(t.Context()); ok {
		t.Error("a bare context has an environment: nodes outside of the simulation would not be on the machine's network")
	}
}
