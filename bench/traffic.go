package main

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/internal/loop"
	"github.com/holdfast-go/holdfast/internal/simenv"
	"github.com/holdfast-go/holdfast/transport"
)

// measureTraffic measures what nodes send: bytes of connections and packets before TLS and without
// the headers of TCP, UDP and IP.
func measureTraffic(ctx context.Context, s settings, out *lines) error {
	for _, size := range []int{3, 5} {
		if err := traffic(ctx, s, out, size); err != nil {
			return err
		}
	}
	return nil
}

// traffic measures a fleet of some nodes in this process: at rest, and while its raft leader's node
// makes pairs.
func traffic(ctx context.Context, s settings, out *lines, size int) error {
	peers := filepath.Join(s.data, fmt.Sprint("peers-", size))
	nodes, meters := make([]*node, size), make([]meter, size)
	for i := range nodes {
		var err error
		nodes[i], err = startHoldfast(simenv.With(ctx, simenv.Env{Network: &meters[i]}), startup{Peers: peers, Voters: size, Index: i})
		if err != nil {
			return err
		}
		defer nodes[i].Close()
	}
	for _, n := range nodes {
		if err := n.Ready(ctx); err != nil {
			return err
		}
	}
	sent := func() (list []int64) {
		for i := range meters {
			list = append(list, meters[i].sent.Load())
		}
		return list
	}
	before := sent()
	if err := loop.Sleep(ctx, s.idle); err != nil {
		return err
	}
	for i, n := range sent() {
		role, _ := nodes[i].role()
		out.add(fmt.Sprintf("TrafficIdle/nodes=%d/from=%s", size, role), 1, figure{float64(n-before[i]) / s.idle.Seconds(), "B/s"})
	}
	leader := slices.IndexFunc(nodes, func(n *node) bool { role, _ := n.role(); return role == roleLeader })
	pair, err := nodes[max(0, leader)].operation(opPair, 0)
	if err != nil {
		return err
	}
	const count = 2000
	before = sent()
	for range count {
		if err := pair(ctx); err != nil {
			return err
		}
	}
	all := int64(0)
	for i, n := range sent() {
		all += n - before[i]
	}
	out.add(fmt.Sprintf("TrafficPair/nodes=%d", size), count, figure{float64(all) / count, "B/op"})
	return nil
}

type meter struct{ sent atomic.Int64 }

// Listen opens a counted endpoint.
func (m *meter) Listen(ctx context.Context, bind string, opts transport.Options) (transport.Endpoint, error) {
	e, err := transport.TCP().Listen(ctx, bind, opts)
	if err != nil {
		return nil, err
	}
	return metered{e, m}, nil
}

type metered struct {
	transport.Endpoint
	m *meter
}

func (e metered) Dial(ctx context.Context, addr string, kind transport.Kind) (net.Conn, error) {
	c, err := e.Endpoint.Dial(ctx, addr, kind)
	if err != nil {
		return nil, err
	}
	return counted{c, e.m}, nil
}

func (e metered) Handle(kind transport.Kind, handle func(net.Conn)) (stop func()) {
	return e.Endpoint.Handle(kind, func(c net.Conn) { handle(counted{c, e.m}) })
}

func (e metered) WritePacket(b []byte, addr string) error {
	e.m.sent.Add(int64(len(b)))
	return e.Endpoint.WritePacket(b, addr)
}

type counted struct {
	net.Conn
	m *meter
}

func (c counted) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.m.sent.Add(int64(n))
	return n, err
}
