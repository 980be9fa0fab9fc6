package model

import (
	"math/bits"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/autopilot"
)

// config is who belongs to the group: a bit for each node. A node has one replica in it at most. It
// never changes.
type config struct {
	voters, standbys uint64
	lives            []uint64 // by node: the life of the last replica that it had in the group; 0: none yet
	index            uint64   // of the entry that made it, which the next change must name
}

// change is a change of the membership, by one replica.
type change struct {
	kind  autopilot.Kind // AddStandby, Promote or Remove
	who   replicaID
	on    uint64        // config.index that it was decided on: it is void under any other
	at    time.Duration // when it was decided, in true time
	lets  bool          // its node had said that it leaves
	heard time.Duration // when who decided it was last answered by the replica, as far as it looked
}

// replicaID is a replica: a node in one of its lives.
type replicaID struct {
	node int
	life uint64
}

func (c *config) votes(i int) bool { return c.voters>>i&1 != 0 }

func (c *config) has(i int) bool { return (c.voters|c.standbys)>>i&1 != 0 }

// includes says whether a replica is a member.
func (c *config) includes(s replicaID) bool { return c.has(s.node) && c.lives[s.node] == s.life }

// majority says whether these nodes are one of the voters.
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

// founders is the membership that a plan begins with.
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
