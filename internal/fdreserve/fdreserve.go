// Package fdreserve reserves file descriptors for the time when the process or its host has no
// others. A replica that can neither connect nor open a file of its log would lose its part in the
// group, and with it the leases of its node.
package fdreserve

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"time"
)

// refillPause is the pause between attempts to refill a set.
const refillPause = 200 * time.Millisecond

// Set is a number of descriptors reserved for one purpose. A nil Set has none. Its methods are safe
// for concurrent use.
type Set struct {
	max  int
	open func() (io.Closer, error)

	mu     sync.Mutex
	kept   []io.Closer
	lent   int
	refill *time.Timer // runs while descriptors are missing
	closed bool
}

// NewSet reserves max descriptors, now or as soon as the system has them. open makes one: Null,
// except in tests.
func NewSet(max int, open func() (io.Closer, error)) *Set {
	s := &Set{max: max, open: open}
	s.fill()
	return s
}

// Null opens a file for its descriptor alone.
func Null() (io.Closer, error) { return os.Open(os.DevNull) }

// Lacking reports whether an error is the lack of a descriptor.
func Lacking(err error) bool { return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) }

// Do calls create, with a reserved descriptor if the system has no other. In that case back is not
// nil, and the caller calls it, once, after it has closed the created object.
func (s *Set) Do(create func() error) (back func(), err error) {
	if err = create(); s == nil || !Lacking(err) {
		return nil, err
	}
	for n := 0; n < s.max && Lacking(err) && s.lend(); n++ { // another goroutine may take the freed descriptor
		if err = create(); err == nil {
			return s.takeBack, nil
		}
		s.takeBack()
	}
	return nil, err
}

// Short reports whether descriptors of the set are missing, beside those that are lent: the system had
// none when they were to be reserved again.
func (s *Set) Short() bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.kept)+s.lent < s.max
}

// lend frees a reserved descriptor.
func (s *Set) lend() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.kept) == 0 {
		return false
	}
	last := len(s.kept) - 1
	s.kept[last].Close()
	s.kept = s.kept[:last]
	s.lent++
	return true
}

func (s *Set) takeBack() {
	s.mu.Lock()
	s.lent--
	s.mu.Unlock()
	s.fill()
}

// fill reserves the missing descriptors, or tries again after a pause.
func (s *Set) fill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.closed && len(s.kept)+s.lent < s.max {
		f, err := s.open()
		switch {
		case err == nil:
		case s.refill == nil:
			s.refill = time.AfterFunc(refillPause, s.fill)
			return
		default:
			s.refill.Reset(refillPause)
			return
		}
		s.kept = append(s.kept, f)
	}
}

// Close frees the reserved descriptors. Lent ones are not reserved again.
func (s *Set) Close() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.refill != nil {
		s.refill.Stop()
	}
	for _, f := range s.kept {
		f.Close()
	}
	s.kept = nil
}
