package model

import (
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/session"
)

// errClockStopped is the product's (internal/seam).
var errClockStopped = errors.New("the clocks of this machine stood still")

// standstill is how long the clocks of a machine have stood still with it, in true time.
type standstill struct {
	freezes int           // faults that hold it
	since   time.Duration // if there are any
	before  time.Duration // in all standstills that are over
}

// lost is what the machine's clocks have lost by now.
func (n *node) lost() time.Duration {
	if n.stood.freezes > 0 {
		return n.stood.before + n.w.now - n.stood.since
	}
	return n.stood.before
}

// freeze stops a machine with all of its clocks, as a hypervisor does, or lets it go on.
func (w *world) freeze(n *node, by int) {
	switch n.stood.freezes += by; {
	case by > 0 && n.stood.freezes == 1:
		n.stood.since = w.now
		n.clock.stop(w.now)
	case by < 0 && n.stood.freezes == 0:
		n.thaw(w.now - n.stood.since)
	}
	w.still(n, by)
}

// thaw has the clocks of a machine go on where they stood. What its engine counts in ticks has lost as much,
// or as long as its process has run.
func (n *node) thaw(d time.Duration) {
	n.stood.freezes = 0
	n.stood.before += d
	n.clock.goOn(n.w.now)
	if n.w.trace != nil {
		n.w.tell("the clocks of node %d have stood still for %v", n.i, d)
	}
	d = min(d, n.w.now-n.began)
	n.timing = min(n.timing+d, n.w.now)
	r := &n.raft
	r.due += d
	r.met = min(r.met+d, n.w.now)
	if r.shunned > 0 {
		r.shunned += d
	}
	for _, list := range [][]time.Duration{r.heard, r.said, r.took, r.again} {
		for i := range list {
			if list[i] > 0 {
				list[i] += d
			}
		}
	}
	n.reset(&n.ends)
	n.reset(&n.keeper.timer)
	for _, t := range n.tenures {
		left := time.Duration(float64(t.grant.Until().Sub(n.now())) / n.clock.rate)
		if k := &n.keeper; left > 0 && t.misled() && left < n.lost()-k.most[t.grant.Session().ID().Number].lost {
			n.w.stats.Misled++
		}
	}
}

// goOn lets a process go on whose disk was opened elsewhere, whatever has stopped it.
func (n *node) goOn() {
	if n.stood.freezes > 0 {
		n.thaw(n.w.now - n.stood.since)
	}
	n.resume()
}

// reading is of a node's clock, and beside it for how long that had run in true time.
type reading struct {
	clock lease.Instant
	ran   time.Duration
}

func (n *node) reading() reading { return reading{n.now(), n.w.now - n.lost()} }

// stamp is what a message of Raft carries of clocks (internal/consensus/wire).
type stamp struct {
	by    uint64 // incarnation of the sender's process
	sent  reading
	heard heardClock // the last one of the receiver
}

// heardClock is the last clock of another process that came to this one.
type heardClock struct {
	of         uint64  // incarnation of that process; 0: none has come
	sent, came reading // that one's, and the own one
}

// peer is what a process knows of the clock of another one.
type peer struct {
	heardClock
	clock lease.Peer
	known bool
	best  float64 // if it is known: of the model's own account, see node.shows
}

func (n *node) stamp(to int) *stamp {
	if !n.w.plan.Compared && !n.w.freezes {
		return nil
	}
	return &stamp{n.incarnation, n.reading(), n.peers[to].heardClock}
}

// compare is Carrier.compare: if a message shows that the own clock has lost time all leases end, before
// the message is read. A wild plan has no bound to judge that by.
func (n *node) compare(from int, s *stamp) {
	w, p, now := n.w, &n.peers[from], n.reading()
	switch {
	case s.by < p.of:
		return // of a former process
	case s.by > p.of:
		*p = peer{}
	}
	p.heardClock = heardClock{s.by, s.sent, now}
	echo := s.heard
	if echo.of != n.incarnation {
		echo = heardClock{}
	}
	must := n.shows(p, s.sent, echo, now)
	lost := p.clock.Behind(lease.Reading{
		Sent: s.sent.clock, Came: now.clock, Echo: echo.sent.clock, Heard: echo.came.clock,
	}, n.behind, w.plan.Drift)
	if !w.plan.Compared { // a product that is broken, for tests
		lost = 0
	}
	if !w.plan.Wild {
		w.comparesRightly(n, from, must, lost)
	}
	if lost == 0 {
		return
	}
	w.stats.Stopped++
	if w.trace != nil {
		w.tell("node %d has lost %v by the clock of node %d", n.i, lost, from)
	}
	n.behind, n.shown = now.clock, n.lost()
	for i := range n.peers {
		n.peers[i].known = false
	}
	n.keeper.lose(errClockStopped)
	for _, s := range n.keeper.table.All() {
		if s.Until() > n.now() {
			w.broken("nobody relies on a lease of before its clock stood still", "node %d: session %d", n.i, s.ID().Number)
		}
	}
}

// shows says whether a message must show that this node's clock stood still: it has, for longer than the
// way of the message, the way of an earlier one back, the bound of the clocks and what may be overlooked
// together. That is reckoned in true time, by what each clock gains at least and at most.
func (n *node) shows(p *peer, sent reading, echo heardClock, now reading) bool {
	drift := n.w.plan.Drift
	slow, fast := 1-drift/2, (1+drift/2)/(1-drift)
	if echo.sent.clock > n.behind && echo.of != 0 {
		most := fast*float64(echo.sent.ran) - slow*float64(echo.came.ran)
		if !p.known || most > p.best {
			p.known, p.best = true, most
		}
	}
	least := slow*float64(sent.ran) - fast*float64(now.ran) + p.best
	return p.known && least > float64(lease.Overlooked+dozes)
}

// dozes is what a clock may overlook beside its standstills, with what is lost by rounding.
const dozes = lease.MarginMin + time.Millisecond

// comparesRightly judges what a process made of a message: it has found out what the message shows, and
// no more than its clock has lost since it began or found that out last.
func (w *world) comparesRightly(n *node, from int, must bool, lost time.Duration) {
	stood := n.lost() - n.shown
	switch {
	case must && lost == 0:
		w.broken("a clock that stood still is found out", "node %d has lost %v, which a message of node %d shows", n.i, stood, from)
	case lost > stood+stood/10+dozes:
		w.broken("no clock is taken for one that stood still", "node %d lost %v, by the clock of node %d %v", n.i, stood, from, lost)
	}
}

// lose is keeper.loseAll.
func (k *keeper) lose(cause error) {
	k.table.LoseAll(cause)
	k.attend()
}

// misled says whether this node may take a session for valid that is not: its clock has stood still since
// the renewal was sent by which the session is valid, and no message has shown that yet.
func (k *keeper) misled(s *session.Session) bool {
	lost := k.n.lost()
	if lost == 0 {
		return false
	}
	from := k.most[s.ID().Number].lost
	return from < lost && from >= k.n.shown
}

func (t *tenure) misled() bool { return t.n.keeper.misled(t.grant.Session()) }

// counts says whether the lease is valid, and the holder's clock can tell.
func (t *tenure) counts() bool { return t.lasts() && !t.misled() }

// validity is the end of one, and what the clock had lost when the command was sent from which it counts.
type validity struct {
	until lease.Instant
	lost  time.Duration
}

func (n *node) validFor(sent validity, ttl time.Duration) validity {
	return validity{lease.ValidUntil(sent.until, ttl, n.w.plan.Drift), sent.lost}
}
