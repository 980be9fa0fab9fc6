package consensus

import (
	"net"
	"slices"
	"time"

	"github.com/lni/dragonboat/v4/raftpb"
)

// A copy of the directory of a node that lives meets several replicas at once. One that has heard what the copy lacks
// refuses it; another one, to which the node has promised nothing since, admits it, and takes the process that lives
// for superseded from then on: at the next election that would end as well. So a process that stops because it is
// refused takes itself back, if it has promised nothing to anybody: the others go on as if it had never been.
//
// It says so after the last that it sends. Where that does not arrive, the node that lives ends when it meets who has
// admitted the copy, and serves when it has been started again, twice at most: each start counts.

const (
	withdrawalBytes = 1
	withdrawTime    = 500 * time.Millisecond
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

// withdraw tells all that this process has greeted that it has promised nothing, if that is so. It is called after the
// group has failed: who has not noted a promise by then will send none.
func (c *carrier) withdraw() {
	if c.promised.Load() {
		return
	}
	frame := make([]byte, frameHeader+withdrawalBytes)
	putHeader(frame, frameWithdrawal)
	var greeted []net.Conn
	c.mu.Lock()
	for conn, outgoing := range c.conns {
		if outgoing {
			greeted = append(greeted, conn)
		}
	}
	c.mu.Unlock()
	end := time.Now().Add(withdrawTime)
	for _, conn := range greeted {
		if conn.SetWriteDeadline(end) == nil {
			_, _ = conn.Write(frame)
		}
	}
}

// withdraw makes the process count again that did before the guest was admitted.
func (r *roster) withdraw(in *guest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.nodes[in.node]
	if in.gone || s.bound {
		return
	}
	s.admitted = s.before
	s.dismiss()
}
