package membership

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/memberlist"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/holdfast-go/holdfast/internal/member"
)

// MessageMax bounds a message in bytes.
const MessageMax = 64 << 10

const (
	sendsMax = 64  // concurrent Sends
	inboxMax = 256 // messages that wait for OnMessage; further ones are dropped
)

// Errors of Send.
var (
	ErrUnknownNode = errors.New("holdfast: gossip knows no address of the node")
	ErrTooLarge    = errors.New("holdfast: gossip message is too large")
	ErrBusy        = errors.New("holdfast: too many gossip messages are being sent")
	ErrClosed      = errors.New("holdfast: gossip is closed")
)

var errEnvelope = errors.New("holdfast: gossip message is malformed")

// envelope names the receiver too: an address may have passed to another node. It has a message for
// OnMessage, or the sender's meta.
type envelope struct {
	from, to   string
	body, meta []byte
}

func (e envelope) encode() []byte {
	b := protowire.AppendTag(nil, 1, protowire.BytesType)
	b = protowire.AppendString(b, e.from)
	b = protowire.AppendTag(b, 2, protowire.BytesType)
	b = protowire.AppendString(b, e.to)
	if e.meta != nil {
		b = protowire.AppendTag(b, 4, protowire.BytesType)
		return protowire.AppendBytes(b, e.meta)
	}
	b = protowire.AppendTag(b, 3, protowire.BytesType)
	return protowire.AppendBytes(b, e.body)
}

// decodeEnvelope copies the body: memberlist reuses its buffers.
func decodeEnvelope(b []byte) (envelope, error) {
	var e envelope
	if len(b) > MessageMax+4*NodeMax {
		return e, errEnvelope
	}
	ok := member.Fields(b, func(field protowire.Number, v []byte) {
		switch field {
		case 1:
			e.from = string(v)
		case 2:
			e.to = string(v)
		case 3:
			e.body = append([]byte{}, v...)
		case 4:
			e.meta = append([]byte{}, v...)
		}
	}, func(protowire.Number, uint64) {})
	if !ok || e.from == "" || len(e.from) > NodeMax || !member.Printable(e.from) || len(e.to) > NodeMax || len(e.body) > MessageMax {
		return envelope{}, errEnvelope
	}
	return e, nil
}

// Send sends b to a node's OnMessage over a stream of its own. nil means that the network accepted
// it; a node with a full inbox drops it. It takes at most 13 s. If ctx ends first, Send returns
// ctx.Err() and the message may or may not arrive.
func (g *Gossip) Send(ctx context.Context, node string, b []byte) error {
	if len(b) > MessageMax {
		return ErrTooLarge
	}
	if node == g.self.Node {
		g.receive(envelope{from: node, to: node, body: append([]byte{}, b...)})
		return nil
	}
	return g.send(ctx, envelope{from: g.self.Node, to: node, body: b})
}

// Announce sends this node's Meta to one node over a stream. Gossip brings it to all, each of its
// rounds later. The bounds and the errors are those of Send.
func (g *Gossip) Announce(ctx context.Context, node string) error {
	return g.send(ctx, envelope{from: g.self.Node, to: node, meta: g.delegate.getMeta().encode()})
}

// Exchange tells one node over a stream all that this one knows, and learns all that it knows. While
// hundreds of nodes start, news of one may reach another only after many seconds. The bounds and the
// errors are those of Send.
func (g *Gossip) Exchange(ctx context.Context, node string) error {
	m, ok := g.table.get(node)
	if !ok {
		return fmt.Errorf("%w: %s", ErrUnknownNode, node)
	}
	return g.awaitTurn(ctx, func() error {
		if _, err := g.list.Join([]string{m.Addr}); err != nil {
			return fmt.Errorf("holdfast: exchange of gossip with %s at %s: %w", node, m.Addr, err)
		}
		return nil
	})
}

// awaitTurn is await for a call that uses a stream.
func (g *Gossip) awaitTurn(ctx context.Context, call func() error) error {
	return g.await(ctx, func() error {
		select {
		case g.sends <- struct{}{}:
			defer func() { <-g.sends }()
		default:
			return ErrBusy
		}
		return call()
	})
}

func (g *Gossip) send(ctx context.Context, e envelope) error {
	m, ok := g.table.get(e.to)
	if !ok {
		return fmt.Errorf("%w: %s", ErrUnknownNode, e.to)
	}
	ip, port, err := splitAddr(m.Addr)
	if err != nil {
		return err
	}
	// Memberlist may have forgotten the node.
	target := &memberlist.Node{Name: m.listName(), Addr: ip, Port: uint16(port)}
	message := e.encode()
	return g.awaitTurn(ctx, func() error {
		if err := g.list.SendReliable(target, message); err != nil {
			return fmt.Errorf("holdfast: gossip message to %s at %s: %w", e.to, m.Addr, err)
		}
		return nil
	})
}

// await runs call, which has its own bound, and returns early with ctx. Close waits for the call.
func (g *Gossip) await(ctx context.Context, call func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	done := make(chan error, 1)
	if !g.start(func() { done <- call() }) {
		return ErrClosed
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-g.ctx.Done():
		return ErrClosed
	}
}

// receive puts a message into the inbox or drops it. It runs on memberlist's goroutine.
func (g *Gossip) receive(e envelope) {
	select {
	case g.inbox <- e:
	default:
		g.log.drop("inbox full, message dropped", "from", e.from)
	}
}
