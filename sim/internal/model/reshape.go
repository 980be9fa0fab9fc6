package model

import (
	"math/bits"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/autopilot"
)

// newsMax is how long it takes at most until the news that a replica is heard again is applied by
// the next raft leader.
const newsMax = 5 * time.Second

// deathsApart is between two deaths for good, or a death and a leave. The planner admits that it
// cannot bear all that may come within the moment before a change and the time until its commit.
const deathsApart = 2 * time.Second

// reshaped is called where a change of the membership is applied first. A replica whose node does
// not leave is removed only if the raft leader had not heard it for long when it decided so, and the
// log had not said by then that another one had. The replica may be heard again before the commit:
// no raft leader takes a change back. A raft leader that heard the replica and lost its office before
// it looked, or before it could tell anybody, does not count. Where there are more replicas than shall
// follow, any standby may go.
func (w *world) reshaped(n *node, ch *change, made bool) {
	if !made {
		w.stats.Void++
		return
	}
	was := w.group
	w.group = n.members
	defer w.health()
	other := w.nodes[ch.who.node]
	if ch.kind == autopilot.Promote {
		w.stats.Promoted++
	}
	if ch.kind != autopilot.Remove {
		return
	}
	if ch.lets {
		w.stats.LetGo++
		return
	}
	if n := bits.OnesCount64(was.voters | was.standbys); w.plan.Standbys > 0 && !was.votes(ch.who.node) && n > w.plan.Voters+w.plan.Standbys {
		w.stats.Excess++
		return
	}
	if was.votes(ch.who.node) {
		if ch.stuck {
			w.stats.Stuck++
		}
		w.stats.Removed++
	}
	if other.retired {
		w.stats.Replaced++
	}
	if w.plan.Wild {
		return
	}
	least := w.atLeast(w.plan.ReplaceAfter) - 100*time.Millisecond
	if mine, said := ch.at-ch.heard, ch.at-ch.said; mine < least || said < least-newsMax {
		w.broken("who is heard stays", "node %d was removed %v after its last answer, %v after the log said that it is heard",
			ch.who.node, mine, said)
	}
}

// letGoMax is how long a leave takes at most where a majority is well.
const letGoMax = 10 * time.Second

func (w *world) unsettle(n *node, kind FaultKind, by int) {
	switch kind {
	case Die:
		if by > 0 {
			w.die(n)
		}
		return
	case Depart:
		w.depart(n, by)
		return
	}
	w.stats.Parted += uint64(max(0, by))
	for i := range w.nodes {
		there, back := &w.links[n.i*w.plan.Nodes+i], &w.links[i*w.plan.Nodes+n.i]
		if kind == Hush {
			there.hushed += by
			back.hushed += by
		} else {
			there.isolated += by
			back.isolated += by
		}
	}
}

// die ends a node for good, with its disk, if the group is to survive that.
func (w *world) die(n *node) {
	if n.retired || n.leaving || !w.bears(n) {
		return
	}
	w.stats.Died++
	w.calm, w.died = w.now, w.now
	w.tell("node %d dies with its disk", n.i)
	n.retire()
}

// depart lets a node leave for good. If it has not been let go at the end of the fault, its process
// ends, and another one goes on.
func (w *world) depart(n *node, by int) {
	switch {
	case by > 0:
		if n.up && !n.paused && n.joined && n.serves() && w.isCalm() && len(w.living()) > 1 {
			w.tell("node %d leaves", n.i)
			n.leave()
			w.health()
		}
	case n.leaving:
		if w.plan.Gentle && w.quorum && w.quorumSince <= n.since && w.now-n.since > letGoMax {
			w.broken("who leaves is let go", "node %d leaves for %v", n.i, w.now-n.since)
		}
		n.crash()
		w.down(n, 0)
	}
}

// isCalm says whether the raft leader has had the time to learn of the last death. One that was
// paused takes old answers for new ones.
func (w *world) isCalm() bool { return w.isApart(w.calm, w.now) }

// isApart says whether what comes then has nothing to do with what was before; 0: with nothing.
func (w *world) isApart(before, then time.Duration) bool {
	return before == 0 || then-before > w.newsTake()
}

// newsTake is how long it takes at most until the raft leader knows of a death.
func (w *world) newsTake() time.Duration { return deathsApart + w.plan.Net.Straggle }

