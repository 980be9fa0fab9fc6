package membership

import "time"

const (
	membersMax      = 4096 // here at once
	newcomersMax    = 4096 // that join in a row
	newcomersPerSec = 4    // and then
)

// joinLimit bounds the members that memberlist is to know, which it does not itself:
// without keys anybody can invent some. Since it remembers the dead for a
// while, how fast new ones come is bounded as well. The zero value is ready.
type joinLimit struct {
	here map[string]struct{} // by memberlist's name
	came float64             // lately: falls by newcomersPerSec
	last time.Time
}

// admits tells whether there is room for a member.
func (l *joinLimit) admits(name string, now time.Time) bool {
	if _, ok := l.here[name]; ok {
		return true
	}
	l.forget(now)
	return len(l.here) < membersMax && l.came < newcomersMax
}

func (l *joinLimit) join(name string, now time.Time) {
	if l.here == nil {
		l.here = make(map[string]struct{})
	}
	l.forget(now)
	l.came++
	l.here[name] = struct{}{}
}

func (l *joinLimit) leave(name string) { delete(l.here, name) }

func (l *joinLimit) forget(now time.Time) {
	l.came = max(0, l.came-now.Sub(l.last).Seconds()*newcomersPerSec)
	l.last = now
}
