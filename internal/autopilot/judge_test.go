package autopilot_test

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/autopilot"
)

// judge objects to a step that its rules forbid, though it may come to no harm: who votes loses its
// place for ever when it is removed, and every change is a moment of risk.
func (w *world) judge(p autopilot.Plan, want int) error {
	n := w.census()
	all, _ := w.voters()
	seeming := n[standbyReady] + n[standbyFresh] // they look ready to vote
	staying := n[voterWell] + n[voterFresh] + n[voterSilent]
	if w.bits&unknown != 0 && p.Kind > autopilot.Barrier {
		return fmt.Errorf("P1: %s while the last outcome is unknown", p.Kind)
	}
	switch p.Kind {
	case autopilot.Promote:
		at := w.at(slotOf(p.Node))
		switch {
		case at != standbyReady && at != standbyFresh:
			return errors.New("P2: who is promoted is not ready")
		case staying >= want:
			return errors.New("P10: one voter too many is made")
		case all == 1 && seeming < 2 && n[voterWell] == 1:
			return errors.New("P2: from one voter to two, and no further")
		}
	case autopilot.Remove:
		switch at := w.at(slotOf(p.Node)); {
		case w.is(slotOf(p.Node), leader):
			return errors.New("P6: the raft leader removes itself")
		case at == voterWell || at == voterFresh || at == voterSilent:
			return errors.New("P3: a voter that stays is removed before ReplaceAfter")
		case at == standbyNew || at == standbyReady || at == standbyFresh:
			return w.judgeExcess(slotOf(p.Node), want)
		case at == voterLong && seeming == 0 && staying < want && n[leaverWell]+n[leaverFresh] == 0 &&
			(all-n[voterLong]-n[leaverLong])/2 == all/2:
			return errors.New("P4: a silent voter loses its place for nothing")
		}
	case autopilot.AddStandby:
		if w.is(slotOf(p.Node), unfit) {
			return errors.New("P15: a node is given a replica that cannot start it")
		}
		if i := slotOf(p.Node); w.full(want) && !w.is(i, unable) {
			return w.judgeExchange(i, want)
		}
	}
	return nil
}

// follow counts the replicas that stay, as far as the raft leader knows.
func (w *world) follow() int {
	n := w.census()
	return n[voterWell] + n[voterFresh] + n[voterSilent] + n[standbyNew] + n[standbyReady] + n[standbyFresh]
}

// full reports whether as many replicas follow as shall.
func (w *world) full(want int) bool { return w.standbys > 0 && w.follow() >= want+int(w.standbys) }

// judgeExcess objects to the removal of a standby that stays, unless it is P14's.
func (w *world) judgeExcess(i, want int) error {
	switch {
	case !w.full(want) || w.follow() == want+int(w.standbys):
		return errors.New("P7: a standby that stays is removed")
	case w.is(i, unable):
		return errors.New("P14: a node loses its replica that can do nothing without")
	case !w.entire(want):
		return errors.New("P14: a standby is removed while the voters are not well")
	}
	for other := range w.slot {
		if w.at(i) != standbyNew && w.at(other) == standbyNew && !w.is(other, unable) {
			return errors.New("P14: a standby is removed that is ready, and one stays that is not")
		}
		if w.seemsSpare(other) && w.uneven(-1, i) > w.uneven(-1, other) {
			return errors.New("P14: a standby is removed, and one of a more crowded zone or host stays")
		}
	}
	return nil
}

// seemsSpare reports whether a standby seems to live that could go on as a client.
func (w *world) seemsSpare(i int) bool {
	at := w.at(i)
	return !w.is(i, unable) && (at == standbyNew || at == standbyReady || at == standbyFresh)
}

// uneven says how unevenly the replicas are spread over zones, and then over hosts, if one node is
// given a replica and another loses its own; -1: none.
func (w *world) uneven(gets, loses int) (squares int) {
	zones, hosts := make(map[string]int), make(map[string]int)
	for i := range w.slot {
		at := w.at(i)
		has := at == voterWell || at == voterFresh || at == voterSilent || at == standbyNew || at == standbyReady || at == standbyFresh
		if (has || i == gets) && i != loses && w.zones {
			zones[zoneOf(i)[:1]]++
			hosts[zoneOf(i)]++
		}
	}
	for _, n := range zones {
		squares += 100 * n * n
	}
	for _, n := range hosts {
		squares += n * n
	}
	return squares
}

