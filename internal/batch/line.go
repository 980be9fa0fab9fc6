package batch

// line is commands in the order of arrival.
type line[T any] struct {
	first, last *Call[T]
	len         int
}

// take removes as many commands from the head as there is room for.
func (l *line[T]) take(room room) (calls []*Call[T]) {
	for c := l.first; c != nil && room.commands > 0; c = l.first {
		if room.fill(c.size(), c.Cost); (room.bytes < 0 || room.cost < 0) && !(room.must && calls == nil) {
			break
		}
		if calls == nil {
			calls = make([]*Call[T], 0, min(l.len, room.commands+1))
		}
		l.remove(c)
		calls = append(calls, c)
	}
	return calls
}

func (l *line[T]) insert(c, prev, next *Call[T]) {
	c.waits, c.prev, c.next = true, prev, next
	l.join(prev, c)
	l.join(c, next)
	l.len++
}

func (l *line[T]) remove(c *Call[T]) {
	l.join(c.prev, c.next)
	c.waits, c.prev, c.next = false, nil, nil
	l.len--
}

// join makes two calls neighbours; nil is the end of the line.
func (l *line[T]) join(prev, next *Call[T]) {
	if prev == nil {
		l.first = next
	} else {
		prev.next = next
	}
	if next == nil {
		l.last = prev
	} else {
		next.prev = prev
	}
}
