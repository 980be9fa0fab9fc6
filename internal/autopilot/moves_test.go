package autopilot_test

import (
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/autopilot"
)

// moves calls yield with every world that may come next, and what happened. What breaks a promise
// at once is an error.
func (w world) moves(nodes int, plan autopilot.Plan, yield func(string, world, error)) {
	w.shellMoves(plan, yield)
	w.worldMoves(yield)
	for i := range nodes {
		w.nodeMoves(i, yield)
	}
}

// shellMoves: the raft leader takes its step; what was asked for comes, late or not at all.
func (w world) shellMoves(plan autopilot.Plan, yield func(string, world, error)) {
	own, stray := w.find(asked), w.find(astray)
	if own < 0 && plan.Kind > autopilot.Wait {
		n := w
		err := n.ask(plan)
		yield(fmt.Sprintf("%s %s", plan.Kind, plan.Node), n, err)
	}
	arrive := func(what string, i int, c change, unheard bool) {
		n := w
		if excused := n.apply(i, c); n.lost() {
			if !excused {
				yield(what, n, fmt.Errorf("a change loses the group"))
			}
			return
		}
		if unheard {
			n.set(unknown, true)
		}
		n.led(what, yield)
	}
	if own >= 0 {
		c := change{w.bits&askedRemoves != 0, w.bits&askedHit != 0}
		arrive("done", own, c, false)
		arrive("done, unheard", own, c, true)
		n := w
		n.giveUp()
		yield("no answer", n, nil)
	}
	if stray >= 0 {
		c := change{w.bits&astrayRemoves != 0, w.bits&astrayHit != 0}
		arrive("done late", stray, c, own >= 0)
		n := w
		n.unset(astray)
		n.bits &^= astrayRemoves | astrayHit
		yield("never done", n, nil)
	}
}

func (w world) worldMoves(yield func(string, world, error)) {
	n := w
	n.moment()
	yield("a moment", n, nil)
	for i := range w.slot {
		if p := w.at(i); p.votes() && p.lives() && !w.is(i, leader) {
			n := w
			n.elect(i)
			yield("elected", n, nil)
		}
	}
}

// nodeMoves: what can become of one node.
func (w world) nodeMoves(i int, yield func(string, world, error)) {
	to := func(what string, p place) {
		n := w
		n.put(i, p)
		yield(what, n, nil)
	}
	w.diskMoves(i, yield)
	switch p := w.at(i); p {
	case empty:
		to("joins", candidate)
		if w.mixed {
			n := w
			n.slot[i] |= unable
			n.put(i, candidate)
			yield("joins, unable", n, nil)
		}
	case standbyNew, standbyReady:
		if p == standbyNew {
			to("has caught up", standbyReady)
		}
		to("leaves", standbyLeaves)
		to("dies", standbyFresh)
	case standbyFresh, standbyDead:
		if !w.is(i, unfit) {
			to("is back", standbyNew)
		}
	case voterWell, leaverWell:
		w.die(i, p+1, yield)
		w.die(i, voterGone, yield)
		if p == voterWell {
			to("leaves", leaverWell)
		}
	case voterFresh, voterSilent, voterLong:
		to("is back", voterWell)
	case leaverFresh, leaverSilent, leaverLong:
		to("is back", leaverWell)
	}
	if p := w.at(i); p == voterSilent || p == leaverSilent {
		to("is silent for long", p+1)
	}
}

// diskMoves: the disk of a client fails, before or as it starts the replica that it was given, and is well again.
func (w world) diskMoves(i int, yield func(string, world, error)) {
	if !w.sick || w.is(i, unable) {
		return
	}
	to := func(what string, p place, sick uint16) {
		n := w
		n.put(i, p)
		n.slot[i] = n.slot[i]&^unfit | sick
		yield(what, n, nil)
	}
	switch p := w.at(i); {
	case p == candidate:
		to("its disk changes", candidate, ^w.slot[i]&unfit)
	case p == standbyNew:
		to("cannot start", standbyDead, unfit)
	case p == standbyDead && w.is(i, unfit):
		to("starts after all", standbyNew, 0)
		to("dies, never started", standbyDead, 0)
	}
}

// die: a voter dies, or says that it ends, while a majority of the current voters lives without it.
// The newcomer may die just so, if no other voter has died since its promotion was decided.
func (w world) die(i int, as place, yield func(string, world, error)) {
	free := w.is(i, newcomer) && w.bits&newcomerHit == 0
	n := w
	n.put(i, as)
	if n.lost() {
		if free {
			yield("dies, just promoted", n, fmt.Errorf("the newcomer's death loses the group"))
		}
		return
	}
	if n.find(asked) >= 0 {
		n.bits |= askedHit
	}
	if n.find(astray) >= 0 {
		n.bits |= astrayHit
	}
	if n.find(newcomer) >= 0 {
		n.bits |= newcomerHit
	}
	if n.is(i, leader) {
		n.slot[i] &^= leader
	}
	n.led("dies", yield)
}

// led yields the world, once for each raft leader that it may elect if it has none.
func (w world) led(what string, yield func(string, world, error)) {
	if w.find(leader) >= 0 {
		yield(what, w, nil)
		return
	}
	for i := range w.slot {
		if p := w.at(i); p.votes() && p.lives() {
			n := w
			n.elect(i)
			yield(what+", elected", n, nil)
		}
	}
}

// settle lets the world come to rest without further deaths, and says why it does not. If nobody
// loses patience, who is silent stays so, and the raft leader may have to wait; else it gets the
// shape that is wanted.
func (w world) settle(want int, patient bool, known map[uint64]bool) error {
	w.unset(asked | astray)
	w.bits &= listening | unknown
	var keys []uint64
	for range 60 {
		w.moment()
		for i := range w.slot {
			switch p := w.at(i); {
			case p == standbyNew:
				w.put(i, standbyReady)
			case p == voterSilent && !patient, p == leaverSilent && !patient:
				w.put(i, p+1)
			}
		}
		key := w.key()
		if known[key] {
			return remember(known, keys)
		}
		keys = append(keys, key)
		if err := w.deaf(want); err != nil {
			return err
		}
		plan, bears := autopilot.Next(w.input(want)), w.bears()
		if plan.Bears != bears {
			return fmt.Errorf("%d more deaths are said to be borne by %v", plan.Bears, w)
		}
		if plan.Kind <= autopilot.Wait {
			if err := w.shape(want, plan); err != nil && !patient {
				return fmt.Errorf("at rest as %v (%s): %w", w, plan.Reason, err)
			}
			return remember(known, keys)
		}
		if err := errors.Join(w.judge(plan, want), w.ask(plan)); err != nil {
			return fmt.Errorf("%w: %v", err, w)
		}
		if i := w.find(asked); i >= 0 {
			n := w.census()
			leaves := w.at(i) == leaverWell && (n[standbyReady] == 0 || n[voterWell]+n[voterSilent] >= want)
			if w.apply(i, change{removes: plan.Kind == autopilot.Remove}); w.bears() < bears && !leaves || w.lost() {
				return fmt.Errorf("%s costs a death that was borne before: %v", plan.Kind, w)
			}
		}
	}
	return fmt.Errorf("it never comes to rest")
}

func remember(known map[uint64]bool, keys []uint64) error {
	if known == nil {
		return nil
	}
	for _, k := range keys {
		known[k] = true
	}
	return nil
}