// judgeExchange objects to a replica for a candidate where as many follow as shall, unless that can be
// for another's, and spreads them more evenly.
func (w *world) judgeExchange(i, want int) error {
	switch n := w.census(); {
	case !w.improves(i):
		return errors.New("P14: a node is given a replica that nobody needs")
	case w.follow() > want+int(w.standbys), n[standbyNew]+n[standbyDead]+n[voterSilent] > 0, !w.entire(want):
		return errors.New("P14: a standby is exchanged while others are not well")
	}
	return nil
}

// improves reports whether a candidate would be better placed than a standby is.
func (w *world) improves(i int) bool {
	for other := range w.slot {
		if w.seemsSpare(other) && w.uneven(i, other) < w.uneven(-1, -1) {
			return true
		}
	}
	return false
}

// entire reports whether all voters seem well, and as many vote as shall.
func (w *world) entire(want int) bool {
	all, _ := w.voters()
	n := w.census()
	seeming := n[voterWell] + n[voterFresh]
	return seeming == all && seeming >= want
}

// shapeOfExcess objects to standbys and candidates that are still there in a world at rest.
func (w *world) shapeOfExcess(want int) error {
	all, _ := w.voters()
	n := w.census()
	well := n[voterWell]
	for i := range w.slot {
		able := !w.is(i, unable)
		switch at := w.at(i); {
		case at == standbyDead && w.is(i, unfit):
			return errors.New("P15: a standby stays that its node cannot start")
		case at == candidate && !w.is(i, unfit) && !(able && w.full(want)):
			return errors.New("P14: a replica is wanted, and a candidate gets none")
		case at == standbyReady && able && well == all && well >= want && w.follow() > want+int(w.standbys):
			return errors.New("P14: one standby too many stays")
		case at == candidate && !w.is(i, unfit) && n[standbyDead]+n[standbyLeaves] == 0 && w.entire(want) && w.follow() == want+int(w.standbys) && w.improves(i):
			return errors.New("P14: a zone or host stays crowded, and a candidate of another gets no replica")
		}
	}
	return nil
}

// ordered is the input of a raft leader that an operator has ordered to remove a node.
func (w *world) ordered(want int, node string) autopilot.Input {
	in := w.input(want)
	for i := range in.Members {
		if in.Members[i].Node == node {
			in.Members[i].Ordered = "it burnt"
		}
	}
	return in
}

// judgeOrder objects to the removal by order of a replica that is heard, or of the raft leader.
func (w *world) judgeOrder(p autopilot.Plan) error {
	switch at := w.at(slotOf(p.Node)); {
	case w.bits&unknown != 0 || w.is(slotOf(p.Node), leader):
		return errors.New("P11: an order removes the raft leader, or before a barrier")
	case at == voterWell, at == voterFresh, at == standbyReady, at == standbyFresh:
		return errors.New("P11: an order removes a replica that is heard")
	}
	return nil
}

// inherited is the world as the raft leader sees it when a node is an heir of a voter: P13.
func (w *world) inherited(want int, voter, heir string) autopilot.Input {
	in := w.input(want)
	for i := range in.Members {
		if in.Members[i].Node == voter {
			in.Members[i].Heir = heir
		}
	}
	return in
}

// judgeHeir objects to the early removal of a voter that is heard, or in whose place none could vote:
// its heir, or a standby if the heir works without a replica.
func (w *world) judgeHeir(p autopilot.Plan, heir int) error {
	if p.Kind != autopilot.Remove || w.at(slotOf(p.Node)) != voterSilent {
		return nil // judged without an heir
	}
	place, n := w.at(heir), w.census()
	switch {
	case w.bits&unknown != 0:
		return errors.New("P1: an heir is no reason to go past a barrier")
	case place == candidate && n[standbyReady]+n[standbyFresh] == 0, place != candidate && place != standbyReady && place != standbyFresh:
		return errors.New("P13: a voter goes for an heir, and none could vote in its place")
	}
	return nil
}

