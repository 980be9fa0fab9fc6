package client

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/link"
	"github.com/holdfast-go/holdfast/internal/membership"
	"github.com/holdfast-go/holdfast/internal/seam"
)

// What a replica knows, or does, for its client beside the calls of the seam to the group.

const (
	fleetAge = time.Second     // after it, what this node knows of its fleet is asked for anew
	lookTime = 2 * time.Second // for the answer
)

// Status implements seam.Node. Of the fleet it has what a replica told last. If that is older than a
// second, it also has the replica asked for the next call.
func (n *Node) Status() seam.Status {
	waits := n.Missing()
	st := seam.Status{Admission: n.group.Waiting(), Serves: waits == "" && n.Stopped() == nil, Waits: waits, Knows: fsm.LevelKnown}
	if id := n.group.id(); id != [16]byte{} {
		st.ClusterID = fsm.Node(id).String()
	}
	c, _ := n.group.now()
	n.mu.Lock()
	st.Fleet = n.fleet
	asks := c != nil && time.Since(n.looked) > fleetAge
	if asks {
		n.looked = time.Now()
	}
	n.mu.Unlock()
	if asks {
		n.Go(func(ctx context.Context) { n.look(ctx, c) })
	}
	switch {
	case n.Stopped() != nil:
		st.Fleet = seam.Fleet{}
	case c == nil:
		st.RaftLeader, st.Plan, st.Rise = "", "", ""
	}
	own := seam.Member{Node: n.identity.process.Node.String(), Name: n.cfg.Name, Level: fsm.LevelKnown, State: membership.Alive, Local: true}
	st.Members = append(slices.Clip(st.Members), own)
	return st
}

// look asks the replica what it knows of the fleet. Without an answer it stays what it was: a replica
// that does not answer is found out by the pings. The answer may name a nearer replica.
func (n *Node) look(ctx context.Context, c *conn) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	r, _, err := c.call(ctx, link.KindFleet, link.Call{})
	if err != nil || r.Code != link.ReplyOK {
		return
	}
	fleet, err := seam.ParseFleet(r.Payload)
	if err != nil {
		c.end(err)
		return
	}
	n.mu.Lock()
	n.fleet, n.looked = fleet, time.Now()
	n.mu.Unlock()
	if n.cfg.Zone != "" && n.moves(c.addr, time.Now()) {
		c.end(errNearer)
	}
}

// RemoveNode implements seam.Node.
func (n *Node) RemoveNode(ctx context.Context, target fsm.Node, reason string) error {
	return n.order(ctx, link.KindRemove, target, reason)
}

// TransferRaftLeader implements seam.Node.
func (n *Node) TransferRaftLeader(ctx context.Context, target fsm.Node, reason string) error {
	return n.order(ctx, link.KindTransfer, target, reason)
}

// order has the replica give an order. If that one is gone, another does.
func (n *Node) order(ctx context.Context, kind link.Kind, target fsm.Node, reason string) error {
	order := link.Call{Payload: link.Order{Node: target, Reason: reason}.Append(nil)}
	unknown := false
	for attempt := 1; ; attempt++ {
		c, changed := n.group.now()
		err := error(seam.ErrNoGroup)
		if c != nil {
			var r link.Reply
			var sent bool
			r, sent, err = c.call(ctx, kind, order)
			switch {
			case err != nil && !sent:
				err = errGone
			case err != nil:
				unknown = true
			case r.Code == link.ReplyOK:
				return nil
			case r.Code == link.ReplyKept:
				return &seam.KeptError{Node: target.String(), Reason: fsm.Reason(r.Value)}
			default:
				unknown, err = unknown || r.Unknown, replyError(r)
			}
		}
		if err := n.group.again(ctx, seam.Committed, err, attempt, changed); err != nil {
			if unknown {
				err = &seam.UnknownError{Cause: err}
			}
			return err
		}
	}
}

// Backup implements seam.Node: the replica writes it. If that one goes away in between, the backup
// ends with an error: another one would begin with another state.
func (n *Node) Backup(ctx context.Context, w io.Writer) error {
	for attempt := 1; ; attempt++ {
		c, changed := n.group.now()
		err, begun := error(seam.ErrNoGroup), false
		if c != nil {
			begun, err = c.stream(ctx, link.KindBackup, link.Call{}, func(piece []byte) (more bool, err error) {
				_, err = w.Write(piece)
				return err == nil, err
			})
		}
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil && begun:
			return ctx.Err()
		case begun:
			return fmt.Errorf("holdfast: the backup was cut short: %w", err)
		}
		if err := n.group.again(ctx, seam.Committed, err, attempt, changed); err != nil {
			return err
		}
	}
}
