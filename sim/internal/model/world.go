package model

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/sim/internal/history"
)

// stepsMax bounds a run: one that does not come to an end has a loop that nothing ends.
const stepsMax = 2_000_000

// world is one run: everything happens on one goroutine, in the order of true time.
type world struct {
	plan     Plan
	now      time.Duration // true time
	queue    timetable
	seq      uint64
	nodes    []*node
	ousted   []*node                   // processes whose disk was opened elsewhere
	places   map[fsm.Process]fsm.Place // where each runs, or ran
	links    []link                    // from*nodes + to
	founders *config                   // the membership before the first entry
	group    *config                   // the membership as applied first
	heardOf  []time.Duration           // by node: when a raft leader last said in the log that its replica is silent no more
	answered []time.Duration           // by node: when its replica last answered a raft leader, or was one
	calm     time.Duration             // when a node died for good, or went on after a pause
	died     time.Duration             // when one died for good
	account  account
	fail     *Violation
	stats    Stats
	digest   uint64
	trace    *trace

	healed      bool // the faults are over
	healedAt    time.Duration
	draining    bool // nothing is to be proposed any more
	finishing   bool
	over        bool // all is done
	unserved    int  // nodes that have not served since
	disturbed   int  // faults that bring about elections, or let a raft leader commit nothing
	freezes     bool // machines stand still with their clocks
	refuses     bool // replicas may refuse what they are sent for long: see raft.refused
	quorum      bool // the nodes that are well are a majority
	quorumSince time.Duration
	callers     int // that still have calls to make
	attempts    uint64
	ops         uint64
	names       []string    // of the locks
	batch       []byte      // with what a batch begins
	entries     []entryMark // what stands at each index of the log, as first applied
	valid       [][]*tenure // by lock: leases that may be valid
	resources   []resource
	history     []history.Event
}

func newWorld(p Plan) *world {
	p.Locks = append(slices.Clone(p.Locks), make([]Kind, p.Nodes)...) // and one for each node alone
	w := &world{plan: p, links: make([]link, p.Nodes*p.Nodes), entries: make([]entryMark, 1), places: make(map[fsm.Process]fsm.Place), batch: fsm.AppendBatch(nil)}
	w.stats.Runs = 1
	w.founders, w.heardOf, w.answered = p.founders(), make([]time.Duration, p.Nodes), make([]time.Duration, p.Nodes)
	w.group = w.founders
	w.freezes = slices.ContainsFunc(p.Faults, func(f Fault) bool { return f.Kind == Freeze })
	w.refuses = slices.ContainsFunc(p.Faults, func(f Fault) bool { return f.Kind == Large })
	w.account.init(w)
	w.names = lockNames(p.Locks)
	w.valid = make([][]*tenure, len(p.Locks))
	w.resources = newResources(len(p.Locks))
	for i := range p.Nodes {
		w.nodes = append(w.nodes, newNode(w, i))
	}
	return w
}

func (w *world) run() {
	for i, n := range w.nodes {
		if spare := i - w.plan.Nodes + len(w.plan.Spares); spare >= 0 {
			w.after(nil, w.plan.Spares[spare], func() { w.down(w.nodes[i], 0) }) // which may be elsewhere by then
		} else {
			n.start()
		}
	}
	for i := range w.plan.Callers() {
		w.callers++
		newCaller(w, i).next()
	}
	w.schedule()
	w.after(nil, w.plan.Duration, w.heal)
	for w.fail == nil && !w.over {
		e, ok := w.queue.pop()
		if !ok {
			break
		}
		w.now = e.at
		w.stats.Steps++
		if w.stats.Steps > stepsMax {
			w.broken("a run ends", "after %d steps something goes on still", w.stats.Steps)
		}
		if e.n != nil {
			if e.n.life != e.life {
				continue // of a process that is gone
			}
			if e.n.paused {
				e.n.held = append(e.n.held, func() { w.happens(e) })
				continue
			}
			w.happens(e)
			continue
		}
		e.run()
	}
	w.stats.Simulated = w.now
	if w.fail == nil {
		w.judge()
	}
}

// after lets f happen d from now, on a node if n is not nil: then it waits while the node is
// paused, and dies with its process.
func (w *world) after(n *node, d time.Duration, f func()) {
	w.seq++
	e := event{at: w.now + max(0, d), seq: w.seq, n: n, run: f}
	if n != nil {
		e.life, e.lost = n.life, n.lost()
	}
	w.queue.push(e)
}

