package workload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/sim/internal/history"
)

const (
	campaignPause = 5 * time.Second // the longest between a loss and the next campaign
	toldMax       = 5 * time.Second // until a leader's function is told that it leads no more
)

type candidacy struct {
	n        *Node
	c        *holdfast.Cluster
	r        *rand.Rand
	deadline time.Duration
	label    uint64        // of all its campaigns; the number of the first
	op       uint64        // of the campaign under way; 0: none
	token    uint64        // of the last tenure
	resigned time.Duration // when it was left to Lead to give that back; 0: it was not
	lost     bool          // the last tenure
}

// value is what the others are to know of the leader, from the moment of the grant on.
func (x *candidacy) value() string { return fmt.Sprint("leader ", x.label) }

func (n *Node) campaign(c *holdfast.Cluster, r *rand.Rand) {
	patience := n.terms.TTL + UpTo(r, 8*n.terms.TTL)
	x := &candidacy{n: n, c: c, r: r, deadline: n.record.Now() + patience}
	ctx, cancel := context.WithTimeout(n.rest, patience)
	defer cancel()
	x.label = n.record.Op()
	x.ask(true)
	err := c.Lead(ctx, Election, x.lead, holdfast.WithValue([]byte(x.value())), holdfast.WithLabel(strconv.FormatUint(x.label, 10)))
	x.answered(ctx, err)
}

// ask records that a campaign began (waits), or may begin without another word.
func (x *candidacy) ask(waits bool) {
	e := x.n.event(history.Asked, Election)
	e.Op, e.Election, e.Wait, e.Until, e.Weight, e.Limit, e.Value = x.label, true, waits, x.deadline, 1, 1, x.value()
	if x.token != 0 {
		e.Op, e.Pause = x.n.record.Op(), campaignPause
		e.Until = max(x.n.record.Now(), x.deadline) + x.n.terms.TTL // for so long Lead may try to release, also after its context
	}
	x.op = e.Op
	x.n.add(e)
}

// lead is one tenure. Half of those who resign release the lease themselves, so that it is known
// when it was over; the others leave that to Lead.
func (x *candidacy) lead(ctx context.Context, l *holdfast.Lease) error {
	n, t := x.n, &tenure{n: x.n, c: x.c, l: l, kind: Plain(Election), weight: 1}
	e := t.event(history.Granted)
	e.Op, e.Until = x.op, n.record.Now()
	n.add(e)
	x.op, x.token, x.resigned, x.lost = 0, e.Token, 0, false
	n.hold(t, x.r)
	n.awake()
	own := n.probe(t) && Chance(x.r, 50)
	if own && n.release(t) {
		return nil
	}
	if !own {
		if x.lost = !n.gives(t); x.lost {
			x.told(ctx)
		} else {
			x.resigned = n.record.Now()
		}
	}
	n.forget(t)
	x.ask(x.lost) // who finds that it has lost when it resigns campaigns again, too
	return nil
}

// told complains when a leader's function is not told that its leadership is over.
func (x *candidacy) told(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-time.After(toldMax):
	}
	x.n.awake()
	time.Sleep(toldMax / 5) // the process may have been stopped for longer than that
	if ctx.Err() == nil {
		x.n.record.Wrong(x.n.host.Index(), fmt.Sprintf("the context of a leader's function goes on %v after the end of the leadership", toldMax))
	}
}

func (x *candidacy) answered(ctx context.Context, err error) {
	n, at := x.n, x.n.record.Now()
	if err == nil && x.resigned > 0 && at < x.resigned+n.terms.TTL/2 && !closing(x.c) { // else Lead may have left that to the background
		e := n.event(history.Released, Election)
		e.Token = x.token
		n.add(e)
	}
	if x.op != 0 {
		e := n.event(history.Refused, Election)
		e.Op, e.Until, e.Cause = x.op, at, fmt.Sprint(err)
		n.add(e)
	}
	if err == nil {
		return
	}
	n.Understand(x.c, "leading", err, holdfast.ErrHeld, holdfast.ErrLost)
	if x.lost && ctx.Err() == nil && n.host.Cluster() == x.c && !closing(x.c) {
		n.complain(x.c, fmt.Sprintf("a candidate that lost does not campaign again: %v", err))
	}
}

// closing reports whether a node takes no more calls, which begins before its Err says so.
func closing(c *holdfast.Cluster) bool {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	k, err := c.Campaign(ctx, Election) // which asks for nothing, as its context has ended
	if err != nil {
		return true
	}
	<-k.Done()
	return false
}

func (n *Node) who(c *holdfast.Cluster) holdfast.Token {
	e := n.call(history.Who, Election)
	n.add(e)
	l, err := c.Leader(Within(callLimit), Election)
	if err != nil && !errors.Is(err, holdfast.ErrNoLeader) {
		n.Understand(c, "asking who leads", err)
		return 0
	}
	e.Kind, e.Token, e.Value = history.Leads, uint64(l.Token), valueOf(l.Value)
	n.add(e)
	return l.Token
}

func (n *Node) observe(ctx context.Context, c *holdfast.Cluster, r *rand.Rand) {
	ctx, cancel := context.WithTimeout(ctx, n.terms.TTL+UpTo(r, 20*n.terms.TTL))
	defer cancel()
	e := n.call(history.Observing, Election)
	n.add(e)
	for l, err := range c.Observe(ctx, Election) {
		if err != nil {
			n.Understand(c, "observing", err)
			break
		}
		e.Kind, e.Token, e.Value = history.Observed, uint64(l.Token), valueOf(l.Value)
		n.add(e)
	}
	e = history.Event{Kind: history.Unheard, Op: e.Op, Node: e.Node, Lock: Election}
	n.add(e)
}
