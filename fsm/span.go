package fsm

import (
	"math"

	"github.com/tidwall/btree"
)

// span is a run of numbers, both ends included, that one owner has used up.
type span struct{ owner, low, high uint64 }

// spans remembers used numbers of many owners as runs that neither overlap nor touch, so that
// numbers used in order cost one entry. Numbers count from 1.
type spans struct{ tree *btree.BTreeG[span] }

func newSpans() spans {
	return spans{newTree(func(a, b span) bool {
		return a.owner < b.owner || a.owner == b.owner && a.low < b.low
	})}
}

func (t spans) fork() spans { return spans{t.tree.Copy()} }

// below finds the owner's last span that starts at n or before.
func (t spans) below(owner, n uint64) (found span, ok bool) {
	t.tree.Descend(span{owner: owner, low: n}, func(s span) bool {
		found, ok = s, s.owner == owner
		return false
	})
	return found, ok
}

func (t spans) contains(owner, n uint64) bool {
	s, ok := t.below(owner, n)
	return ok && n <= s.high
}

// touches reports whether n is next to a run, so that insert makes no further one of it.
func (t spans) touches(owner, n uint64) bool {
	return t.contains(owner, n-1) || t.contains(owner, n+1)
}

// insert adds n and returns by how much the number of spans changed.
func (t spans) insert(owner, n uint64) int {
	s := span{owner, n, n}
	change := 1
	if before, ok := t.below(owner, n); ok {
		if n <= before.high {
			return 0
		}
		if before.high == n-1 {
			s.low = before.low
			change--
		}
	}
	if after, ok := t.tree.Get(span{owner: owner, low: n + 1}); ok {
		s.high = after.high
		t.tree.Delete(after)
		change--
	}
	t.tree.Set(s)
	return change
}

// prune forgets the numbers below n, and returns how many spans went: most at most.
func (t spans) prune(owner, n uint64, most int) (gone int) {
	for ; gone < most; gone++ {
		first, ok := t.first(owner)
		if !ok || first.low >= n {
			break
		}
		t.tree.Delete(first)
		if first.high >= n {
			t.tree.Set(span{owner, n, first.high})
			break
		}
	}
	return gone
}

// startsBelow says whether an owner has a run that starts below n.
func (t spans) startsBelow(owner, n uint64) bool {
	first, ok := t.first(owner)
	return ok && first.low < n
}

// dropSome forgets so many runs of an owner at most, and returns how many there were.
func (t spans) dropSome(owner uint64, most int) (dropped int) {
	for ; dropped < most; dropped++ {
		first, ok := t.first(owner)
		if !ok {
			break
		}
		t.tree.Delete(first)
	}
	return dropped
}

// drop forgets an owner.
func (t spans) drop(owner uint64) { t.dropSome(owner, math.MaxInt) }

func (t spans) first(owner uint64) (found span, ok bool) {
	t.tree.Ascend(span{owner: owner}, func(s span) bool {
		found, ok = s, s.owner == owner
		return false
	})
	return found, ok
}
