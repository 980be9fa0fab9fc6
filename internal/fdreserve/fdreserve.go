// Package fdreserve sets file descriptors aside for the time when the process or its host has no
// others. A replica that can then neither connect nor open a file of its log would lose its part in
// the group, and with it the leases of its node.
package fdreserve

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"time"
)

// refillPause is how often a set that misses some looks whether there are others again.
const refillPause = 200 * time.Millisecond

// Set is a number of descriptors set aside for one purpose. What was made with one gives it back
// when it is closed. A nil Set has none. All methods may be called at any time from any goroutine.
type Set struct {
	max  int
	open func() (io.Closer, error)

	mu     sync.Mutex
	kept   []io.Closer
	lent   int
	refill *time.Timer // runs while some are missing
	closed bool
}

// NewSet sets max descriptors aside, now or as soon as there are any. open makes one: Null, but for
// tests.
func NewSet(max int, open func() (io.Closer, error)) *Set {
	s := &Set{max: max, open: open}
	s.fill()
	return s
}

// Null opens a file that is good for nothing but its descriptor.
func Null() (io.Closer, error) { return os.Open(os.DevNull) }

// Lacking says whether an error is that there was no descriptor to be had.
func Lacking(err error) bool { return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) }

// Do makes something that takes a descriptor, with a spare one if there is no other: then back is
// not nil, and the caller calls it, once, when what was made is closed.
func (s *Set) Do(create func() error) (back func(), err error) {
	if err = create(); s == nil || !Lacking(err) {
		return nil, err
	}
	for n := 0; n < s.max && Lacking(err) && s.lend(); n++ { // somebody else in this process may be quicker to take what is freed
		if err = create(); err == nil {
			return s.takeBack, nil
		}
		s.takeBack()
	}
	return nil, err
}

// lend frees a descriptor.
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

// fill sets aside what is missing, the rest later where there is nothing to be had.
func (s *Set) fill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.closed && len(s.kept)+s.lent < s.max {
		f, err := s.open()
		if err != nil {
			s.fillLater()
			return
		}
		s.kept = append(s.kept, f)
	}
}

// fillLater tries again after a pause. The caller holds mu.
func (s *Set) fillLater() {
	if s.refill == nil {
		s.refill = time.AfterFunc(refillPause, s.fill)
		return
	}
	s.refill.Reset(refillPause)
}

// Close frees what is set aside. What was lent is not set aside again.
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
