package client

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/link"
	"github.com/holdfast-go/holdfast/internal/member"
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
	st := seam.Status{Admission: n.group.Waiting(), Serves: waits == "" && n.Stopped() == nil, Waits: waits, Knows: n.cfg.Level}
	if id := n.group.id(); id != [16]byte{} {
		st.ClusterID = fsm.Node(id).String()
	}
	st.Fleet = n.Fleet()
	if n.Stopped() != nil {
		st.Fleet = seam.Fleet{}
	}
	own := seam.Member{Node: n.process.Node.String(), Name: n.cfg.Name, Level: n.cfg.Level, State: member.Alive, Local: true}
	st.Members = append(slices.Clip(st.Members), own)
	return st
}

// Fleet is what a replica told last of the fleet, without what only a raft leader knows while the node
// has no replica. If it is older than a second, the replica is asked for the next call.
func (r *Roamer) Fleet() seam.Fleet {
	c, _ := r.group.now()
	r.mu.Lock()
	fleet := r.fleet
	asks := c != nil && time.Since(r.looked) > fleetAge
	if asks {
		r.looked = time.Now()
	}
	r.mu.Unlock()
	if asks {
		r.cfg.Go(func(ctx context.Context) { r.look(ctx, c) })
	}
	if c == nil {
		fleet.RaftLeader, fleet.Plan, fleet.Rise = "", "", ""
	}
	return fleet
}

// look asks the replica what it knows of the fleet. Without an answer it stays what it was: a replica
// that does not answer is found out by the pings. The answer may name a nearer replica.
func (r *Roamer) look(ctx context.Context, c *conn) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	reply, _, err := c.call(ctx, link.KindFleet, link.Call{})
	if err != nil || reply.Code != link.ReplyOK {
		return
	}
	fleet, err := seam.ParseFleet(reply.Payload)
	if err != nil {
		c.end(err)
		return
	}
	r.mu.Lock()
	r.fleet, r.looked = fleet, time.Now()
	r.mu.Unlock()
	if r.cfg.Zone != "" && r.moves(c.addr, time.Now()) {
		c.end(errNearer)
	}
}

// Backup implements seam.Node.
func (n *Node) Backup(ctx context.Context, w io.Writer) error {
	_, err := n.Roamer.Backup(ctx, w)
	return err
}

// RemoveNode has the replica remove a node: see seam.Node.
func (r *Roamer) RemoveNode(ctx context.Context, target fsm.Node, reason string) error {
	return r.order(ctx, link.KindRemove, target, reason)
}

// TransferRaftLeader has the replica transfer the raft leadership: see seam.Node.
func (r *Roamer) TransferRaftLeader(ctx context.Context, target fsm.Node, reason string) error {
	return r.order(ctx, link.KindTransfer, target, reason)
}

// order has the replica give an order. If that one is gone, another does.
func (r *Roamer) order(ctx context.Context, kind link.Kind, target fsm.Node, reason string) error {
	order := link.Call{Payload: link.Order{Node: target, Reason: reason}.Append(nil)}
	unknown := false
	for attempt := 1; ; attempt++ {
		c, changed := r.group.now()
		err := error(seam.ErrNoGroup)
		if c != nil {
			var reply link.Reply
			var sent bool
			reply, sent, err = c.call(ctx, kind, order)
			switch {
			case err != nil && !sent:
				err = errGone
			case err != nil:
				unknown = true
			case reply.Code == link.ReplyOK:
				return nil
			case reply.Code == link.ReplyKept:
				return &seam.KeptError{Node: target.String(), Reason: fsm.Reason(reply.Value)}
			default:
				unknown, err = unknown || reply.Unknown, replyError(reply)
			}
		}
		if err := r.group.again(ctx, seam.Committed, err, attempt, changed); err != nil {
			if unknown {
				err = &seam.UnknownError{Cause: err}
			}
			return err
		}
	}
}

// Backup has the replica write a backup. If that one goes away in between, the backup
// ends with an error: another one would begin with another state. begun says whether w has a part of it.
func (r *Roamer) Backup(ctx context.Context, w io.Writer) (begun bool, err error) {
	if err := r.group.turn(ctx, r.group.streams); err != nil {
		return false, err
	}
	defer func() { <-r.group.streams }()
	for attempt := 1; ; attempt++ {
		c, changed := r.group.now()
		err := error(seam.ErrNoGroup)
		if c != nil {
			begun, err = c.stream(ctx, link.KindBackup, link.Call{}, func(piece []byte) (more bool, err error) {
				_, err = w.Write(piece)
				return err == nil, err
			})
		}
		switch {
		case err == nil:
			return begun, nil
		case ctx.Err() != nil && begun:
			return true, ctx.Err()
		case begun:
			return true, fmt.Errorf("holdfast: the backup was cut short: %w", err)
		}
		if err := r.group.again(ctx, seam.Committed, err, attempt, changed); err != nil {
			return false, err
		}
	}
}
