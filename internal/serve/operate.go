package serve

import (
	"bufio"
	"context"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/link"
)

// operate is what a call of an operator does: what this replica's node would do for a call of its own.
func (c *client) operate(kind link.Kind, m link.Call) (func(context.Context, uint64, *call) link.Reply, error) {
	node := c.s.cfg.Node
	switch kind {
	case link.KindFleet:
		return func(context.Context, uint64, *call) link.Reply {
			payload, err := node.Status().Fleet.Append(nil)
			if err != nil {
				return failed(err, false)
			}
			return link.Reply{Payload: payload}
		}, nil
	case link.KindBackup:
		return func(ctx context.Context, number uint64, of *call) link.Reply {
			w := bufio.NewWriterSize(&pieces{c, ctx, number, of}, pieceBytes)
			err := node.Backup(ctx, w)
			if err == nil {
				err = w.Flush()
			}
			return failed(err, false)
		}, nil
	}
	order, err := link.ParseOrder(m.Payload)
	switch {
	case err != nil:
		return nil, err
	case len(order.Reason) > fsm.LabelBytesMax:
		return nil, fault("a reason of %d bytes", len(order.Reason))
	}
	do := node.RemoveNode
	if kind == link.KindTransfer {
		do = node.TransferRaftLeader
	}
	return func(ctx context.Context, _ uint64, _ *call) link.Reply {
		return failed(do(ctx, order.Node, order.Reason), false)
	}, nil
}

// pieceBytes bounds a piece of a backup: of those the client has one at a time.
const pieceBytes = 256 << 10

// pieces writes a backup to a client, which takes one piece after the other.
type pieces struct {
	c      *client
	ctx    context.Context
	number uint64
	of     *call
}

func (p *pieces) Write(b []byte) (n int, err error) {
	for n < len(b) {
		piece := b[n:min(n+pieceBytes, len(b))]
		if !p.c.piece(p.ctx, piece, p.number, p.of) {
			return n, p.ctx.Err()
		}
		n += len(piece)
	}
	return n, nil
}
