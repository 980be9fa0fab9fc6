// Package simenv lets the simulation put a node on another network, clock and disk than the
// machine's, and tests give it another resolver of names and lower bounds. It travels in the
// context of holdfast.Open, so that Config stays free of what only tests need.
package simenv

import (
	"context"
	"io"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/member"
	"github.com/holdfast-go/holdfast/internal/seam"
	"github.com/holdfast-go/holdfast/transport"
)

// Env is what a node runs on. A nil field stands for the machine's own.
type Env struct {
	Network transport.Network
	Clock   clock.Clock
	Dir     io.Closer // a datadir.Dir, which a client must not link; nil: as Config.DataDir says
	// Fleeting says that Dir ends with the process, as memory does.
	Fleeting bool
	Names    member.Resolver
	Node     func(seam.Listener) seam.Node // nothing else of Env matters to it but the Clock
	Limits   fsm.Limits                    // of the group; the same on all nodes
	// Level is the feature level that the node says it knows, and LevelPause the time for which all
	// have known the next before the group rises to it; 0: as ever.
	Level      uint64
	LevelPause time.Duration
	// How many commands lie between two snapshots of the state, and how many are kept behind one
	// for replicas that lag; 0: as many as ever. A run of minutes meets no snapshot otherwise.
	SnapshotEvery, SnapshotKeep uint64
}

type key struct{}

// With returns a context that carries e.
func With(ctx context.Context, e Env) context.Context {
	return context.WithValue(ctx, key{}, e)
}

// From returns the Env that ctx carries; false if it carries none.
func From(ctx context.Context) (Env, bool) {
	e, ok := ctx.Value(key{}).(Env)
	return e, ok
}
