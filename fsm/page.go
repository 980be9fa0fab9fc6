package fsm

import (
	"iter"
	"strings"
)

const (
	// PageItems is how many locks, holders, waiters and rests a page has at most, all together; the rests
	// of its last lock may go beyond.
	PageItems = 1024
	// PageBytes is about how many bytes their names, labels and values may have.
	PageBytes = 1 << 20
)

// LocksPage is a part of a list of locks: the answer to QueryLocks. A lock may go on on the next
// page: JoinPages puts them together.
type LocksPage struct {
	At    uint64 // number of the last command in the state
	Locks []LockState
	Next  *QueryLocks // what asks the same state for the next page; nil: there is none
}

// LockState is a lock, and what is asked of it.
type LockState struct {
	Lock
	More     bool        // of the lock that the page before ended with: Holders and Waiters go on, and the rest was there
	Past     []PastGrant // the last grants that have ended, the last first
	Sessions []Session   // of the holders, in their order: those that are open
	Cycles   [][]Wait    // in which waiters of the lock wait for themselves
}

// page is one that is being put together.
type page struct {
	m     *Machine
	q     QueryLocks
	locks []LockState
	items int // that there is room for
	bytes int
}

func (q QueryLocks) answer(m *Machine) Answer { return q.page(m, PageItems) }

// page is the page that begins behind q.After.
func (q QueryLocks) page(m *Machine, items int) LocksPage {
	p := page{m: m, q: q, items: items, bytes: PageBytes}
	end, more := p.fill()
	a := LocksPage{At: m.commands, Locks: p.locks}
	if more {
		next := q
		next.After = end
		a.Next = &next
	}
	return a
}

// fill adds locks until the page is full, or reports that there are no more.
func (p *page) fill() (end Bookmark, more bool) {
	if p.q.Exact {
		l, ok := p.m.locks.Get(p.q.Name)
		if !ok {
			l = &lock{name: p.q.Name}
		}
		return p.add(l)
	}
	p.m.locks.Ascend(max(p.q.Name, p.q.After.Lock, afterOnce), func(name string, l *lock) bool {
		if name == p.q.After.Lock && !p.q.After.Within {
			return true
		}
		if !strings.HasPrefix(name, p.q.Name) {
			return false
		}
		if p.full() { // there is this lock to come
			more = true
			return false
		}
		end, more = p.add(l)
		return !more
	})
	return end, more
}

func (p *page) full() bool { return p.items <= 0 || p.bytes <= 0 }

func (p *page) count(bytes int) {
	p.items--
	p.bytes -= bytes
}

// add adds a lock, or what the page before has left of it. It returns where it came to, and whether
// there is more of the lock.
func (p *page) add(l *lock) (end Bookmark, more bool) {
	after := p.q.After
	s := LockState{Lock: Lock{Name: l.name, Mode: l.mode, LastToken: l.last}}
	s.Limit, s.Former = p.m.limitsOf(l)
	if s.More = after.Within && after.Lock == l.name; !s.More {
		after = Bookmark{}
		p.head(&s, l)
	}
	end = Bookmark{Lock: l.name}
	for c := range p.rest(l, after) {
		if p.full() && end.Within {
			more = true
			break
		}
		h := c.view()
		p.count(len(h.Label) + len(h.NodeName))
		end.Within, end.Token = true, c.token
		if c.token != 0 {
			s.Holders = append(s.Holders, h)
			p.session(&s, c)
			continue
		}
		s.Waiters = append(s.Waiters, h)
		end.Priority, end.Arrived = c.Priority, c.index
	}
	p.locks = append(p.locks, s)
	if !more {
		end = Bookmark{Lock: l.name}
	}
	return end, more
}

// head adds what a lock has beside its holders and waiters.
func (p *page) head(s *LockState, l *lock) {
	s.Wanted = p.m.wanted(l)
	if l.value != nil {
		s.Value = []byte(l.value.text)
	}
	for r := range p.m.restsOf(l) {
		s.Rests = append(s.Rests, r.view())
		p.count(len(l.name))
	}
	if p.q.Parts&PartPast != 0 {
		s.Past = p.m.Past(l.name)
	}
	if p.q.Parts&PartCycles != 0 {
		s.Cycles = p.m.Cycles(l.name)
	}
	p.count(len(l.name) + len(s.Value))
}

// session adds the session of a holder.
func (p *page) session(s *LockState, c *claim) {
	if p.q.Parts&PartSessions == 0 {
		return
	}
	if open, ok := p.m.Session(c.owner.id); ok {
		s.Sessions = append(s.Sessions, open)
	}
}

// rest are the holders of a lock behind a place, and its waiters if they are asked for.
func (p *page) rest(l *lock, after Bookmark) iter.Seq[*claim] {
	return func(yield func(*claim) bool) {
		if !after.Within || after.Token != 0 {
			for c := range p.m.holdersFrom(l, after.Token+1) {
				if !yield(c) {
					return
				}
			}
			after.Priority, after.Arrived = 1<<31-1, 0
		}
		if p.q.Parts&PartWaiters == 0 {
			return
		}
		from := &claim{name: l.name, Terms: Terms{Priority: after.Priority}, index: after.Arrived + 1}
		p.m.waiters.Ascend(from, func(c *claim) bool { return c.name == l.name && yield(c) })
	}
}

// JoinPages puts the locks of pages together that go on on the next one. An error ends the list.
func JoinPages(pages iter.Seq2[LocksPage, error]) iter.Seq2[LockState, error] {
	return func(yield func(LockState, error) bool) {
		var last LockState // which may go on
		begun := false
		for page, err := range pages {
			if err != nil {
				yield(LockState{}, err)
				return
			}
			for _, l := range page.Locks {
				switch {
				case l.More && begun:
					last.Holders = append(last.Holders, l.Holders...)
					last.Waiters = append(last.Waiters, l.Waiters...)
					last.Sessions = append(last.Sessions, l.Sessions...)
					continue
				case begun && !yield(last, nil):
					return
				}
				last, begun = l, true
			}
		}
		if begun {
			yield(last, nil)
		}
	}
}
