package forming_test

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/internal/forming"
	"github.com/holdfast-go/holdfast/internal/lease"
)

// The world of the simulation: machines with a disk, a network with faults, gossip that is late,
// and as much of Raft as forming needs. It advances in ticks.
const (
	tick      = 100 * time.Millisecond
	beaconGap = 500 * time.Millisecond
	aliveFor  = 5 * time.Second // how long gossip shows a node that it no longer hears
)

// disk is what survives a crash.
type disk struct {
	id          string
	incarnation uint64
	vote        forming.Vote
	cluster     string // set before a replica starts, then until its group is given up
	founder     bool
	shared      bool   // others were, or were about to be, added to the group that it founded
	birth       uint64 // of that group
}

// claim is what the machine's group says of itself.
func (d disk) claim() forming.Claim {
	return forming.Claim{Cluster: d.cluster, Alone: d.founder && !d.shared, Birth: d.birth}
}

type machine struct {
	slot    int
	disk    disk
	up      time.Duration // when it starts or starts again
	on      bool
	f       *forming.Forming
	joining string // what Step last said
	born    time.Duration
	view    map[string]sighting
	asked   time.Duration
	skew    int64         // of its wall clock, seconds
	starved time.Duration // it takes the others' gossip so much later
}

type sighting struct {
	forming.Peer
	slot int
	at   time.Duration
}

// raftGroup commits a change when a majority of its voters is up and in touch with one of them.
type raftGroup struct {
	voters, nonVoters []string
	serving           bool
}

type letter struct {
	at       time.Duration
	from, to int
	bytes    []byte
	beacon   *sighting
}

type world struct {
	*rand.Rand
	now        time.Duration
	bootstrap  int
	machines   []*machine
	cut        map[[2]int]bool
	loss, dup  float64
	delay      time.Duration
	chaos      float64 // chance of a crash, a wipe or a new partition per tick
	wipes      bool
	letters    []letter
	groups     map[string]*raftGroup
	dropped    map[string]bool // groups that were given up
	identities int
	formed     int
	rivals     bool // two groups served at once
}

func newWorld(seed uint64) *world {
	w := &world{
		Rand: rand.New(rand.NewPCG(seed, 2)), cut: map[[2]int]bool{}, groups: map[string]*raftGroup{}, dropped: map[string]bool{},
	}
	n := 1 + w.IntN(7)
	w.bootstrap = 1 + w.IntN(n)
	if w.IntN(2) == 0 {
		w.bootstrap = n/2 + 1
	}
	w.loss = []float64{0, 0.05, 0.5}[w.IntN(3)]
	w.dup = []float64{0, 0.3}[w.IntN(2)]
	w.delay = []time.Duration{0, 200 * time.Millisecond, 3 * time.Second}[w.IntN(3)]
	w.chaos = []float64{0, 0.005, 0.05}[w.IntN(3)]
	w.wipes = w.IntN(2) == 0
	for slot := range n {
		m := &machine{slot: slot, up: time.Duration(w.Int64N(int64(20 * time.Second))), skew: w.Int64N(3) * 1000}
		w.machines = append(w.machines, m)
		w.mint(m)
	}
	return w
}

// mint gives m an empty disk: a new identity, in any place of the order of ids.
func (w *world) mint(m *machine) {
	w.identities++
	m.disk = disk{id: fmt.Sprintf("%04x-%d", w.IntN(1<<16), w.identities)}
}

func (w *world) reaches(from, to int) bool {
	return !w.cut[[2]int{from, to}] && w.machines[to].on && w.machines[from].on
}

func (w *world) inTouch(a, b int) bool { return a == b || w.reaches(a, b) && w.reaches(b, a) }

// find returns the machine that is up with this identity.
func (w *world) find(id string) *machine {
	for _, m := range w.machines {
		if m.on && m.disk.id == id {
			return m
		}
	}
	return nil
}

func (w *world) start(m *machine) {
	m.on, m.view, m.born = true, map[string]sighting{}, w.now
	m.disk.incarnation++
	w.form(m, w.bootstrap)
}

func (w *world) form(m *machine, bootstrap int) {
	m.joining = ""
	m.f = forming.New(forming.Config{
		Self: m.disk.id, Incarnation: m.disk.incarnation, Bootstrap: bootstrap, Join: len(w.machines) > 1,
	}, m.disk.vote, m.clock(w.now))
}

func (m *machine) clock(now time.Duration) lease.Instant { return lease.Instant(now - m.born) }

// disturb crashes a machine, with or without its disk, or changes the partition.
func (w *world) disturb() {
	if w.Float64() >= w.chaos {
		return
	}
	switch m := w.machines[w.IntN(len(w.machines))]; w.IntN(5) {
	case 0, 1:
		m.on, m.up = false, w.now+time.Duration(w.ExpFloat64()*float64(10*time.Second))
		if w.wipes && w.IntN(2) == 0 {
			w.mint(m)
		}
	case 2:
		clear(w.cut)
	case 3: // two sides
		side := w.Uint64()
		for a := range w.machines {
			for b := range w.machines {
				w.cut[[2]int{a, b}] = (side>>a^side>>b)&1 == 1
			}
		}
	case 4: // one way
		w.cut[[2]int{w.IntN(len(w.machines)), w.IntN(len(w.machines))}] = true
	}
}

