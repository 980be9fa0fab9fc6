package lease_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/lease"
	"pgregory.net/rapid"
)

// timed is a table of what ends by time, sessions or rests. D is what falls due.
type timed[D comparable] struct {
	step  func(now lease.Instant, leads bool) (due []D, next lease.Instant)
	key   func(D) uint64
	begin func(t *rapid.T, d time.Duration, now lease.Instant) D // anew, if the table has its key
	end   func(t *rapid.T, key uint64, live bool, now lease.Instant)
}

// neverEarly holds a table to this for each of its items: never due before its time, and due at the
// latest stagger+retry after that and after each proposal before, if step is called when it asked to be,
// whichever voter is raft leader.
func neverEarly[D comparable](t *testing.T, table func() timed[D]) {
	type model struct {
		due   D
		over  lease.Instant
		quiet lease.Instant // since when nothing was proposed
	}
	rapid.Check(t, func(t *rapid.T) {
		e, live := table(), map[uint64]*model{}
		now, next, leads := lease.Instant(0), lease.Instant(0), false
		step := func(t *rapid.T) {
			var due []D
			due, next = e.step(now, leads)
			for _, d := range due {
				m := live[e.key(d)]
				if m == nil || d != m.due || now < m.over {
					t.Fatalf("due %+v at %v, model %+v", d, now, m)
				}
				m.quiet = now
			}
			for key, m := range live {
				if late := now - max(m.over, m.quiet); late > lease.Instant(stagger+retry) {
					t.Fatalf("%d is %v late", key, time.Duration(late))
				}
			}
			if next <= now {
				t.Fatalf("next %v is not after now %v", next, now)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"begun": func(t *rapid.T) {
				d := time.Millisecond * time.Duration(rapid.IntRange(1, 1000).Draw(t, "time"))
				due := e.begin(t, d, now)
				live[e.key(due)] = &model{due: due, over: now.Add(d), quiet: now}
				step(t)
			},
			"ended": func(t *rapid.T) {
				key := rapid.Uint64Range(1, 5).Draw(t, "key")
				e.end(t, key, live[key] != nil, now)
				delete(live, key)
			},
			"elected or deposed": func(t *rapid.T) { leads = !leads; step(t) },
			"time passes": func(t *rapid.T) {
				until := now.Add(time.Millisecond * time.Duration(rapid.IntRange(1, 2000).Draw(t, "pause")))
				for next <= until && len(live) > 0 {
					now = max(now, next)
					step(t)
				}
				now = until
				step(t)
			},
		})
	})
}
