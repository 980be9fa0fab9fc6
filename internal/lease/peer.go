package lease

import (
	"math"
	"time"
)

// Reading is what a message of another process says of clocks. Each instant that a message carries
// is of one process, and was read before the message was sent.
type Reading struct {
	Sent  Instant // the other's clock, before it sent this message
	Came  Instant // the own clock, after this message came
	Echo  Instant // the own clock, before it sent the last message that the other had received; 0: none
	Heard Instant // the other's clock, after that message had come
}

// Peer finds out whether this node's clock has stood still, by the clock of one other process. A
// hypervisor that pauses a machine may stop all of its clocks, and nothing in the machine shows it.
// The zero value has heard nothing yet.
//
// A message that left at Sent and came at Came shows that the other's clock is ahead by at least
// Sent-Came now: a delay makes that less. The echo shows by how much it was ahead at most: Heard-Echo,
// and a delay makes that more. The other's clock gains at most drift/(1-drift) of what the own one
// measures. So a least that exceeds the most is no delay and no drift: the own clock has lost time.
// A clock of the other that stands still, or falls behind, only makes the least less.
type Peer struct {
	most time.Duration // by which the other's clock was ahead at the instant at
	at   Instant       // 0: not known
}

// Overlooked is how far a clock may fall behind before Behind says so: what Margin leaves to leases
// of a usual TTL.
const Overlooked = MarginMax

// Behind returns how much time the own clock has lost at least since the other one was heard, or 0.
// A clock that is found to have lost time is compared anew: since is the instant of that, or 0, and
// what is older than that counts no more.
func (p *Peer) Behind(r Reading, since Instant, drift float64) time.Duration {
	if p.at <= since {
		*p = Peer{}
	}
	if p.at != 0 {
		p.most += gain(r.Came.Sub(p.at), drift)
		p.at = r.Came
	}
	if r.Echo > since && r.Echo <= r.Came {
		most := r.Heard.Sub(r.Echo) + gain(r.Came.Sub(r.Echo), drift)
		if p.at == 0 || most < p.most {
			p.most, p.at = most, r.Came
		}
	}
	if p.at == 0 {
		return 0
	}
	if lost := r.Sent.Sub(r.Came) - p.most; lost > Overlooked {
		return lost
	}
	return 0
}

// gain is what another clock gains at most while the own one measures d.
func gain(d time.Duration, drift float64) time.Duration {
	return time.Duration(math.Ceil(float64(max(0, d)) * drift / (1 - drift)))
}
