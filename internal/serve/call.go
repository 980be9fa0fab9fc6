package serve

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/consensus/report"
	"github.com/holdfast-go/holdfast/internal/link"
	"github.com/holdfast-go/holdfast/internal/seam"
)

// work is what a call does, and the fault of a client that asks for what it may not (V1).
func (c *client) work(kind link.Kind, m link.Call) (func(context.Context, uint64, *call) link.Reply, error) {
	switch kind {
	case link.KindReady:
		return func(ctx context.Context, _ uint64, _ *call) link.Reply {
			ready := c.s.cfg.Node.Ready
			if m.Mode == link.ReadyComplete {
				ready = c.s.cfg.Complete
			}
			err := ready(ctx)
			_ = c.pong() // a client that is ready knows where the other replicas are
			return failed(err, false)
		}, nil
	case link.KindFleet, link.KindRemove, link.KindTransfer, link.KindBackup:
		return c.operate(kind, m)
	case link.KindPropose:
		cmd, err := c.allowed(m)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, _ uint64, _ *call) link.Reply {
			return c.propose(ctx, seam.Class(m.Mode), cmd)
		}, nil
	}
	q, err := fsm.DecodeQuestion(m.Payload)
	if err != nil {
		return nil, fault("%v", err)
	}
	view := seam.View(m.Mode)
	if view > seam.Committed {
		return nil, fmt.Errorf("%w: view %d", link.ErrMalformed, view)
	}
	if kind == link.KindAsk {
		return func(ctx context.Context, _ uint64, _ *call) link.Reply {
			answer, err := c.s.cfg.Group.Ask(ctx, view, q)
			if err != nil {
				return failed(err, false)
			}
			return link.Reply{Payload: fsm.EncodeAnswer(answer)}
		}, nil
	}
	list, ok := q.(fsm.QueryLocks)
	if !ok {
		return nil, fault("a list of what is no list: %T", q)
	}
	return func(ctx context.Context, number uint64, of *call) link.Reply {
		return c.list(ctx, view, list, number, of)
	}, nil
}

// allowed returns a command as the replica proposes it.
func (c *client) allowed(m link.Call) ([]byte, error) {
	if m.Mode > uint8(seam.Attempt) {
		return nil, fmt.Errorf("%w: class %d", link.ErrMalformed, m.Mode)
	}
	cmd, err := fsm.Decode(m.Payload)
	switch {
	case err != nil:
		return nil, fault("%v", err)
	case !(fsm.Via{Command: cmd}).Allowed():
		return nil, fault("a client may not say %T", cmd)
	}
	if of := fsm.ProcessOf(cmd); of != c.process && of != (fsm.Process{}) {
		return nil, fault("%T is about another process's sessions, of node %v", cmd, of.Node)
	}
	if act, is := cmd.(fsm.Act); is {
		c.s.cfg.Logger.Warn("an operator's act", "act", act)
	}
	return append(fsm.AppendVia(make([]byte, 0, len(m.Payload)+2)), m.Payload...), nil
}

func (c *client) propose(ctx context.Context, class seam.Class, cmd []byte) link.Reply {
	if err := c.s.cfg.Group.Enter(ctx, class); err != nil {
		return failed(err, false)
	}
	out, unknown, err := c.s.cfg.Group.Propose(ctx, class, cmd)
	if err != nil {
		return failed(err, unknown)
	}
	r := link.Reply{Unknown: unknown}
	r.Value, r.Payload = out.Pack()
	return r
}

// list answers with one page after the other, each when the client wants it. The last reply has no
// page.
func (c *client) list(ctx context.Context, view seam.View, q fsm.QueryLocks, number uint64, of *call) link.Reply {
	for page, err := range c.s.cfg.Group.Pages(ctx, view, q) {
		if err != nil {
			return failed(err, false)
		}
		if !c.piece(ctx, fsm.EncodeAnswer(page), number, of) {
			return link.Reply{Code: link.ReplyEnded}
		}
	}
	return link.Reply{}
}

// piece answers with one of several replies. It reports whether the client wants another.
func (c *client) piece(ctx context.Context, payload []byte, number uint64, of *call) bool {
	if !c.reply(number, link.Reply{Payload: payload}) {
		return false // the client has been told the end
	}
	select {
	case <-of.next:
		return true
	case <-ctx.Done():
		return false
	}
}

// failed is the reply of a call that ended with an error.
func failed(err error, unknown bool) link.Reply {
	r := link.Reply{Unknown: unknown || errors.As(err, new(*seam.UnknownError))}
	var full *seam.OverloadError
	var unreached *seam.UnreachedError
	var kept *seam.KeptError
	switch {
	case err == nil:
	case errors.As(err, &full) && full.Ended == nil:
		r.Code = link.ReplyOverload
	case errors.As(err, &full), errors.As(err, &unreached):
		r.Code = link.ReplyEnded
	case errors.Is(err, seam.ErrNoGroup):
		r.Code = link.ReplyNoGroup
	case errors.Is(err, seam.ErrSuperseded):
		r.Code = link.ReplySuperseded
	case errors.Is(err, seam.ErrClosed), errors.As(err, new(*report.FailedError)): // another replica may do it
		r.Code = link.ReplyGone
	case errors.Is(err, seam.ErrUnknownNode):
		r.Code = link.ReplyUnknownNode
	case errors.Is(err, seam.ErrNotVoter):
		r.Code = link.ReplyNotVoter
	case errors.Is(err, seam.ErrNotTransferred):
		r.Code = link.ReplyNotTransferred
	case errors.As(err, &kept):
		r.Code, r.Value = link.ReplyKept, uint64(kept.Reason)
	default:
		r.Code, r.Text = link.ReplyFailed, err.Error()
	}
	return r
}
