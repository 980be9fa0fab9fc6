package store

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// Position is how far a replica has come, as far as others rely on it. It may never fall behind.
type Position struct {
	Term  uint64
	Vote  uint64 // the replica that it voted for in this term, 0 if none is known
	Index uint64 // last in the log
}

func (p Position) String() string {
	return fmt.Sprintf("term %d, vote %x, index %d", p.Term, p.Vote, p.Index)
}

// Forgets reports whether a replica at p has forgotten that it was at past. A log may lose its end
// to the raft leader of a later term, but no entry acknowledged in the present one; terms never
// fall, and votes never change.
func (p Position) Forgets(past Position) bool {
	if p.Term != past.Term {
		return p.Term < past.Term
	}
	return past.Vote != 0 && p.Vote != past.Vote || p.Index < past.Index
}

// Advance returns p with a later promise added.
func (p Position) Advance(promise Position) Position {
	if promise.Term != p.Term {
		if promise.Term > p.Term {
			return promise
		}
		return p
	}
	if promise.Vote != 0 {
		p.Vote = promise.Vote
	}
	p.Index = max(p.Index, promise.Index)
	return p
}

// Depth is the index of the last entry on this replica's disk.
type Depth struct {
	index atomic.Uint64
	mu    sync.Mutex
	grown chan struct{} // closed when index changes; nil: none waits
}

// Last is the index of the last entry on the disk.
func (d *Depth) Last() uint64 { return d.index.Load() }

// set sets the index of the last entry on the disk.
func (d *Depth) set(index uint64) {
	d.index.Store(index)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.grown != nil {
		close(d.grown)
		d.grown = nil
	}
}

// Reaches returns nil if the disk has the entry at index, and otherwise a channel that is closed
// when the index changes.
func (d *Depth) Reaches(index uint64) <-chan struct{} {
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
