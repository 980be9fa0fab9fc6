package contract_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/seam"
	"github.com/holdfast-go/holdfast/internal/seam/seamtest"
	"github.com/holdfast-go/holdfast/internal/simenv"
)

// The tests of this file are about a replica that is gone between an answer and what belongs to it: the
// news that say why, or the answer to the next question.

// badNode is a node whose group a test spoils.
type badNode struct {
	seam.Node
	group seam.Group
}

func (n badNode) Group() seam.Group { return n.group }

// onBadGroup is a node on a group in memory that spoil has spoilt.
func onBadGroup(t *testing.T, spoil func(seam.Group) seam.Group) *holdfast.Cluster {
	own := clock.System()
	cfg := holdfast.Config{Name: "alone", Logger: quiet()}
	make := seamtest.NewNode(seamtest.New(own.Now, fsm.Limits{}), cfg.Name, cfg.Logger)
	return opened(t, simenv.Env{Clock: own, Node: func(l seam.Listener) seam.Node {
		n := make(l)
		return badNode{n, spoil(n.Group())}
	}}, cfg)
}

// mute is a group that tells no news.
type mute struct{ seam.Group }

func (mute) Follow(uint64, seam.Follower) {}

// CI found it: the replica of a client was killed with the news that an operator had revoked the
// client's node. The next replica answered a renewal before it told what was missing, and two of thirty
// holders heard that they had not renewed in time.
func TestAHolderHearsWhyItsSessionEndedThoughTheNewsOfThatAreLost(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(*testing.T, *holdfast.Cluster){
		"by a renewal": func(*testing.T, *holdfast.Cluster) {},
		"by a call":    func(t *testing.T, c *holdfast.Cluster) { acquire(t, c, "other") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := onBadGroup(t, func(g seam.Group) seam.Group { return mute{g} })
				l := acquire(t, c, "lock")
				if err := c.RevokeNode(within(t, 10*time.Second), c.ID(), "burnt"); err != nil {
					t.Fatal(err)
				}
				ask(t, c)
				<-l.Done()
				if err := l.Err(); !errors.Is(err, holdfast.ErrForced) {
					t.Errorf("the holder hears: %v", err)
				}
			})
		})
	}
}

// forgetful is a group that carries each release out twice, as after an answer that was lost, and answers no
// question of the state thereafter.
type forgetful struct{ seam.Group }

func (g forgetful) Propose(ctx context.Context, class seam.Class, cmd []byte) (fsm.Outcome, bool, error) {
	out, unknown, err := g.Group.Propose(ctx, class, cmd)
	if class != seam.Holding {
		return out, unknown, err
	}
	out, _, err = g.Group.Propose(ctx, seam.Urgent, cmd)
	return out, true, err
}

func (forgetful) Ask(ctx context.Context, _ seam.View, _ fsm.Question) (fsm.Answer, error) {
	<-ctx.Done()
	return nil, &seam.UnreachedError{Ended: ctx.Err()}
}

// A Release whose context ended between its answer and the question how the grant had ended said that the
// group did not remember.
func TestAReleaseWhoseContextEndsSaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := onBadGroup(t, func(g seam.Group) seam.Group { return forgetful{g} })
		err := acquire(t, c, "lock").Release(within(t, time.Second))
		if !errors.Is(err, holdfast.ErrUnknownOutcome) || !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, holdfast.ErrNoQuorum) {
			t.Errorf("the caller hears: %v", err)
		}
	})
}
