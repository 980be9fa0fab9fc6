package wire

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/lease"
)

// Each batch follows a frame with its sender's clock, in one write. So whatever a replica is told
// comes after what shows whether its own clock has stood still meanwhile (see lease.Peer), and a fleet
// at rest has this with its heartbeats.

// clockFrame is the sender's clock, and its last reading of the receiver's.
type clockFrame struct {
	sent lease.Instant // the sender's, before this frame
	heardFrom
}

// heardFrom is the last clock that a process has sent here.
type heardFrom struct {
	incarnation uint64        // of that process, whose clock no other one shares
	clock       lease.Instant // its own
	at          lease.Instant // the clock here, after it came
}

const clockBytes = 4 * 8

// appendTo appends the whole frame to b.
func (f clockFrame) appendTo(b []byte) []byte {
	at := len(b)
	b = append(b, make([]byte, frameHeader)...)
	for _, v := range [...]uint64{uint64(f.sent), f.incarnation, uint64(f.clock), uint64(f.at)} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	putHeader(b[at:], frameClock)
	return b
}

func decodeClock(b []byte) (f clockFrame, err error) {
	if len(b) != clockBytes {
		return f, fmt.Errorf("%w: clock of %d bytes", errFrame, len(b))
	}
	number := func(i int) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) }
	f.sent = lease.Instant(number(0))
	f.heardFrom = heardFrom{incarnation: number(1), clock: lease.Instant(number(2)), at: lease.Instant(number(3))}
	return f, nil
}

// clock is what a message to a replica says of clocks now.
func (c *Carrier) clock(to uint64) clockFrame {
	return clockFrame{sent: c.cfg.Clock(), heardFrom: c.Nodes.heardFrom(to)}
}

// heardFrom is the clock that the process of a replica has sent last.
func (r *Registry) heardFrom(replica uint64) heardFrom {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.find(r.members[replica]); s != nil && s.replica == replica {
		return s.clock
	}
	return heardFrom{}
}

// compare compares the clock of a sender with the own one at now, and tells of time that the own one
// has lost.
func (c *Carrier) compare(f clockFrame, from *inbound) {
	now := c.cfg.Clock()
	if lost := c.Nodes.compare(f, from, now, c.self.incarnation, c.cfg.Drift); lost > 0 {
		c.cfg.Behind(lost, from.node)
	}
}

func (r *Registry) compare(f clockFrame, from *inbound, now lease.Instant, self uint64, drift float64) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if from.gone {
		return 0
	}
	s := r.nodes[from.node]
	s.clock = heardFrom{incarnation: from.incarnation, clock: f.sent, at: now}
	if f.incarnation != self { // it has heard no clock of this process yet
		f.clock, f.at = 0, 0
	}
	lost := s.peer.Behind(lease.Reading{Sent: f.sent, Came: now, Echo: f.clock, Heard: f.at}, r.behind, drift)
	if lost > 0 {
		r.behind = now
	}
	return lost
}
