package fsm

import "github.com/tidwall/btree"

// recentMax is how many names an index remembers in front of its tree: more than a node has calls
// under way.
const recentMax = 4096

// index is a tree of records by name. The commands of a name come soon after each other, so the
// applying goroutine remembers what the last names led to: a hash instead of a search that compares
// a dozen texts. What it remembers is no part of the state, and a fork has none of it.
type index[T any] struct {
	*btree.Map[string, *T]
	recent map[string]*T // what Get would return, nil included; nil before the first find
}

func newIndex[T any]() index[T] { return index[T]{Map: btree.NewMap[string, *T](0)} }

func (n *index[T]) fork() index[T] { return index[T]{Map: n.Copy()} }

// find is Get for the goroutine that applies; nil if there is no such record. Readers, which come
// at the same time as each other, use Get.
func (n *index[T]) find(name string) *T {
	if v, ok := n.recent[name]; ok {
		return v
	}
	v, _ := n.Get(name)
	if n.recent == nil {
		n.recent = make(map[string]*T)
	}
	n.remember(name, v)
	return v
}

// Set replaces the record of a name.
func (n *index[T]) Set(name string, v *T) {
	n.Map.Set(name, v)
	n.remember(name, v)
}

// Delete removes the record of a name.
func (n *index[T]) Delete(name string) {
	n.Map.Delete(name)
	n.remember(name, nil)
}

func (n *index[T]) remember(name string, v *T) {
	if n.recent == nil {
		return
	}
	if len(n.recent) >= recentMax {
		clear(n.recent)
	}
	n.recent[name] = v
}
