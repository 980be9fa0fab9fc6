package lease

import (
	"math/rand/v2"
	"testing"
	"time"
)

// machine is one of a fleet whose clocks are compared, as internal/consensus/wire does it.
type machine struct {
	clock       Instant
	rate        float64
	incarnation int
	frozen      bool // the machine, with its clock
	thawed      bool // it was, and may find that out
	stopped     bool // the process: its clock goes on
	peers       map[int]*Peer
	heard       map[int]echo // by machine
	since       Instant
}

type echo struct {
	incarnation int // of the process that sent the clock
	clock, at   Instant
}

type message struct {
	from, to, incarnation int
	sent                  Instant
	echo
	due time.Duration
}

type machines struct {
	r     *rand.Rand
	now   time.Duration
	drift float64
	all   []*machine
	way   []message
	slow  time.Duration // the longest delay
	lead  int
}

func newMachines(r *rand.Rand, drift float64) *machines {
	w := &machines{r: r, drift: drift}
	for range 3 {
		m := &machine{rate: 1}
		w.all = append(w.all, m)
		w.restart(m)
	}
	return w
}

func (w *machines) restart(m *machine) {
	m.incarnation++
	m.clock, m.since, m.thawed = Instant(time.Second), 0, false
	m.peers, m.heard = make(map[int]*Peer), make(map[int]echo)
}

// send has a machine say something to another one.
func (w *machines) send(from, to int) {
	m := w.all[from]
	if m.frozen || m.stopped {
		return
	}
	if len(w.way) > 64 {
		w.way = w.way[:0] // lost
	}
	w.way = append(w.way, message{
		from: from, to: to, incarnation: m.incarnation, sent: m.clock, echo: m.heard[to],
		due: w.now + time.Duration(w.r.Int64N(int64(w.slow)+1)),
	})
}

// step lets d go by and delivers, in any order, what is due. It calls found with what a machine has
// lost.
func (w *machines) step(d time.Duration, found func(m *machine, lost time.Duration)) {
	w.now += d
	for _, m := range w.all {
		if !m.frozen {
			m.clock += Instant(float64(d) * m.rate)
		}
	}
	rest := w.way[:0]
	for _, msg := range w.way {
		to := w.all[msg.to]
		if msg.due > w.now || to.frozen || to.stopped {
			rest = append(rest, msg)
			continue
		}
		w.deliver(msg, to, found)
	}
	w.way = rest
	w.r.Shuffle(len(w.way), func(i, j int) { w.way[i], w.way[j] = w.way[j], w.way[i] })
}

func (w *machines) deliver(msg message, to *machine, found func(m *machine, lost time.Duration)) {
	from := w.all[msg.from]
	if msg.incarnation != from.incarnation {
		return // of a connection that has ended
	}
	if known, ok := to.heard[msg.from]; !ok || known.incarnation != msg.incarnation {
		to.peers[msg.from] = &Peer{}
	}
	to.heard[msg.from] = echo{msg.incarnation, msg.sent, to.clock}
	r := Reading{Sent: msg.sent, Came: to.clock}
	if msg.echo.incarnation == to.incarnation {
		r.Echo, r.Heard = msg.echo.clock, msg.echo.at
	}
	if lost := to.peers[msg.from].Behind(r, to.since, w.drift); lost > 0 {
		to.since = to.clock
		found(to, lost)
	}
}

// beat has the leader send to the others, and these answer.
func (w *machines) beat() {
	for i := range w.all {
		if i != w.lead {
			w.send(w.lead, i)
			w.send(i, w.lead)
		}
	}
}

// A thousand hours, and each of them with another drift, other delays and other faults.
func TestNoClockIsFoundToBeBehindThatHasNotStoodStill(t *testing.T) {
	t.Parallel()
	const hours = 1000
	frozen, messages := 0, 0
	for seed := range uint64(hours) {
		r := rand.New(rand.NewPCG(seed, 22))
		drift := []float64{0.0001, 0.01, 0.2}[r.IntN(3)]
		w := newMachines(r, drift)
		alarm := func(m *machine, lost time.Duration) {
			if !m.thawed {
				t.Errorf("hour %d: a machine lost %v after %v", seed, lost, w.now)
			}
			m.thawed = false
		}
		for w.now < time.Hour && !t.Failed() {
			if r.IntN(50) == 0 {
				w.slow = []time.Duration{time.Millisecond, 300 * time.Millisecond, time.Minute}[r.IntN(3)]
			}
			n := r.IntN(3)
			switch m := w.all[n]; r.IntN(200) {
			case 0, 1:
				w.lead = n
			case 2:
				w.restart(m)
			case 3, 4:
				m.stopped = true // by SIGSTOP, or for want of a processor
			case 5, 6, 7, 8:
				m.stopped = false
			case 9:
				m.frozen, m.thawed = true, true
				frozen++
			case 10, 11:
				m.frozen = false
			default:
				m.rate = 1 - drift/2 + drift*r.Float64()
			}
			for range 5 {
				w.beat()
				messages += 4
				w.step(time.Duration(r.Int64N(int64(2*time.Second))), alarm)
			}
		}
	}
	t.Logf("%d hours, %d messages, %d machines frozen", hours, messages, frozen)
}

func TestAClockThatStoodStillIsFoundOutByTheFirstMessage(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5000) {
		r := rand.New(rand.NewPCG(seed, 11))
		w := newMachines(r, 0.01)
		w.slow = time.Duration(r.Int64N(int64(20 * time.Millisecond)))
		for _, m := range w.all {
			m.rate = 1 - w.drift/2 + w.drift*r.Float64()
		}
		for range 10 + r.IntN(100) {
			w.beat()
			w.step(time.Duration(1+r.Int64N(int64(100*time.Millisecond))), func(_ *machine, lost time.Duration) {
				t.Errorf("seed %d: %v lost before anything stood still", seed, lost)
			})
		}
		w.way = nil
		still := r.IntN(3) // perhaps the one that leads
		m := w.all[still]
		m.frozen = true
		d := 150*time.Millisecond + time.Duration(r.Int64N(int64(time.Minute)))
		w.step(d, nil)
		m.frozen = false
		if still == w.lead {
			w.lead = (still + 1) % 3
		}
		w.slow = 0
		w.send(w.lead, still)
		var found []time.Duration
		w.step(0, func(_ *machine, lost time.Duration) { found = append(found, lost) })
		if len(found) != 1 || found[0] > time.Duration(float64(d)*1.01)+time.Millisecond || found[0] < d*98/100-100*time.Millisecond {
			t.Fatalf("seed %d: a clock stood still for %v, and this was found: %v", seed, d, found)
		}
		for range 100 { // and no more than once
			w.beat()
			w.step(time.Duration(1+r.Int64N(int64(100*time.Millisecond))), func(_ *machine, lost time.Duration) {
				t.Errorf("seed %d: %v lost once more", seed, lost)
			})
		}
	}
}

// What each message loses is little, and the sum is not.
func TestAClockThatIsTooSlowIsFoundOut(t *testing.T) {
	t.Parallel()
	for rate, slow := range map[float64]bool{0.995: false, 0.9: true} {
		w := newMachines(rand.New(rand.NewPCG(1, 1)), 0.01)
		w.slow, w.all[1].rate = time.Millisecond, rate
		found := 0
		for range 1000 {
			w.beat()
			w.step(40*time.Millisecond, func(*machine, time.Duration) { found++ })
		}
		if found > 0 != slow {
			t.Errorf("a clock at a rate of %v was found behind %d times", rate, found)
		}
	}
}
