package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/link"
	"github.com/holdfast-go/holdfast/internal/retry"
	"github.com/holdfast-go/holdfast/transport"
)

const dialTime = 2 * time.Second // of one address

// roam keeps the node on a replica: on another when one is gone.
func (n *Node) roam(ctx context.Context) {
	for attempt := 1; ctx.Err() == nil; attempt++ {
		for _, addr := range n.addresses() {
			served, err := n.hang(ctx, addr)
			if ctx.Err() != nil {
				return
			}
			n.note(addr, err)
			if served {
				attempt = 0
				break // its peers come first now
			}
		}
		if attempt == 0 {
			continue
		}
		select {
		case <-time.After(retry.Pause(attempt, rand.Float64())):
		case <-ctx.Done():
		}
	}
}

// addresses are those to try: of replicas that were named last, then Config.Join.
func (n *Node) addresses() []string {
	n.mu.Lock()
	peers := slices.Clone(n.peers)
	n.mu.Unlock()
	rand.Shuffle(len(peers), func(i, j int) { peers[i], peers[j] = peers[j], peers[i] })
	for _, addr := range n.cfg.Join {
		if !slices.Contains(peers, addr) {
			peers = append(peers, addr)
		}
	}
	return peers
}

// hang connects to the replica at an address, and returns when that is over. served says whether the
// replica has taken this node in.
func (n *Node) hang(ctx context.Context, addr string) (served bool, err error) {
	dialing, cancel := context.WithTimeout(ctx, dialTime)
	raw, err := n.endpoint.Dial(dialing, addr, transport.KindClient)
	cancel()
	if err != nil {
		return false, err
	}
	group := n.group.id()
	c, welcome, err := open(ctx, raw, addr, n.identity, group, n.group.news.cut())
	if err != nil {
		return false, err
	}
	if group != [16]byte{} && welcome.Group != group {
		_ = raw.Close()
		return false, fmt.Errorf("%w: a welcome to another group", link.ErrMalformed)
	}
	n.meet(welcome.Peers)
	if err := n.group.begin(c, welcome.Group, welcome.At); err != nil {
		c.end(err)
	}
	err = c.run(ctx, func(f link.Frame) error { return n.take(c, f) })
	n.group.show(nil, welcome.Group)
	return true, err
}

// take takes a frame of the replica that answers no call.
func (n *Node) take(c *conn, f link.Frame) error {
	switch f.Kind {
	case link.KindPong:
		pong, err := link.ParsePong(f.Body)
		if err != nil {
			return err
		}
		n.meet(pong.Peers)
		return n.group.news.push(item{from: c, at: pong.At}, 0)
	case link.KindRefuse:
		refusal, err := link.ParseRefuse(f.Body)
		return errors.Join(err, refusal)
	}
	return n.group.news.take(c, f)
}

// meet remembers the addresses of replicas.
func (n *Node) meet(peers []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(peers) > 0 {
		n.peers = peers
	}
}

// note notes why a replica does not serve this node, or serves it no more.
func (n *Node) note(addr string, err error) {
	n.mu.Lock()
	n.waits = fmt.Sprintf("no replica serves this client: the last one tried was %s: %v", addr, err)
	n.mu.Unlock()
	var refusal link.Refuse
	if errors.As(err, &refusal) && refusal.Code != link.RefuseLater {
		n.log.Warn("a replica has refused this client", "at", addr, "error", err)
		return
	}
	n.log.Debug("not connected to this replica any more", "at", addr, "error", err)
}
