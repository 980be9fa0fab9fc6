package autopilot_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/autopilot"
)

// place is what a node of the small world can be. Dead includes cut off: what is dead may be heard
// again, except who has gone. A fresh death is one that the raft leader can't know of yet: it heard
// the node a moment ago.
type place uint8

const (
	empty place = iota
	candidate
	standbyNew // catches up
	standbyReady
	standbyFresh
	standbyDead
	standbyLeaves
	voterWell
	voterFresh
	voterSilent
	voterLong // silent for ReplaceAfter
	leaverWell
	leaverFresh
	leaverSilent
	leaverLong
	voterGone
)

func (p place) votes() bool   { return p >= voterWell }
func (p place) follows() bool { return p >= standbyNew && p <= standbyLeaves }
func (p place) fresh() bool   { return p == standbyFresh || p == voterFresh || p == leaverFresh }
func (p place) lives() bool {
	switch p {
	case candidate, standbyNew, standbyReady, standbyLeaves, voterWell, leaverWell:
		return true
	}
	return false
}

const slots = 9

// What a slot has beside its place.
const (
	leader    = 1 << (iota + 4) // it is raft leader
	newcomer                    // it was promoted a moment ago
	asked                       // the raft leader has asked for a change of it and knows no outcome
	astray                      // a change of it that somebody has given up is still under way
	flags     = leader | newcomer | asked | astray
	successor = 1 << 8  // it was promoted: repair_test.go alone asks
	unable    = 1 << 9  // it can do nothing without a replica; a voter's ability is never asked
	unfit     = 1 << 10 // its disk bears no replica, and it works as a client
)

// What the world has beside its slots.
const (
	listening   = 1 << iota // the raft leader has listened for a moment
	unknown                 // the raft leader must pass a barrier first
	newcomerHit             // a voter died since the newcomer's promotion was decided, or shortly before
	askedRemoves
	askedHit
	astrayRemoves
	astrayHit
)

// world is a fleet of a few nodes, its group, and the changes to its membership that are under way.
// All changes under way name the present membership: as soon as one is applied, the others are void
// (P8).
type world struct {
	slot     [slots]uint16
	bits     uint8
	standbys uint8 // how many shall follow besides those that vote; 0: every node
	mixed    bool  // some newcomers can do nothing without a replica
	sick     bool  // disks of clients fail
	zones    bool  // as zoned gives them
}

// change is one under way.
type change struct{ removes, hit bool }

func (w *world) at(i int) place       { return place(w.slot[i] & 15) }
func (w *world) put(i int, p place)   { w.slot[i] = w.slot[i]&^15 | uint16(p) }
func (w *world) is(i int, f int) bool { return w.slot[i]&uint16(f) != 0 }
func (w *world) find(f int) int {
	return slices.IndexFunc(w.slot[:], func(s uint16) bool { return s&uint16(f) != 0 })
}

func (w *world) unset(f int) {
	for i := range w.slot {
		w.slot[i] &^= uint16(f)
	}
}

func (w *world) set(bit uint8, on bool) {
	w.bits &^= bit
	if on {
		w.bits |= bit
	}
}

// key is the same for worlds of one exploration that differ in nothing but names, of nodes or of the
// hosts of one zone. It holds six nodes, or five whose disks may be sick.
func (w world) key() uint64 {
	k, width := uint64(0), 9
	switch {
	case w.zones:
		for i := range 3 {
			w.slot[i], w.slot[i+3] = min(w.slot[i], w.slot[i+3]), max(w.slot[i], w.slot[i+3])
		}
	default:
		slices.Sort(w.slot[:])
		if w.sick {
			width = 10
		}
	}
	for _, s := range w.slot {
		k = k<<width | uint64(s&255) | uint64(s&(unable|unfit))>>1
	}
	return k<<7 | uint64(w.bits)
}

// voters counts the voters, and those that live.
func (w *world) voters() (all, living int) {
	for i := range w.slot {
		if p := w.at(i); p.votes() {
			all++
			if p.lives() {
				living++
			}
		}
	}
	return all, living
}

func (w *world) lost() bool {
	all, living := w.voters()
	return 2*living <= all
}

// unheardOf reports whether a voter has died and the raft leader can't know it yet.
func (w *world) unheardOf() bool {
	return slices.ContainsFunc(w.slot[:], func(s uint16) bool { p := place(s & 15); return p.votes() && p.fresh() })
}

const index = 7 // of the present membership: changes under another are void, and are forgotten at once

// apply is what the group does with a change that names the present membership. It reports whether
// the promises allow what comes of it: the two cases that no order of single changes can avoid, and
// no more.
func (w *world) apply(i int, c change) (excused bool) {
	before, _ := w.voters()
	p := w.at(i)
	w.unset(asked | astray | newcomer)
	w.bits &^= newcomerHit | askedRemoves | askedHit | astrayRemoves | astrayHit
	switch {
	case c.removes:
		excused = c.hit && p.lives()
		sick := w.slot[i] & unfit
		w.slot[i] = 0
		if w.standbys > 0 && (p == standbyNew || p == standbyReady || sick != 0) { // it asks again
			w.slot[i] = uint16(candidate) | sick
		}
	case p == candidate && w.is(i, unfit):
		w.put(i, standbyDead)
	case p == candidate:
		w.put(i, standbyNew)
	case p.follows():
		excused = (c.hit || before == 1) && !p.lives()
		w.put(i, map[place]place{standbyNew: voterWell, standbyReady: voterWell, standbyFresh: voterFresh, standbyDead: voterSilent, standbyLeaves: leaverWell}[p])
		w.slot[i] = w.slot[i]&^(unable|unfit) | newcomer | successor
		w.set(newcomerHit, c.hit || before == 1)
	}
	return excused
}

