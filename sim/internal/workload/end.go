package workload

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/sim/internal/history"
)

const (
	retryPause = 50 * time.Millisecond
	clearMax   = 10 * time.Second
)

// Serve takes and releases a lock of the node's own until that works once, which is recorded, or
// ctx ends. It is another lock each time, as what a process took that did not live to hear of it is
// held until its TTL.
func (n *Node) Serve(ctx context.Context) {
	for ctx.Err() == nil {
		if c := n.host.Cluster(); c != nil {
			l, err := c.Acquire(Within(callLimit), fmt.Sprint("own ", n.record.Op()))
			if err == nil && l.Release(Within(callLimit)) == nil {
				n.add(n.event(history.Served, ""))
				return
			}
		}
		time.Sleep(retryPause)
	}
}

// Drain takes every lock and set whole, and gives it back: nothing may be stuck. Nobody waits for
// the end of the longest leases: an operator frees what the dead hold.
func (n *Node) Drain() {
	c := n.host.Cluster()
	if c == nil {
		return // it could not be opened, which was told
	}
	all := append(n.all(), Plain(ballast))
	for i, name := range setNames() {
		k := Plain(name)
		k.others = append(setNames()[:i:i], setNames()[i+1:]...)
		all = append(all, k)
	}
	for _, k := range all {
		if k.TTL > n.terms.WaitMax {
			n.clear(c, k.Name)
		}
		patience := max(n.terms.TTL, min(k.TTL, n.terms.WaitMax)) + n.terms.Late + k.MinHold + k.LockDelay
		l, err := k.ask(Within(patience), c, true, k.whole())
		if err != nil {
			info, _ := c.Inspect(Within(callLimit), k.Name)
			n.wrong("at the end %q cannot be had: %v; %+v", k.names(), err, info)
			continue
		}
		if err := l.Release(Within(patience)); err != nil {
			n.wrong("at the end %q cannot be released: %v", k.names(), err)
		}
	}
}

// clear frees by force what the dead hold of a lock.
func (n *Node) clear(c *holdfast.Cluster, name string) {
	for end := n.record.Now() + clearMax; n.record.Now() < end; time.Sleep(retryPause) {
		info, err := c.Inspect(Within(callLimit), name)
		if err == nil && len(info.Holders) == 0 {
			return
		}
		for _, h := range info.Holders {
			n.force(c, name, h.Token)
		}
	}
}
