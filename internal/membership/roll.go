package membership

import "time"

const (
	membersMax      = 4096 // here at once
	newcomersMax    = 4096 // that join in a row
	newcomersPerSec = 4    // and then
)

// roll bounds the members that memberlist is to know, which it does not itself:
// without keys anybody can invent some. Since it remembers the dead for a
// while, how fast new ones come is bounded as well. The zero value is ready.
type roll struct {
	here map[string]struct{} // by memberlist's name
	came float64             // lately: falls by newcomersPerSec
	last time.Time
}

// admits tells whether there is room for a member.
func (r *roll) admits(name string, now time.Time) bool {
	if _, ok := r.here[name]; ok {
		return true
	}
	r.forget(now)
	return len(r.here) < membersMax && r.came < newcomersMax
}

func (r *roll) join(name string, now time.Time) {
	if r.here == nil {
		r.here = make(map[string]struct{})
	}
	r.forget(now)
	r.came++
	r.here[name] = struct{}{}
}

func (r *roll) leave(name string) { delete(r.here, name) }

func (r *roll) forget(now time.Time) {
	r.came = max(0, r.came-now.Sub(r.last).Seconds()*newcomersPerSec)
	r.last = now
}
