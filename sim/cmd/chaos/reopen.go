//go:build unix

package main

import (
	"context"
	"sync"

	"github.com/holdfast-go/holdfast/sim/cmd/chaos/report/story"
)

// reopen starts nodes again, until ctx ends, that serve no more: the group has removed them while
// they were away, or their disk runs elsewhere. A node that failed in any other way, while nothing
// was done to its disk, is told of.
func (f *fleet) reopen(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	for mark := 0; ; {
		l, ok := f.seen(ctx, mark, func(l story.Line) bool { mark++; return l.Kind == story.KindDone })
		if !ok {
			return
		}
		s := f.slots[l.Node]
		f.mu.Lock()
		expected := l.Text == removed || s.ill || l.Text == superseded && s.forked
		f.mu.Unlock()
		if !expected {
			f.wrong(s.i, "the node has failed: %s", l.Text)
		}
		all.Go(func() { s.reopen(ctx, l) })
	}
}

// reopen starts the node of a slot again, unless somebody else has done so. What has its disk
// elsewhere goes on there, and begins here as a new node.
func (s *slot) reopen(ctx context.Context, l story.Line) {
	select {
	case s.busy <- struct{}{}:
		defer s.unclaim()
	case <-ctx.Done():
		return
	}
	s.f.mu.Lock()
	same := s.up && s.life == l.Life
	s.f.mu.Unlock()
	if !same {
		return
	}
	s.f.fault("reopen", l.Text, []int{s.i}, func() {
		s.stop(orderClose)
		if l.Text == superseded {
			s.wipe()
		}
		s.f.begins(s)
	})
}
