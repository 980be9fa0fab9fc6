package node

import (
	"bytes"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/simenv"
	"github.com/holdfast-go/holdfast/transport"
)

// probed runs f in a bubble with a node and its network.
func probed(t *testing.T, f func(t *testing.T, network *transport.Memory, n *Node)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := transport.NewMemory(1)
		f(t, network, opened(t, &heard{}, Config{Bind: "10.0.0.1:7643", Env: simenv.Env{Network: network}}))
		time.Sleep(time.Minute) // memberlist's goroutines end
	})
}

// beside opens another node.
func beside(t *testing.T, network *transport.Memory, bind string) *Node {
	t.Helper()
	return opened(t, &heard{}, Config{Bind: bind, Env: simenv.Env{Network: network}})
}

func TestAProbeTellsWhoIsThere(t *testing.T) {
	probed(t, func(t *testing.T, network *transport.Memory, a *Node) {
		const addr = "10.0.0.2:7643"
		b := beside(t, network, addr)
		old, life := b.ID(), b.self.Incarnation
		if err := a.probe(t.Context(), addr, old, life); err != nil {
			t.Errorf("the node itself: %v", err)
		}
		if err := a.probe(t.Context(), addr, old, life+1); !errors.Is(err, errOther) {
			t.Errorf("an earlier process of it: %v", err)
		}
		b.Close()
		if err := a.probe(t.Context(), addr, old, life); err == nil {
			t.Error("nobody answered for a node that has ended")
		}
		beside(t, network, addr)
		if err := a.probe(t.Context(), addr, old, life); !errors.Is(err, errOther) {
			t.Errorf("another node at its address: %v", err)
		}
	})
}

// A peer that takes the connection and then hangs, or says anything, costs a second.
func TestAProbeOfWhoSaysNothingOrAnythingEndsInTime(t *testing.T) {
	for name, say := range map[string]func(net.Conn){
		"nothing":    func(net.Conn) {},
		"too little": func(conn net.Conn) { _, _ = conn.Write([]byte("abc")); _ = conn.Close() },
		"a part":     func(conn net.Conn) { _, _ = conn.Write([]byte("abc")) },
		"garbage":    func(conn net.Conn) { _, _ = conn.Write(bytes.Repeat([]byte{0xff}, fsm.ProcessBytes)) },
		"without end": func(conn net.Conn) {
			for _, err := conn.Write(make([]byte, 1<<16)); err == nil; _, err = conn.Write(make([]byte, 1<<16)) {
			}
		},
		"its end only": func(conn net.Conn) { _ = conn.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			probed(t, func(t *testing.T, network *transport.Memory, c *Node) {
				security, _, err := transport.Security(c.cfg.Cluster, c.cfg.Secrets, c.cfg.TLS)
				if err != nil {
					t.Fatal(err)
				}
				peer, err := network.Listen(t.Context(), "10.0.0.2:7643", transport.Options{TLS: security})
				if err != nil {
					t.Fatal(err)
				}
				peer.Handle(transport.KindProbe, say)
				begin := time.Now()
				if err := c.probe(t.Context(), peer.Addr(), c.ID(), 0); err == nil {
					t.Error("taken for the node")
				}
				if took := time.Since(begin); took > dialTime {
					t.Errorf("it took %v", took)
				}
				_ = peer.Close()
			})
		})
	}
}

func TestThoseWhoAskAndDoNotListenKeepNobodyElseFromAnAnswer(t *testing.T) {
	probed(t, func(t *testing.T, network *transport.Memory, a *Node) {
		b := beside(t, network, "10.0.0.2:7643")
		for range 4 * probesMax {
			conn, err := b.endpoint.Dial(t.Context(), a.Addr(), transport.KindProbe)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
		}
		if err := b.probe(t.Context(), a.Addr(), a.ID(), a.self.Incarnation); err != nil {
			t.Error(err)
		}
	})
}