// heal ends all faults.
func (w *world) heal() {
	clear(w.cut)
	w.chaos, w.loss, w.dup, w.delay = 0, 0, 0, 0
	for _, m := range w.machines {
		m.up, m.starved = min(m.up, w.now), 0
	}
}

// post sends a letter: it may get lost, come late, or twice.
func (w *world) post(l letter) {
	for {
		if w.Float64() >= w.loss {
			l.at = w.now + time.Duration(w.Float64()*float64(w.delay))
			if l.beacon != nil {
				l.at += w.machines[l.to].starved
			}
			w.letters = append(w.letters, l)
		}
		if w.Float64() >= w.dup {
			return
		}
	}
}

func (w *world) deliver() {
	letters := w.letters
	w.letters = nil // which answers are posted to
	for _, l := range letters {
		switch to := w.machines[l.to]; {
		case l.at > w.now:
			w.letters = append(w.letters, l)
		case !to.on || w.cut[[2]int{l.from, l.to}]:
		case l.beacon != nil:
			s := *l.beacon
			s.at = w.now
			to.view[s.ID] = s
		default:
			if m, err := forming.Decode(l.bytes); err == nil {
				w.receive(to, l.from, m)
			}
		}
	}
}

// receive is what a machine does with a message, by whether it has a group.
func (w *world) receive(to *machine, from int, m forming.Message) {
	switch {
	case m.To != to.disk.id:
	case to.disk.cluster == "":
		to.f.Receive(m)
	case m.Kind == forming.Ask:
		w.post(letter{from: to.slot, to: from, bytes: forming.Answered(m, to.disk.claim()).Encode()})
	case m.Kind == forming.Answer && to.disk.claim().YieldsTo(m.Claim()):
		w.dropped[to.disk.cluster] = true
		delete(w.groups, to.disk.cluster)
		to.disk.cluster, to.disk.founder, to.disk.birth = "", false, 0
		w.form(to, -1)
	}
}

// ask asks other groups whether they are there, once a second.
func (w *world) ask(m *machine) {
	if w.now-m.asked < time.Second {
		return
	}
	m.asked = w.now
	for _, l := range forming.Asks(m.disk.id, m.disk.claim(), forming.Groups(w.peers(m))) {
		w.post(letter{from: m.slot, to: m.view[l.To].slot, bytes: l.Encode()})
	}
}

// peers are the machines that m's gossip shows.
func (w *world) peers(m *machine) (peers []forming.Peer) {
	for id, s := range m.view {
		if w.now-s.at > aliveFor {
			delete(m.view, id)
		} else {
			peers = append(peers, s.Peer)
		}
	}
	return peers
}

// share notes durably that others join the group; not if the group is about to yield.
func (w *world) share(m *machine) bool {
	if len(forming.Asks(m.disk.id, m.disk.claim(), forming.Groups(w.peers(m)))) > 0 {
		return false
	}
	m.disk.shared = true
	return true
}

// gossip tells all others what this machine is.
func (w *world) gossip(m *machine) {
	claim := m.disk.claim()
	s := &sighting{Peer: forming.Peer{
		ID: m.disk.id, Fresh: m.disk.cluster == "", Cluster: claim.Cluster, Alone: claim.Alone, Birth: claim.Birth,
	}, slot: m.slot}
	for to := range w.machines {
		if to != m.slot {
			w.post(letter{from: m.slot, to: to, beacon: s})
		}
	}
}

// decide runs one Step of a fresh machine, the way a caller must: save, send, act.
func (w *world) decide(m *machine) error {
	o := m.f.Step(forming.Input{
		Now: m.clock(w.now), Unix: m.skew + int64(w.now/time.Second), Peers: w.peers(m), JoinTried: w.now-m.born > 3*time.Second,
	})
	if o.Save {
		m.disk.vote = o.Vote
	}
	if w.chaos > 0 && w.IntN(200) == 0 { // the process dies between saving and sending
		m.on, m.up = false, w.now+time.Second
		return nil
	}
	for _, l := range o.Send {
		for _, to := range w.machines {
			if s, ok := m.view[l.To]; ok && s.slot == to.slot || !ok && to.disk.id == l.To {
				w.post(letter{from: m.slot, to: to.slot, bytes: l.Encode()})
			}
		}
	}
	m.joining = ""
	switch o.Action {
	case forming.Join:
		m.joining = o.Cluster
	case forming.Form:
		w.formed++
		id := fmt.Sprintf("group-%d", w.formed)
		w.groups[id] = &raftGroup{voters: []string{m.disk.id}}
		m.disk.founder, m.disk.birth = true, o.Counter
		return w.adopt(m, id)
	}
	return nil
}

// adopt binds a machine to a group, durably.
func (w *world) adopt(m *machine, cluster string) error {
	if m.disk.cluster != "" || w.dropped[cluster] {
		return fmt.Errorf("%s belongs to %q and adopts %s, given up: %v", m.disk.id, m.disk.cluster, cluster, w.dropped[cluster])
	}
	m.disk.cluster, m.joining = cluster, ""
	return nil
}
