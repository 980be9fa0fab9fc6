package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/transport"
)

const (
	probesMax    = 32 // answered at a time
	unreachedMax = 16 // nodes in an answer
)

var errOther = errors.New("holdfast: another process answers there")

// probe asks which process is at an address, and returns nil if it is that process of the node or a
// later one. A node that took the address over answers with its own id. probe ends with ctx, and
// after dialTime at the latest, whatever the other side does.
func (n *Node) probe(ctx context.Context, addr, node string, incarnation uint64) error {
	_, err := n.ask(ctx, addr, node, incarnation)
	return err
}

// ask is probe, and returns the nodes that the other one does not reach where they say they are.
func (n *Node) ask(ctx context.Context, addr, node string, incarnation uint64) (unreached []fsm.Node, err error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	conn, err := n.endpoint.Dial(ctx, addr, transport.KindProbe)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	var answer [fsm.ProcessBytes]byte // then nodes that are not reached, and the connection ends
	if _, err := io.ReadFull(conn, answer[:]); err != nil {
		return nil, fmt.Errorf("holdfast: probing %s: %w", addr, err)
	}
	if there, _, _ := fsm.CutProcess(answer[:]); there.Node.String() != node || there.Incarnation < incarnation {
		return nil, fmt.Errorf("%w: %s", errOther, there.Node)
	}
	for range unreachedMax {
		var other fsm.Node
		if _, err := io.ReadFull(conn, other[:]); err != nil {
			break // the end, or nothing that matters
		}
		unreached = append(unreached, other)
	}
	return unreached, nil
}

// together calls f with each element at once, and returns the results in the order of the elements.
func together[T, R any](list []T, f func(T) R) []R {
	results := make([]R, len(list))
	var all sync.WaitGroup
	for i, one := range list {
		all.Go(func() { results[i] = f(one) })
	}
	all.Wait()
	return results
}

// answerProbes answers every probe with the identity of this process, and with the nodes that it
// does not reach, until the node stops. It reads nothing.
func (n *Node) answerProbes() {
	places := make(chan struct{}, probesMax)
	n.endpoint.Handle(transport.KindProbe, func(conn net.Conn) {
		defer conn.Close()
		n.Do(func(ctx context.Context) {
			select {
			case places <- struct{}{}:
			case <-ctx.Done():
				return
			}
			defer func() { <-places }()
			answer := n.self.Process().AppendTo(nil)
			for _, other := range n.reach.unreached() {
				answer = append(answer, other[:]...)
			}
			_ = conn.SetDeadline(time.Now().Add(dialTime))
			_, _ = conn.Write(answer) // the end of the endpoint ends it
		})
	})
}
