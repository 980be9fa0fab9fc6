package wire

import (
	"context"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/lni/dragonboat/v4/raftpb"

	"github.com/holdfast-go/holdfast/transport"
)

// A copy of the directory of a running node meets several replicas. A replica that knows of an
// entry that the copy lacks refuses it. Another one, without later promises of the node, admits it,
// and takes the running process for superseded from then on: that one would stop at the next
// election. So a process that stops because it was refused withdraws, if it has promised nothing to
// any replica: the others go on as if it had never been.
//
// It withdraws on new connections, since the engine may have closed the old ones. If a withdrawal
// is lost, the running node stops when it meets the replica that has admitted the copy, and serves
// again after a restart, two at most: each start counts.

const (
	withdrawalBytes = 1
	withdrawTime    = 500 * time.Millisecond // for all replicas
)

// vouch notes, before messages are sent, whether they promise something.
func (c *Carrier) vouch(messages []raftpb.Message) {
	if c.promised.Load() {
		return
	}
	if slices.ContainsFunc(messages, func(m raftpb.Message) bool { _, ok := promises(&m, m.To); return ok }) {
		c.promised.Store(true)
	}
}

// greets notes, before a greeting is sent, that the replica at an address may admit this process.
func (c *Carrier) greets(addr string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.promised.Load() || len(c.greeted) >= heardMax {
		return
	}
	c.greeted[addr] = struct{}{}
}

// Withdraw tells all replicas that this process has greeted that it has promised nothing, if that
// is so, and returns when they have heard it. It is called after Mute, so no promise follows.
func (c *Carrier) Withdraw() {
	if c.promised.Load() {
		return
	}
	c.mu.Lock()
	greeted := c.greeted
	c.greeted = make(map[string]struct{}) // withdrawn from once
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), withdrawTime)
	defer cancel()
	var all sync.WaitGroup
	for addr := range greeted {
		all.Add(1)
		if !c.Run(func() { defer all.Done(); c.withdrawFrom(ctx, addr) }) {
			all.Done() // closed
		}
	}
	all.Wait()
}

// withdrawFrom withdraws from one replica, which closes the connection then.
func (c *Carrier) withdrawFrom(ctx context.Context, addr string) {
	conn, err := c.cfg.Endpoint.Dial(ctx, addr, transport.KindRaft)
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

// withdraw restores the process that counted before the sender was admitted. A late greeting of the
// sender's process on another connection is refused.
func (r *Registry) withdraw(in *inbound) {
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
