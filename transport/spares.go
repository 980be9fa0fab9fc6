package transport

import (
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/fdreserve"
)

// spares are descriptors reserved for connections. Dials of raft have their own: gossip and
// strangers must not use up the descriptors that replicas need to vote. Of accepted ones, those that
// the group can do without are ended when they have named their kind, and strangers make room.
type spares struct{ accepted, raft, dialed *reserve }

// spareTime is how long a connection keeps a spare descriptor without a preface while others wait for one.
const spareTime = 250 * time.Millisecond

// setAside reserves enough for a group of seven voters that all reconnect in both directions.
func setAside() spares {
	return spares{
		accepted: newReserve(12),
		raft:     newReserve(6),
		dialed:   newReserve(2),
	}
}

func (s spares) Close() {
	s.accepted.Close()
	s.raft.Close()
	s.dialed.Close()
}

// reserve are descriptors for connections.
type reserve struct {
	*fdreserve.Set
	closing atomic.Int32 // borrowed connections whose descriptor is free and not reserved again
}

func newReserve(max int) *reserve { return &reserve{Set: fdreserve.NewSet(max, fdreserve.Null)} }

// short reports whether another may have a descriptor that was reserved and lent.
func (r *reserve) short() bool { return r.closing.Load() > 0 || r.Short() }

// with makes a connection, with a reserved descriptor if the system has no other.
func (r *reserve) with(connect func() (net.Conn, error)) (c net.Conn, err error) {
	back, err := r.Do(func() error { c, err = connect(); return err })
	if err != nil || back == nil {
		return c, err
	}
	return &borrowed{Conn: c, reserve: r, back: sync.OnceFunc(back)}, nil
}

// borrowed is a connection on a reserved descriptor.
type borrowed struct {
	net.Conn
	reserve *reserve
	back    func()
}

// Close ends the connection and reserves its descriptor again.
func (b *borrowed) Close() error {
	b.reserve.closing.Add(1)
	defer b.reserve.closing.Add(-1)
	err := b.Conn.Close()
	b.back()
	return err
}

// starved reports whether c has a descriptor that was reserved: lent, or freed a moment ago by one
// that it was lent to, and not reserved again.
func (e *endpoint) starved(c *conn) bool {
	if _, lent := c.raw.(*borrowed); lent {
		return true
	}
	w, real := e.wire.(*sockets)
	return real && w.spares.accepted.short()
}

// vital reports whether the group needs connections of the kind where descriptors are lacking. Those
// of gossip are short, and a fleet without Secrets has no other way to see that a node lives. A
// client keeps its connection, and is served elsewhere.
func (k Kind) vital() bool { return k == KindRaft || k == KindProbe || k == KindGossip }
