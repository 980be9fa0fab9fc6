package consensus

import (
	"sync"
	"sync/atomic"
)

// depth is the index of the last entry on this replica's disk, for those who look and those who
// wait.
type depth struct {
	index atomic.Uint64
	mu    sync.Mutex
	grown chan struct{} // closed when index changes; nil: nobody waits
}

// set notes what is on the disk now.
func (d *depth) set(index uint64) {
	d.index.Store(index)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.grown != nil {
		close(d.grown)
		d.grown = nil
	}
}

// reaches returns nil if the disk has the entry at index, and otherwise a channel that is closed
// when it is worth to ask again.
func (d *depth) reaches(index uint64) <-chan struct{} {
	if d.index.Load() >= index {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.index.Load() >= index {
		return nil
	}
	if d.grown == nil {
		d.grown = make(chan struct{})
	}
	return d.grown
}
