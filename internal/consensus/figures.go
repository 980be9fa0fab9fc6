package consensus

import (
	"io"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/internal/tally"
)

// Figures are what the replicas of a node count, one after the other.
type Figures struct {
	Committed atomic.Uint64   // index of the last entry that this replica knows to be committed
	Fsync     tally.Histogram // a write of the log, until it is on the disk
	Commit    tally.Histogram // an entry proposed here, until it was carried out here
	Taken     tally.Transfers // snapshots that were written
	Installed tally.Transfers // snapshots that were read
	Traffic   tally.Traffic
}

// sized counts the bytes of a snapshot.
type sized struct {
	io.Writer
	io.Reader
	bytes uint64
}

func (s *sized) Write(b []byte) (int, error) {
	n, err := s.Writer.Write(b)
	s.bytes += uint64(n)
	return n, err
}

func (s *sized) Read(b []byte) (int, error) {
	n, err := s.Reader.Read(b)
	s.bytes += uint64(n)
	return n, err
}