// deaf asks what the raft leader would do if it heard nobody else.
func (w *world) deaf(want int) error {
	in := w.input(want)
	in.Listening = time.Minute
	all, _ := w.voters()
	for i := range in.Members {
		if in.Members[i].Node != in.Self {
			in.Members[i].Heard = time.Minute
		}
	}
	if p := autopilot.Next(in); all > 1 && p.Kind > autopilot.Barrier {
		return fmt.Errorf("P1: %s of %s by a raft leader that hears nobody", p.Kind, p.Node)
	}
	return nil
}

// census counts the nodes in each place.
func (w *world) census() (n [voterGone + 1]int) {
	for i := range w.slot {
		n[w.at(i)]++
	}
	return n
}

// shape objects to what has become of a world at rest.
func (w *world) shape(want int, plan autopilot.Plan) error {
	n := w.census()
	all, _ := w.voters()
	dead, leaving := n[voterLong], n[leaverWell]
	others := n[standbyReady] // nodes that could vote
	stay := n[voterWell] + n[voterFresh] + n[voterSilent] + n[voterLong] + n[standbyNew] + n[standbyReady] + n[standbyFresh] + n[standbyDead]
	lacks := false // the place of a standby that died is free, and nobody takes it
	if w.standbys > 0 {
		if err := w.shapeOfExcess(want); err != nil {
			return err
		}
		lacks = n[standbyDead] > 0 && w.follow() < want+int(w.standbys)
		n[candidate], n[standbyDead] = 0, 0 // they may remain
	}
	switch {
	case n[candidate]+n[standbyDead] > 0, n[standbyLeaves] > 0 && stay > 0:
		return errors.New("who joins, leaves or died without a vote is still there")
	case n[voterGone]+n[leaverLong] > 0:
		return errors.New("who left for good still votes")
	case leaving > 0 && stay > 0 && (all > 1 || others > 0):
		return errors.New("who leaves is not let go")
	case n[voterWell] < want && others > 0 && !(all == 1 && others == 1 && leaving == 0):
		return fmt.Errorf("%d voters, though a standby is ready", n[voterWell])
	case n[voterWell] >= want && dead > 0:
		return errors.New("a dead voter stays")
	case all/2 > (all-dead)/2:
		return errors.New("dead voters cost a death that the living could bear")
	case (plan.Kind == autopilot.None) != (n[voterWell] >= want && leaving == 0 && !lacks):
		return fmt.Errorf("%s said of a membership that is otherwise", plan.Kind)
	}
	return nil
}

// zoneOf is the zone and host of a node: three zones of two hosts each.
func zoneOf(i int) string { return []string{"x/a", "y/a", "z/a", "x/b", "y/b", "z/b"}[i%6] }

// zoned gives the nodes of the world three zones of two hosts each, and objects if another zone than
// the emptiest gets a voter, or another host than its emptiest.
func zoned(in autopilot.Input) (autopilot.Plan, error) {
	zones, hosts := make(map[string]int), make(map[string]int)
	for i := range in.Members {
		m := &in.Members[i]
		m.Zone = zoneOf(slotOf(m.Node))
		if m.Role == autopilot.Voter && m.Departure == fsm.Stays && m.Heard < autopilot.ReplaceAfterDefault {
			zones[m.Zone[:1]]++
			hosts[m.Zone]++
		}
	}
	p := autopilot.Next(in)
	if p.Kind != autopilot.Promote {
		return p, nil
	}
	chosen := in.Members[slices.IndexFunc(in.Members, func(m autopilot.Member) bool { return m.Node == p.Node })]
	for _, m := range in.Members {
		ready := m.Role == autopilot.Standby && m.Departure == fsm.Stays && m.Running && m.Heard == 0
		here, there := zones[m.Zone[:1]], zones[chosen.Zone[:1]]
		if ready && (here < there || here == there && hosts[m.Zone] < hosts[chosen.Zone]) {
			return p, fmt.Errorf("P9: %s of %s is promoted before %s of %s", p.Node, chosen.Zone, m.Node, m.Zone)
		}
	}
	return p, nil
}
