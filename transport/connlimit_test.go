package transport

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// says expects c, on which an echo listens, to work.
func says(t *testing.T, c net.Conn) {
	t.Helper()
	c.SetDeadline(time.Now().Add(patience))
	if _, err := c.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
}

func TestSilentConnectionsOfAHostAreBoundedAndTheOneInUseStays(t *testing.T) {
	t.Parallel()
	onEachNetwork(t, func(t *testing.T, network Network, opts Options) {
		a := listen(t, network, opts)
		opts.HostMax = 8
		b := listen(t, network, opts)
		echo(b, KindRaft)
		dial := func() net.Conn {
			c, err := a.Dial(t.Context(), b.Addr(), KindRaft)
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		used := dial()
		says(t, used)
		var idle []net.Conn
		for range 50 {
			c := dial()
			idle = append(idle, c)
			says(t, c) // or it might still be on its way in
			says(t, used)
			if n := openConns(b); n > 8+1 { // one may be on its way out
				t.Fatalf("%d connections are open, want at most 8", n)
			}
		}
		for _, c := range idle[:len(idle)-8] {
			wantRefused(t, c)
		}
		says(t, used)
	})
}

func TestFloodOfOneHostDisplacesNoSilentConnectionOfAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := NewMemory(1)
		honest := listenAt(t, network, "10.0.0.1:0", Options{})
		flood := listenAt(t, network, "10.0.0.66:0", Options{})
		b := listenAt(t, network, "10.0.0.2:0", Options{ConnsMax: 16})
		echo(b, KindRaft)
		silent, err := honest.Dial(t.Context(), b.Addr(), KindRaft)
		if err != nil {
			t.Fatal(err)
		}
		for range 1000 {
			if _, err := flood.Dial(t.Context(), b.Addr(), KindRaft); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if n := openConns(b); n > 16 {
			t.Errorf("%d connections are open, want at most 16", n)
		}
		says(t, silent)
	})
}

func TestConnectionsOfOneKindDisplaceNoneOfAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := NewMemory(1)
		a, b := listen(t, network, Options{}), listen(t, network, Options{HostMax: 2})
		echo(b, KindRaft)
		echo(b, KindGossip)
		raft, err := a.Dial(t.Context(), b.Addr(), KindRaft)
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			if _, err := a.Dial(t.Context(), b.Addr(), KindGossip); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		says(t, raft)
		if n := openConns(b); n > 3 {
			t.Errorf("%d connections are open, want at most 3", n)
		}
	})
}

// Clients behind one address evicted each other for ever, each of them in use: a subnet, or a NAT, has more
// of them than HostMax.
func TestClientsOfOneHostDisplaceNoneOfThem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := NewMemory(1)
		a, b := listen(t, network, Options{}), listen(t, network, Options{HostMax: 2})
		echo(b, KindClient)
		var conns []net.Conn
		for range 10 {
			c, err := a.Dial(t.Context(), b.Addr(), KindClient)
			if err != nil {
				t.Fatal(err)
			}
			says(t, c)
			conns = append(conns, c)
		}
		for _, c := range conns {
			says(t, c)
		}
	})
}

func TestAClosedConnectionMakesRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := NewMemory(1)
		a, b := listen(t, network, Options{}), listen(t, network, Options{HostMax: 2})
		echo(b, KindRaft)
		first, err := a.Dial(t.Context(), b.Addr(), KindRaft)
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			c, err := a.Dial(t.Context(), b.Addr(), KindRaft)
			if err != nil {
				t.Fatal(err)
			}
			says(t, c)
			c.Close()
			synctest.Wait()
		}
		says(t, first)
	})
}
