package node

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/autopilot"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/consensus"
)

func TestOnlyTheEnginesRefusalIsTheGroupsNo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want autopilot.Outcome
	}{
		{nil, autopilot.Done},
		{consensus.ErrMembershipChanged, autopilot.Refused},
		{fmt.Errorf("%w: no answer in time", consensus.ErrUnknown), autopilot.Unknown},
		{fmt.Errorf("%w: system is too busy", consensus.ErrNotProposed), autopilot.Failed},
		{context.DeadlineExceeded, autopilot.Failed},
	} {
		if got := outcome(c.err); got != c.want {
			t.Errorf("%v: %v", c.err, got)
		}
	}
}

// A silence that ended in what came with a snapshot would have a voter removed that is heard.
func TestAPilotForgetsAtASnapshotWhatTheLogSaidOfSilence(t *testing.T) {
	t.Parallel()
	silent := fsm.Event{Kind: fsm.EventSilent, TTL: 500 * time.Millisecond, Session: fsm.SessionID{Node: fsm.Node{2}}}
	state := autopilot.State{
		Self: fsm.Node{1}.String(), Term: 1,
		Members:  autopilot.Members{Voters: map[uint64]string{1: fsm.Node{1}.String(), 2: fsm.Node{2}.String()}, Change: 1},
		Departed: func(string) fsm.Departure { return fsm.Stays },
	}
	for name, steps := range map[string]func(p *pilot){
		"heard of":     func(p *pilot) { p.hear(); p.skip() },
		"not heard of": func(p *pilot) { p.skip() },
	} {
		p := &pilot{n: &Node{clock: clock.System()}, news: make(map[newsKey]news), leader: autopilot.New(autopilot.Config{})}
		p.note(&silent)
		steps(p)
		p.hear()
		p.leader.Plan(state, p.n.clock.Now())
		for _, m := range p.leader.Members() {
			if m.Heard >= silent.TTL {
				t.Errorf("%s: a voter is silent for %v", name, m.Heard)
			}
		}
		if len(p.leader.Members()) != 2 {
			t.Errorf("members %v", p.leader.Members())
		}
	}
}

// A node had waited with a recovered group that yielded. It counted the wait of the next one, recovered later,
// from that, and leases of the former group might still have been valid when it granted a lock.
func TestTheWaitOfARecoveredGroupIsItsOwn(t *testing.T) {
	t.Parallel()
	now := clock.NewManual()
	now.Advance(time.Hour)
	p := &pilot{n: &Node{clock: now, log: slog.New(slog.DiscardHandler)}}
	state := func(cluster string) *autopilot.State {
		return &autopilot.State{Cluster: cluster, Info: fsm.Info{Wait: time.Minute}}
	}
	for _, step := range []struct {
		group   string
		advance time.Duration
		waited  bool
	}{{"first", 0, false}, {"first", 50 * time.Second, false}, {"second", 5 * time.Second, false}, {"second", 59 * time.Second, false}, {"second", time.Second, true}} {
		now.Advance(step.advance)
		if got := p.waited(state(step.group)); got != step.waited {
			t.Errorf("%+v: waited %v", step, got)
		}
	}
}