// bears says whether the group survives the death of a node: a majority of the voters lives on, as
// the membership is and as a change would leave it that is under way; but who is promoted may die
// as that happens, if nobody else did. Nobody dies beside one who leaves, as both could be the last
// that was needed; nor beside an only voter, which may be about to promote it and cannot bear that;
// nor where it and a voter that the planner may give up just then would be one too many.
func (w *world) bears(dead *node) bool {
	if w.plan.Wild || !w.isCalm() {
		return false
	}
	now := w.group
	for _, n := range w.nodes {
		if n.paused || n.leaving || n.up && n.machine.Departed(n.id) == fsm.Leaves {
			return false
		}
		if n.raft.conf.index > now.index {
			now = n.raft.conf
		}
	}
	alive := uint64(0)
	for _, n := range w.nodes {
		if !n.retired && n != dead && now.includes(n.raft.replicaID()) {
			alive |= 1 << n.i
		}
	}
	ok := now.majority(alive) && bits.OnesCount64(now.voters) > 1
	consider := func(ch *change) {
		if ch.kind == autopilot.Promote && ch.who == dead.raft.replicaID() && w.isApart(w.died, ch.at) {
			return // the planner has counted it dead
		}
		if next := now.after(ch, now.index+1); next != nil {
			ok = ok && next.majority(alive)
		}
	}
	for _, n := range w.nodes {
		for _, e := range n.raft.log {
			if e.conf != nil {
				consider(e.conf)
			}
		}
		if n.pilot.doing != nil {
			consider(n.pilot.doing)
		}
		if n != dead && now.votes(n.i) && w.isGivenUp(n) {
			consider(&change{kind: autopilot.Remove, who: replicaID{n.i, now.lives[n.i]}, on: now.index})
		}
	}
	return ok
}

// isGivenUp says whether the planner may remove a voter, as nobody hears it, before it can know of
// a death that comes now.
func (w *world) isGivenUp(n *node) bool {
	return w.now-w.answered[n.i]+w.newsTake() >= w.atLeast(w.plan.ReplaceAfter)
}

// atRest asks at the end of a run whether the planner has done all that it could: every node that
// lives has a replica, as many of them vote as shall, and no dead one votes beside those.
func (w *world) atRest() {
	if !w.plan.Planned {
		return
	}
	alive, living := uint64(0), w.living()
	for _, n := range living {
		alive |= 1 << n.i
		if !n.serves() {
			w.broken("every node comes to have a replica", "node %d, life %d", n.i, n.raft.self)
		}
	}
	voters := bits.OnesCount64(w.group.voters & alive)
	want := min(w.plan.Voters, len(living))
	if voters < want && len(living) > 2 || voters >= w.plan.Voters && w.group.voters&^alive != 0 {
		w.broken("the membership comes to be as wanted", "%d of %d nodes that live vote, and %d dead ones: %d shall",
			voters, len(living), bits.OnesCount64(w.group.voters&^alive), want)
	}
}

// config is who belongs to the group: a bit for each node. A node has one replica in it at most. It
// never changes.
type config struct {
	voters, standbys uint64
	lives            []uint64 // by node: the life of the last replica that it had in the group; 0: none yet
	index            uint64   // of the entry that made it, which the next change must name
}

type change struct {
	kind  autopilot.Kind // AddStandby, Promote or Remove
	who   replicaID
	on    uint64        // config.index that it was decided on: it is void under any other
	term  uint64        // in which it was decided, which the same holds for
	at    time.Duration // when it was decided, in true time
	lets  bool          // its node had said that it leaves
	heard time.Duration // when who decided it was last answered by the replica, as far as it looked
	stuck bool          // it was heard, and took nothing
	said  time.Duration // when the log last said that the replica is heard, as of then
}

type replicaID struct {
	node int
	life uint64
}

func (c *config) votes(i int) bool { return c.voters>>i&1 != 0 }

func (c *config) has(i int) bool { return (c.voters|c.standbys)>>i&1 != 0 }

func (c *config) includes(s replicaID) bool { return c.has(s.node) && c.lives[s.node] == s.life }

func (c *config) majority(votes uint64) bool {
	return bits.OnesCount64(votes&c.voters) > bits.OnesCount64(c.voters)/2
}

// after is the membership once a change is carried out, nil if it is refused.
func (c *config) after(ch *change, index uint64) *config {
	bit := uint64(1) << ch.who.node
	next := &config{c.voters, c.standbys, slices.Clone(c.lives), index}
	switch {
	case ch.on != c.index:
		return nil
	case ch.kind == autopilot.AddStandby && !c.has(ch.who.node) && ch.who.life > c.lives[ch.who.node]:
		next.standbys |= bit
		next.lives[ch.who.node] = ch.who.life
	case !c.includes(ch.who):
		return nil
	case ch.kind == autopilot.Promote && c.standbys&bit != 0:
		next.voters, next.standbys = c.voters|bit, c.standbys&^bit
	case ch.kind == autopilot.Remove && c.voters != bit:
		next.voters, next.standbys = c.voters&^bit, c.standbys&^bit
	default:
		return nil
	}
	return next
}

func (p *Plan) founders() *config {
	c := &config{lives: make([]uint64, p.Nodes)}
	for i := range p.Nodes - len(p.Spares) {
		c.lives[i] = 1
		if i < p.Voters {
			c.voters |= 1 << i
		} else {
			c.standbys |= 1 << i
		}
	}
	return c
}
