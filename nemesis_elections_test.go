package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/history"
	"github.com/holdfast-go/holdfast/sim"
)

// candidate campaigns on node i, again and again.
func (x *nemesis) candidate(i int, r *rand.Rand) {
	n := x.s.Node(i)
	for !x.resting() {
		pause(r, x.pace.lead)
		<-n.Awake()
		if c := n.Cluster(); c != nil {
			x.lead(n, c, r)
		}
	}
}

// lead campaigns for a while, also again after losses.
func (x *nemesis) lead(n *sim.Node, c *holdfast.Cluster, r *rand.Rand) {
	patience := time.Duration(r.Int64N(int64(10 * x.ttl)))
	asked := history.Event{
		Kind: history.Asked, Op: x.rec.Op(), Node: n.Index(), Lock: crown, Wait: true, Weight: 1, Limit: 1, Election: true,
		Until: time.Since(x.begin) + patience,
	}
	asked.Value = fmt.Sprint("candidate", asked.Op)
	label := holdfast.WithLabel(strconv.FormatUint(asked.Op, 10))
	x.rec.Add(asked)
	over, lost := false, false // the call has been answered; it led, and lost
	again := func() {
		if time.Since(x.begin) < asked.Until {
			asked.Op, asked.Pause = x.rec.Op(), campaign
			x.rec.Add(asked)
			over = false
		}
	}
	err := c.Lead(until(patience), crown, func(ctx context.Context, l *holdfast.Lease) error {
		granted := history.Event{
			Kind: history.Granted, Op: asked.Op, Node: n.Index(), Lock: crown, Token: uint64(l.Token()), Until: time.Since(x.begin),
		}
		<-n.Awake()
		x.rec.Add(granted)
		t := &tenure{n: n, l: l, kind: kind{name: crown, limit: 1}}
		over = true
		x.hold(t, r, false)
		<-n.Awake()
		if lost = !l.Valid(); lost {
			<-ctx.Done()
			again()
			return nil
		}
		if chance(r, 50) {
			if x.release(t) { // so that it is known when it was over
				return nil
			}
		} else {
			x.gives(t)
		}
		again() // if it turns out that it had lost before
		return nil
	}, label, holdfast.WithValue([]byte(asked.Value)))
	e := history.Event{Kind: history.Refused, Op: asked.Op, Node: n.Index(), Lock: crown, Until: time.Since(x.begin)}
	if !over && !lost { // giving back has a time of its own
		e.Until = min(e.Until, asked.Until)
	}
	<-n.Awake()
	if err != nil {
		x.understand("leading", err, holdfast.ErrHeld, holdfast.ErrLost)
		e.Cause = err.Error()
	}
	if !over {
		x.rec.Add(e)
		ends := errors.Is(err, holdfast.ErrClosed) || errors.Is(err, holdfast.ErrIncompatible) || errors.Is(err, holdfast.ErrRemoved)
		if time.Since(x.begin) < asked.Until && lost && n.Cluster() == c && c.Err() == nil && !ends {
			x.t.Errorf("a candidate that lost does not campaign again: %v", err)
		}
	}
}

// who asks who leads.
func (x *nemesis) who(n *sim.Node, c *holdfast.Cluster) {
	e := history.Event{Kind: history.Who, Op: x.rec.Op(), Node: n.Index(), Lock: crown}
	x.rec.Add(e)
	l, err := c.Leader(until(time.Second), crown)
	if err != nil && !errors.Is(err, holdfast.ErrNoLeader) {
		x.understand("asking who leads", err)
		return
	}
	e.Kind, e.Token, e.Value = history.Leads, uint64(l.Token), valueOf(l.Value)
	x.rec.Add(e)
}

// observer observes the election from node i, for half a minute at a time.
func (x *nemesis) observer(i int) {
	x.listen(i, func(ctx context.Context, n *sim.Node, c *holdfast.Cluster) {
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		e := history.Event{Kind: history.Observing, Op: x.rec.Op(), Node: i, Lock: crown}
		x.rec.Add(e)
		for l, err := range c.Observe(ctx, crown) {
			<-n.Awake()
			if err != nil {
				x.understand("observing", err)
				break
			}
			told := e
			told.Kind, told.Token, told.Value = history.Observed, uint64(l.Token), valueOf(l.Value)
			x.rec.Add(told)
		}
		e.Kind = history.Unheard
		x.rec.Add(e)
	})
}
