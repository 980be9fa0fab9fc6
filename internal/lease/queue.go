package lease

import "container/heap"

// slot is an entry's place in a queue.
type slot struct {
	at  Instant // changed by queue.move alone
	pos int
}

func (s *slot) place() *slot { return s }

// queue holds entries by their instants, earliest first. All changes cost O(log n).
type queue[E interface{ place() *slot }] struct{ entries entries[E] }

func (q *queue[E]) push(e E)   { heap.Push(&q.entries, e) }
func (q *queue[E]) remove(e E) { heap.Remove(&q.entries, e.place().pos) }

func (q *queue[E]) move(e E, at Instant) {
	e.place().at = at
	heap.Fix(&q.entries, e.place().pos)
}

// first returns the earliest entry.
func (q *queue[E]) first() (e E, ok bool) {
	if len(q.entries) == 0 {
		return e, false
	}
	return q.entries[0], true
}

// entries implements heap.Interface.
type entries[E interface{ place() *slot }] []E

func (s entries[E]) Len() int           { return len(s) }
func (s entries[E]) Less(i, j int) bool { return s[i].place().at < s[j].place().at }

func (s entries[E]) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].place().pos, s[j].place().pos = i, j
}

func (s *entries[E]) Push(x any) {
	e := x.(E)
	e.place().pos = len(*s)
	*s = append(*s, e)
}

func (s *entries[E]) Pop() any {
	last := len(*s) - 1
	e := (*s)[last]
	clear((*s)[last:])
	*s = (*s)[:last]
	return e
}
