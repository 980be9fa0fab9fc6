package transport

import (
	"net"
	"sync"

	"github.com/holdfast-go/holdfast/internal/fdreserve"
)

// spares are descriptors reserved for connections. Dials of raft have their own: gossip and
// strangers must not use up the descriptors that replicas need to vote.
type spares struct{ accepted, raft, dialed *fdreserve.Set }

// setAside reserves enough for a group of seven voters that all reconnect in both directions.
func setAside() spares {
	return spares{
		accepted: fdreserve.NewSet(12, fdreserve.Null),
		raft:     fdreserve.NewSet(6, fdreserve.Null),
		dialed:   fdreserve.NewSet(2, fdreserve.Null),
	}
}

func (s spares) Close() {
	s.accepted.Close()
	s.raft.Close()
	s.dialed.Close()
}

// with makes a connection, with a reserved descriptor if the system has no other.
func with(set *fdreserve.Set, connect func() (net.Conn, error)) (c net.Conn, err error) {
	back, err := set.Do(func() error { c, err = connect(); return err })
	if err != nil || back == nil {
		return c, err
	}
	return &borrowed{Conn: c, back: sync.OnceFunc(back)}, nil
}

// borrowed is a connection on a reserved descriptor.
type borrowed struct {
	net.Conn
	back func()
}

// Close ends the connection and reserves its descriptor again.
func (b *borrowed) Close() error {
	err := b.Conn.Close()
	b.back()
	return err
}