// ask carries out a step of the raft leader as far as it is its own part.
func (w *world) ask(p autopilot.Plan) error {
	switch p.Kind {
	case autopilot.Barrier:
		w.set(unknown, false)
	case autopilot.HandOver:
		w.elect(slotOf(p.Node))
	case autopilot.AddStandby, autopilot.Promote, autopilot.Remove:
		if p.Index != index {
			return fmt.Errorf("P8: %s of %s under index %d is void", p.Kind, p.Node, p.Index)
		}
		i := slotOf(p.Node)
		w.slot[i] |= asked
		w.set(askedRemoves, p.Kind == autopilot.Remove)
		w.set(askedHit, w.unheardOf())
	}
	return nil
}

// giveUp is the raft leader's patience at its end, or its reign's: what it asked for may still
// come.
func (w *world) giveUp() {
	if i := w.find(asked); i >= 0 {
		w.unset(asked | astray)
		w.slot[i] |= astray
		w.set(astrayRemoves, w.bits&askedRemoves != 0)
		w.set(astrayHit, w.bits&askedHit != 0)
		w.bits &^= askedRemoves | askedHit
	}
	w.set(unknown, true)
}

// elect makes another voter raft leader, if it lives.
func (w *world) elect(i int) {
	if !w.at(i).lives() {
		return
	}
	w.giveUp()
	w.unset(leader)
	w.slot[i] |= leader
	w.set(listening, false)
}

// moment passes: the raft leader notices who is dead.
func (w *world) moment() {
	for i := range w.slot {
		if p := w.at(i); p.fresh() {
			w.put(i, p+1)
		}
	}
	w.unset(newcomer)
	w.bits = w.bits&^newcomerHit | listening
}

// input is what the raft leader knows. One that has not listened yet has older knowledge, the worst
// there can be.
func (w *world) input(want int) autopilot.Input {
	in := autopilot.Input{Want: want, Standbys: int(w.standbys), Index: index, Unknown: w.bits&unknown != 0, Members: make([]autopilot.Member, 0, slots)}
	if w.bits&listening != 0 {
		in.Listening = time.Minute
	}
	for i := range w.slot {
		p := w.at(i)
		if p == empty {
			continue
		}
		m := autopilot.Member{Node: names[i], Age: time.Minute, Running: p != standbyNew, Able: w.standbys > 0 && !w.is(i, unable)}
		switch {
		case p.votes():
			m.Role = autopilot.Voter
			if p.lives() { // gossip has it the wrong way round: P7
				m.Seen = time.Hour
			}
		case p.follows():
			m.Role = autopilot.Standby
		}
		switch p {
		case standbyDead:
			m.Heard, m.Seen = time.Hour, time.Hour
			if w.standbys > 0 { // its node may come back
				m.Heard, m.Seen = time.Minute, time.Minute
			}
			if m.Unfit = w.is(i, unfit); m.Unfit {
				m.Seen = 0
			}
		case candidate:
			m.Unfit = w.is(i, unfit)
		case voterSilent, leaverSilent:
			m.Heard = 10 * time.Second
		case voterLong, leaverLong:
			m.Heard = time.Minute
		}
		switch p {
		case standbyLeaves, leaverWell, leaverFresh, leaverSilent, leaverLong:
			m.Departure = fsm.Leaves
		case voterGone:
			m.Departure = fsm.Gone
		}
		if w.is(i, leader) {
			in.Self = m.Node
		} else if w.bits&listening == 0 {
			m.Heard = time.Minute - m.Heard
		}
		if w.zones {
			m.Zone = zoneOf(i)
		}
		in.Members = append(in.Members, m)
	}
	return in
}

var names = [slots]string{"a", "b", "c", "d", "e", "f", "g", "h", "i"}

func slotOf(node string) int { return slices.Index(names[:], node) }

// bears is how many more deaths leave a majority.
func (w *world) bears() int {
	all, living := w.voters()
	return living - (all/2 + 1)
}

func (w world) String() string {
	words := [...]string{"", "candidate", "catches up", "standby", "standby†?", "standby†", "standby leaves", "voter", "voter†?", "voter†", "voter††",
		"leaves", "leaves†?", "leaves†", "leaves††", "gone"}
	var list []string
	for i := range w.slot {
		s := words[w.at(i)]
		for f, word := range map[int]string{leader: " (raft leader)", newcomer: " (new)", successor: " (successor)", unable: " (unable)", unfit: " (unfit)", asked: " (asked)", astray: " (astray)"} {
			if w.is(i, f) {
				s += word
			}
		}
		if s != "" {
			list = append(list, names[i]+" "+s)
		}
	}
	return fmt.Sprintf("%s; bits %07b", strings.Join(list, ", "), w.bits)
}
