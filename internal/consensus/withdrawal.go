package consensus

import (
	"context"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/lni/dragonboat/v4/raftpb"

	"github.com/holdfast-go/holdfast/transport"
)

// A copy of the directory of a node that lives meets several replicas at once. One that has heard
// what the copy lacks refuses it; another one, to which the node has promised nothing since, admits
// it, and takes the process that lives for superseded from then on: at the next election that would
// end as well. So a process that stops because it is refused takes itself back, if it has promised
// nothing to anybody: the others go on as if it had never been.
//
// It says so on connections of its own, since the engine may have closed the one on which it had
// greeted: after a pause, or in the moment of the failure. Where that does not arrive, the node
// that lives ends when it meets who has admitted the copy, and serves when it has been started
// again, twice at most: each start counts.

const (
	withdrawalBytes = 1
	withdrawTime    = 500 * time.Millisecond // for all to hear it
)

// vouch notes, before messages are sent, whether others may rely on what they say.
func (c *carrier) vouch(messages []raftpb.Message) {
	if c.promised.Load() {
		return
	}
	if slices.ContainsFunc(messages, func(m raftpb.Message) bool { _, ok := promises(&m, m.To); return ok }) {
		c.promised.Store(true)
	}
}

// greets notes, before a greeting is sent, who may admit this process.
func (c *carrier) greets(addr string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.promised.Load() || len(c.greeted) >= heardMax {
		return
	}
	if c.greeted == nil {
		c.greeted = make(map[string]struct{})
	}
	c.greeted[addr] = struct{}{}
}

// withdraw tells all that this process has greeted that it has promised nothing, if that is so, and
// returns when they have heard it. It is called after mute: who has not noted a promise by then
// will send none.
func (c *carrier) withdraw() {
	if c.promised.Load() {
		return
	}
	c.mu.Lock()
	greeted := c.greeted
	c.greeted = nil // once is enough
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), withdrawTime)
	defer cancel()
	var all sync.WaitGroup
	for addr := range greeted {
		all.Add(1)
		if !c.run(func() { defer all.Done(); c.withdrawFrom(ctx, addr) }) {
			all.Done() // closed
		}
	}
	all.Wait()
}

// withdrawFrom tells one replica, which closes the connection when it has heard it.
func (c *carrier) withdrawFrom(ctx context.Context, addr string) {
	conn, err := c.endpoint.Dial(ctx, addr, transport.KindRaft)
	if err != nil {
		return
	}
	defer conn.Close()
	end, _ := ctx.Deadline()
	if conn.SetDeadline(end) != nil {
		return
	}
	hello := c.greeting()
	frames := make([]byte, frameHeader+hello.Size(), 2*frameHeader+hello.Size()+withdrawalBytes)
	if _, err := hello.MarshalTo(frames[frameHeader:]); err != nil {
		return
	}
	putHeader(frames, frameGreeting)
	withdrawal := make([]byte, frameHeader+withdrawalBytes)
	putHeader(withdrawal, frameWithdrawal)
	if _, err := conn.Write(append(frames, withdrawal...)); err == nil {
		_, _ = io.Copy(io.Discard, conn)
	}
}

// withdraw makes the process count again that did before the sender was admitted. A greeting of its
// process that was under way still, on another connection, changes nothing any more.
func (r *knownReplicas) withdraw(in *inbound) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.nodes[in.node]
	if in.gone || s.bound {
		return
	}
	s.withdrawn = in.incarnation
	s.admitted = s.before
	s.disconnect()
}
