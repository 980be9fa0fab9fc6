package fsm

// past remembers the last PastMax grants that have ended, of all locks, in a ring of chunks. A chunk that was
// written since the last Fork is this machine's own.
type past struct {
	chunks [PastMax / pastChunk]*pastGrants
	count  uint64 // of all that ever ended
}

const pastChunk = 128

type pastGrants struct {
	epoch  uint64
	grants [pastChunk]pastGrant
}

type pastGrant struct {
	name, label    string
	owner          *owner
	token          uint64
	granted, ended uint64 // log indexes
	weight         uint32
	mode           Mode
	kind           EventKind
	reason         Reason
}

// PastGrant is a grant that has ended.
type PastGrant struct {
	Holder           // Granted is the log index of the grant
	Ended  uint64    // log index
	Kind   EventKind // EventReleased, EventLost or EventForced
	Reason Reason
}

func (p *past) add(epoch uint64, c *claim, kind EventKind, reason Reason, index uint64) {
	p.put(epoch, &pastGrant{
		name: c.name, label: c.label, owner: c.owner, token: c.token, granted: c.index, ended: index,
		weight: c.weight, mode: c.mode, kind: kind, reason: reason,
	})
}

func (p *past) put(epoch uint64, g *pastGrant) {
	at := p.count % PastMax
	chunk := &p.chunks[at/pastChunk]
	if *chunk == nil {
		*chunk = &pastGrants{epoch: epoch}
	} else if (*chunk).epoch != epoch {
		mine := **chunk
		mine.epoch = epoch
		*chunk = &mine
	}
	(*chunk).grants[at%pastChunk] = *g
	p.count++
}

// len is how many are remembered.
func (p *past) len() uint64 { return min(p.count, PastMax) }

// at is one of those remembered, the oldest being 0.
func (p *past) at(i uint64) *pastGrant {
	i = (p.count - p.len() + i) % PastMax
	return &p.chunks[i/pastChunk].grants[i%pastChunk]
}

// Past are the last grants of a lock that have ended, the last first, at most so many: as far as they are among
// the last PastMax of all locks.
func (m *Machine) Past(name string, most int) (grants []PastGrant) {
	for i := m.past.len(); i > 0 && len(grants) < most; i-- {
		if g := m.past.at(i - 1); g.name == name {
			grants = append(grants, g.view())
		}
	}
	return grants
}

func (g *pastGrant) view() PastGrant {
	return PastGrant{
		Holder: Holder{
			Session: g.owner.id, NodeName: g.owner.nodeName, Label: g.label, Token: g.token,
			Mode: g.mode, Weight: g.weight, Granted: g.granted,
		},
		Ended: g.ended, Kind: g.kind, Reason: g.reason,
	}
}
