//go:build holdfast_next

package consensus

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/fsm"
)

// The next version serves a group of level 1 without its new command, and all replicas carry that out
// once the level has risen.
func TestTheNewCommandOfTheNextVersionWaitsForItsLevel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.tune = func(c *Config) { c.Level = 0 } // as in a program
		group := b.trio(t)
		defer closeAll(t, group)
		for _, r := range group {
			if _, err := r.Propose(t.Context(), fsm.Encode(fsm.Next{})); !errors.Is(err, ErrLevel) {
				t.Errorf("%s at level 1: %v", r.node, err)
			}
		}
		group[0].propose(t, fsm.Level{Level: fsm.LevelKnown})
		for _, r := range group {
			r.barrier(t)
			if out := r.propose(t, fsm.Next{}); out.Code != fsm.CodeOK {
				t.Errorf("%s at level %d: %v", r.node, fsm.LevelKnown, out.Code)
			}
		}
	})
}
