package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/link"
	"github.com/holdfast-go/holdfast/internal/membership"
	"github.com/holdfast-go/holdfast/internal/retry"
	"github.com/holdfast-go/holdfast/transport"
)

const (
	dialTime   = 2 * time.Second        // of one address
	nextTime   = 250 * time.Millisecond // without an answer: then the next address is tried beside it
	triesMax   = 8                      // addresses at once
	forsakeMin = 30 * time.Second       // without a replica, while there are some of another group
)

// roam keeps the node on a replica: on another when one is gone.
func (n *Node) roam(ctx context.Context) {
	served := time.Now()
	for attempt := 1; ctx.Err() == nil; attempt++ {
		m, err := n.meetOne(ctx)
		if err == nil {
			attempt = 0
			n.lost = m.conn.addr
			err = n.hang(ctx, m)
			served = time.Now()
		}
		if ctx.Err() != nil {
			return
		}
		n.note(err)
		if attempt == 0 {
			continue
		}
		if refusal, ok := errors.AsType[link.Refuse](err); ok && refusal.Code == link.RefuseOther && time.Since(served) > forsakeMin {
			n.forsake()
		}
		select {
		case <-time.After(retry.Pause(attempt, rand.Float64())):
		case <-ctx.Done():
		}
	}
}

// forsake gives the group up: the fleet has another one, of a backup or because the former yielded.
func (n *Node) forsake() {
	if n.group.forsake() {
		n.log.Warn("the replicas that this client reaches are of another group: its leases end, and it goes on with that group")
		n.cfg.Listener.GroupYielded()
	}
}

// met is a replica that has taken this node in, or the error.
type met struct {
	conn    *conn
	welcome link.Welcome
	err     error
}

// meetOne tries the addresses, and returns the first replica that takes this node in. An address that
// is slow to answer, as that of a dead machine, holds up the next one for nextTime.
func (n *Node) meetOne(ctx context.Context) (first met, err error) {
	trying, cancel := context.WithCancel(ctx)
	answers := make(chan met)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	told, group, under := n.group.news.cut(), n.group.id(), 0
	answer := func(m met) (taken bool) {
		if under--; m.err != nil && (err == nil || errors.As(m.err, new(link.Refuse))) {
			err = m.err
		}
		first = m
		return m.err == nil
	}
	for addr, failed := range n.addresses(trying) {
		if failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		under++
		all.Go(func() {
			m := n.try(trying, addr, group, told)
			select {
			case answers <- m:
			case <-trying.Done():
				if m.err == nil {
					_ = m.conn.raw.Close()
				}
			}
		})
		next := time.After(nextTime)
		for waiting := true; waiting; {
			select {
			case m := <-answers:
				if answer(m) {
					return first, nil
				}
				waiting = under >= triesMax
			case <-next:
				waiting = under >= triesMax
			case <-ctx.Done():
				return first, ctx.Err()
			}
		}
	}
	for under > 0 {
		select {
		case m := <-answers:
			if answer(m) {
				return first, nil
			}
		case <-ctx.Done():
			return first, ctx.Err()
		}
	}
	if err == nil {
		err = errors.New("holdfast: no entry of Join leads to an address")
	}
	return first, err
}

// addresses yields those to try: of replicas that were named last, then those that Config.Join leads
// to, and why an entry of that leads to none. The one that was lost last comes last.
func (n *Node) addresses(ctx context.Context) func(yield func(string, error) bool) {
	n.mu.Lock()
	peers := slices.Clone(n.peers)
	n.mu.Unlock()
	return func(yield func(string, error) bool) {
		tried := map[string]bool{n.lost: true}
		shuffled := func(addrs []string) bool {
			rand.Shuffle(len(addrs), func(i, j int) { addrs[i], addrs[j] = addrs[j], addrs[i] })
			n.nearest(addrs)
			for _, addr := range addrs {
				if !tried[addr] && !yield(addr, nil) {
					return false
				}
				tried[addr] = true
			}
			return true
		}
		if !shuffled(peers) {
			return
		}
		found, err := membership.Resolve(ctx, n.cfg.Resolver, n.cfg.Join)
		if !shuffled(found) || err != nil && !yield("", err) {
			return
		}
		if slices.Contains(peers, n.lost) || slices.Contains(found, n.lost) {
			yield(n.lost, nil)
		}
	}
}

// try connects to the replica at an address.
func (n *Node) try(ctx context.Context, addr string, group [16]byte, told uint64) (m met) {
	dialing, cancel := context.WithTimeout(ctx, dialTime)
	raw, err := n.endpoint.Dial(dialing, addr, transport.KindClient)
	cancel()
	if err == nil {
		m.conn, m.welcome, err = open(ctx, raw, addr, n.identity, group, told)
	}
	if err == nil && group != [16]byte{} && m.welcome.Group != group {
		_ = raw.Close()
		err = fmt.Errorf("%w: a welcome to another group", link.ErrMalformed)
	}
	if err != nil {
		m.err = fmt.Errorf("%s: %w", addr, err)
		if refusal, ok := errors.AsType[link.Refuse](err); ok && refusal.Code != link.RefuseLater {
			n.log.Warn("a replica has refused this client", "at", addr, "error", err)
		}
	}
	return m
}

// hang stays on a replica, and returns why that is over.
func (n *Node) hang(ctx context.Context, m met) error {
	n.meet(m.welcome.Peers)
	if err := n.group.begin(m.conn, m.welcome); err != nil {
		m.conn.end(err)
	}
	if n.cfg.Zone != "" {
		n.Go(func(ctx context.Context) { n.look(ctx, m.conn) })
	}
	err := m.conn.run(ctx, n.cfg.Listener.Empty, func(f link.Frame) error { return n.take(m.conn, f) })
	n.group.show(nil, m.welcome)
	return fmt.Errorf("%s: %w", m.conn.addr, err)
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

// note notes why no replica serves this node.
func (n *Node) note(err error) {
	n.mu.Lock()
	n.waits = fmt.Sprintf("no replica serves this client: %v", err)
	n.mu.Unlock()
	n.log.Debug("no replica serves this client", "error", err)
}
