package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/simenv"
	"github.com/holdfast-go/holdfast/transport"
)

// measureTraffic measures what nodes send: bytes of connections and packets before TLS and without
// the headers of TCP, UDP and IP.
func measureTraffic(ctx context.Context, s settings, r *report) error {
	for _, size := range []int{3, 5} {
		if err := traffic(ctx, s, r, size); err != nil {
			return err
		}
	}
	return nil
}

// traffic measures a fleet of some nodes in this process.
func traffic(ctx context.Context, s settings, r *report, size int) error {
	peers := filepath.Join(s.data, fmt.Sprint("peers-", size))
	var nodes []*holdfast.Cluster
	var meters []*meter
	for range size {
		m := new(meter)
		c, err := holdfast.Open(simenv.With(ctx, simenv.Env{Network: m}), holdfast.Config{
			Cluster: "traffic", Join: []string{"file+" + peers}, Bootstrap: size, Logger: quiet(),
		})
		if err != nil {
			return err
		}
		defer c.Close()
		nodes, meters = append(nodes, c), append(meters, m)
		f, err := os.OpenFile(peers, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(f, c.Addr())
		if f.Close(); err != nil {
			return err
		}
	}
	for _, c := range nodes {
		if err := c.Ready(ctx); err != nil {
			return err
		}
	}
	leads := func(i int) bool { return nodes[i].Status().RaftLeader == nodes[i].ID() }
	of := func(i int) string {
		if leads(i) {
			return "raft leader"
		}
		return "another"
	}
	sent := func() (list []int64) {
		for _, m := range meters {
			list = append(list, m.sent.Load())
		}
		return list
	}

	before := sent()
	select {
	case <-time.After(s.idle):
	case <-ctx.Done():
		return ctx.Err()
	}
	after := sent()
	for i := range nodes {
		r.add("traffic", fmt.Sprintf("%d nodes idle, bytes sent a second, %s", size, of(i)), kindHoldfast, unitBytes,
			float64(after[i]-before[i])/s.idle.Seconds())
	}
	return pairs(ctx, r, size, nodes, sent, leads)
}

// pairs measures what a pair of Acquire and Release makes all nodes send.
func pairs(ctx context.Context, r *report, size int, nodes []*holdfast.Cluster, sent func() []int64, leads func(int) bool) error {
	const count = 2000
	for i, c := range nodes {
		if !leads(i) {
			continue
		}
		before := sent()
		for range count {
			l, err := c.Acquire(ctx, "orders/4711")
			if err != nil {
				return err
			}
			if err := l.Release(ctx); err != nil {
				return err
			}
		}
		all := int64(0)
		for j, n := range sent() {
			all += n - before[j]
		}
		r.add("traffic", fmt.Sprintf("%d nodes, bytes sent by all for a pair", size), kindHoldfast, unitBytes, float64(all)/count)
	}
	return nil
}

// meter is a network that counts what an endpoint sends.
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

func (e metered) Listener(kind transport.Kind) net.Listener {
	return accepting{e.Endpoint.Listener(kind), e.m}
}

func (e metered) WritePacket(b []byte, addr string) error {
	e.m.sent.Add(int64(len(b)))
	return e.Endpoint.WritePacket(b, addr)
}

type accepting struct {
	net.Listener
	m *meter
}

func (l accepting) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return counted{c, l.m}, nil
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
