package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/transport"
)

const probesMax = 32 // answered at a time

var errOther = errors.New("holdfast: another process answers there")

// probe asks which process is at an address, and returns nil if it is that process of the node or a
// later one. A node that took the address over answers with its own id. probe ends with ctx, and
// after dialTime at the latest, whatever the other side does.
func (n *Node) probe(ctx context.Context, addr, node string, incarnation uint64) error {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	conn, err := n.endpoint.Dial(ctx, addr, transport.KindProbe)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	var answer [fsm.ProcessBytes]byte // then the connection ends
	if _, err := io.ReadFull(conn, answer[:]); err != nil {
		return fmt.Errorf("holdfast: probing %s: %w", addr, err)
	}
	if there, _, _ := fsm.CutProcess(answer[:]); there.Node.String() != node || there.Incarnation < incarnation {
		return fmt.Errorf("%w: %s", errOther, there.Node)
	}
	return nil
}

// answerProbes answers every probe with the identity of this process until the node stops. It reads
// nothing.
func (n *Node) answerProbes() {
	listener := n.endpoint.Listener(transport.KindProbe)
	answer := n.self.Process().AppendTo(nil)
	n.Go(func(ctx context.Context) {
		defer context.AfterFunc(ctx, func() { _ = listener.Close() })()
		places := make(chan struct{}, probesMax)
		var all sync.WaitGroup
		defer all.Wait() // the end of the endpoint ends them
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // only its end is one
			}
			places <- struct{}{}
			all.Go(func() {
				defer func() { <-places }()
				_ = conn.SetDeadline(time.Now().Add(dialTime))
				_, _ = conn.Write(answer)
				_ = conn.Close()
			})
		}
	})
}