// happens lets something happen on a node now, or later if the clocks stood still by which it was due.
func (w *world) happens(e event) {
	if late := e.n.lost() - e.lost; late > 0 && e.at+late > w.now {
		e.at, e.lost = e.at+late, e.lost+late
		w.seq++
		e.seq = w.seq
		w.queue.push(e)
		return
	}
	e.run()
}

// broken ends the run with a violation; the first one counts.
func (w *world) broken(rule, format string, args ...any) {
	if w.fail == nil {
		w.fail = &Violation{w.now, rule, fmt.Sprintf(format, args...)}
		w.tell("VIOLATION %s: %s", rule, w.fail.Text)
	}
}

func (w *world) note(what ...uint64) {
	h := w.digest ^ uint64(w.now)
	for _, x := range what {
		h = mix(h, x)
	}
	w.digest = h
}

func (w *world) record(e history.Event) {
	e.At = w.now
	w.history = append(w.history, e)
}

// chance is a number that depends on the seed and on what it is for alone, so that leaving one
// thing out of a plan does not change the luck of the others.
func (w *world) chance(what ...uint64) uint64 {
	h := w.plan.Seed
	for _, x := range what {
		h = mix(h, x)
	}
	return h
}

func mix(h, x uint64) uint64 {
	h += 0x9e3779b97f4a7c15 ^ x*0xff51afd7ed558ccd
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

func fraction(bits uint64) float64 { return float64(bits>>11) / (1 << 53) }

func within(bits uint64, d time.Duration) time.Duration {
	return time.Duration(fraction(bits) * float64(d))
}

type event struct {
	at   time.Duration
	seq  uint64 // of two at the same time the one that was planned first comes first
	n    *node
	life uint64
	lost time.Duration // by the node's clocks as it was planned
	run  func()
}

func (e *event) before(o *event) bool { return e.at < o.at || e.at == o.at && e.seq < o.seq }

type timetable struct{ events []event }

func (t *timetable) push(e event) {
	t.events = append(t.events, e)
	i := len(t.events) - 1
	for i > 0 {
		up := (i - 1) / 4
		if !e.before(&t.events[up]) {
			break
		}
		t.events[i] = t.events[up]
		i = up
	}
	t.events[i] = e
}

func (t *timetable) pop() (first event, ok bool) {
	n := len(t.events)
	if n == 0 {
		return first, false
	}
	first = t.events[0]
	e := t.events[n-1]
	t.events[n-1] = event{}
	t.events = t.events[:n-1]
	n--
	i := 0
	for n > 0 {
		least := 4*i + 1
		if least >= n {
			break
		}
		for c := least + 1; c < min(4*i+5, n); c++ {
			if t.events[c].before(&t.events[least]) {
				least = c
			}
		}
		if !t.events[least].before(&e) {
			break
		}
		t.events[i] = t.events[least]
		i = least
	}
	if n > 0 {
		t.events[i] = e
	}
	return first, true
}

// clock is a node's clock: it began somewhere and runs at a rate that can change. It goes on while
// the node is paused, as the product's clock also counts the time in which its machine was
// suspended, unless it stands still with its machine.
type clock struct {
	since time.Duration // true time of the last change
	shows lease.Instant // then
	rate  float64
	still bool // it stands
}

func (c *clock) at(now time.Duration) lease.Instant {
	if c.still {
		return c.shows
	}
	return c.shows + lease.Instant(float64(now-c.since)*c.rate)
}

// change has the clock run at another rate from now on, after a jump. It does not go back behind what
// it showed at the last change.
func (c *clock) change(now time.Duration, rate float64, jump time.Duration) {
	c.shows = max(c.shows, c.at(now)+lease.Instant(jump))
	c.since, c.rate = now, rate
}

func (c *clock) stop(now time.Duration) { c.shows, c.since, c.still = c.at(now), now, true }

func (c *clock) goOn(now time.Duration) { c.since, c.still = now, false }

func (c *clock) until(now time.Duration, i lease.Instant) time.Duration {
	left := float64(i-c.at(now)) / c.rate
	if c.still || left > math.MaxInt64/4 {
		return math.MaxInt64 / 4
	}
	return max(0, time.Duration(math.Ceil(left))+1)
}
