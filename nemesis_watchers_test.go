package holdfast_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/history"
	"github.com/holdfast-go/holdfast/sim"
)

// listen calls f with a node's cluster, and again when it answers, until the listeners are to stop.
func (x *nemesis) listen(i int, f func(ctx context.Context, n *sim.Node, c *holdfast.Cluster)) {
	n := x.s.Node(i)
	for x.listening.Err() == nil {
		if c := n.Cluster(); c != nil {
			f(x.listening, n, c)
		}
		select {
		case <-x.listening.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// watcher watches all locks with a prefix from node i. One that is slow looks once in a while only.
func (x *nemesis) watcher(i int, prefix string, slow time.Duration) {
	var rested uint64  // the index at which a slow one looked away last
	var back time.Time // when it looked again: what came meanwhile is told first
	x.listen(i, func(ctx context.Context, n *sim.Node, c *holdfast.Cluster) {
		e := history.Event{Kind: history.Watching, Op: x.rec.Op(), Node: i, Lock: prefix, Pause: slow}
		x.rec.Add(e)
		for seen, err := range c.Watch(ctx, prefix) {
			<-n.Awake()
			if err != nil {
				x.understand("watching", err)
				break
			}
			told := history.Event{
				Kind: history.Told, Op: e.Op, Node: i, Lock: seen.Name, Index: seen.Index, Change: seen.Kind.String(),
				Token: uint64(seen.Holder.Token), Of: x.opOf(seen.Holder.Label), Cause: seen.Reason,
			}
			if seen.Kind == holdfast.EventValue {
				told.Value = valueOf(seen.Holder.Value)
			}
			x.rec.Add(told)
			if seen.Kind == holdfast.EventResync {
				x.list(n, c, "{t}")
			}
			if slow > 0 && told.Index >= rested+500 && time.Since(back) > slow {
				rested = told.Index
				select {
				case <-time.After(slow):
				case <-ctx.Done():
				}
				back = time.Now()
			}
		}
		e.Kind = history.Unheard
		x.rec.Add(e)
	})
}

// burden writes large values on node i, which a slow watcher has no room for.
func (x *nemesis) burden(i int, r *rand.Rand) {
	n, tail := x.s.Node(i), append([]byte("|"), bytes.Repeat([]byte("ballast "), 7<<10)...)
	for !x.resting() {
		pause(r, x.pace.burden)
		<-n.Awake()
		c := n.Cluster()
		if c == nil {
			continue
		}
		l, err := c.Acquire(until(x.ttl), ballast)
		if err != nil {
			x.understand("acquiring", err, holdfast.ErrHeld)
			continue
		}
		t := &tenure{n: n, l: l, kind: kind{name: ballast, limit: 1}}
		for range 10 {
			pause(r, 200*time.Millisecond)
			<-n.Awake()
			x.set(t, tail)
		}
		if err := l.Release(until(time.Second)); err != nil {
			x.understand("releasing", err, holdfast.ErrLost)
		}
	}
}
