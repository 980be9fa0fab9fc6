package contract_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
)

// names is a small DNS server on loopback with SRV records of one name.
type names struct {
	conn net.PacketConn
	mu   sync.Mutex
	srv  []netip.AddrPort
}

const srvName = "_holdfast._tcp.example.test"

// Types of DNS records.
const (
	typeA   = 1
	typeSRV = 33
)

func newNames(t testing.TB) *names {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &names{conn: conn}
	var all sync.WaitGroup
	all.Go(n.serve)
	t.Cleanup(func() {
		conn.Close()
		all.Wait()
	})
	return n
}

// resolver asks this server alone.
func (n *names) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", n.conn.LocalAddr().String())
	}}
}

// add adds a record of srvName.
func (n *names) add(t testing.TB, addr string) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.srv = append(n.srv, netip.MustParseAddrPort(addr))
}

func (n *names) serve() {
	b := make([]byte, 1500)
	for {
		size, from, err := n.conn.ReadFrom(b)
		if err != nil {
			return
		}
		if reply := n.answer(b[:size]); reply != nil {
			_, _ = n.conn.WriteTo(reply, from)
		}
	}
}

// answer makes the reply to a query with one question.
func (n *names) answer(query []byte) []byte {
	const head = 12
	if len(query) < head {
		return nil
	}
	var labels []string
	at := head
	for query[at] != 0 {
		end := at + 1 + int(query[at])
		labels = append(labels, string(query[at+1:end]))
		at = end
	}
	end := at + 5 // the root label, type and class
	kind := binary.BigEndian.Uint16(query[at+1:])
	records := n.records(strings.ToLower(strings.Join(labels, ".")), kind)

	reply := append([]byte{query[0], query[1], 0x84, 0, 0, 1}, 0, byte(len(records)), 0, 0, 0, 0)
	reply = append(reply, query[head:end]...)
	for _, data := range records {
		reply = append(reply, 0xc0, head) // the name of the question
		reply = binary.BigEndian.AppendUint16(reply, kind)
		reply = append(reply, 0, 1, 0, 0, 0, 0) // class, time to live
		reply = binary.BigEndian.AppendUint16(reply, uint16(len(data)))
		reply = append(reply, data...)
	}
	return reply
}

// records are the data of the records of a name: host<i>.test is the address of the i-th SRV
// record.
func (n *names) records(name string, kind uint16) (list [][]byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, to := range n.srv {
		host := fmt.Sprint("host", i)
		switch {
		case kind == typeSRV && name == srvName:
			data := binary.BigEndian.AppendUint16([]byte{0, 1, 0, 1}, to.Port()) // priority, weight, port
			for _, label := range []string{host, "test"} {
				data = append(append(data, byte(len(label))), label...)
			}
			list = append(list, append(data, 0))
		case kind == typeA && name == host+".test":
			list = append(list, to.Addr().AsSlice())
		}
	}
	return list
}
