package relay

import (
	"net/netip"

	"github.com/holdfast-go/holdfast/transport"
)

const (
	packetRead = 64 << 10
	waitingMax = 4096 // packets of one direction that are held back; more are lost
)

func (p *port) receive() {
	buffer := make([]byte, packetRead)
	for {
		n, _, err := p.udp.ReadFromUDPAddrPort(buffer)
		if err != nil {
			select {
			case <-p.r.closed:
				return
			default:
				continue // what an earlier packet met: nobody listens there
			}
		}
		p.carry(append([]byte(nil), buffer[:n]...))
	}
}

func (p *port) carry(b []byte) {
	f, _ := p.r.faultsOf(p.from, p.to)
	p.r.packets.Add(1)
	p.r.keepPacket(p.to, b)
	if cut(f, p.kind, len(b)) || p.r.happens(f.Drop) {
		p.r.dropped.Add(1)
		return
	}
	copies := 1
	if p.r.happens(f.Duplicate) {
		copies = 2
	}
	for range copies {
		wait := p.r.latency(f)
		if p.r.happens(f.Reorder) {
			wait += p.r.latency(transport.Faults{Jitter: max(heldBack, f.Delay+f.Jitter)})
		}
		if wait <= 0 {
			p.deliver(b)
			continue
		}
		if p.waiting.Add(1) > waitingMax {
			p.waiting.Add(-1)
			p.r.dropped.Add(1)
			continue
		}
		p.r.wg.Go(func() {
			defer p.waiting.Add(-1)
			if passed(wait, p.r.closed) {
				p.deliver(b)
			}
		})
	}
}

func (p *port) deliver(b []byte) {
	if at, ok := p.r.targetPort(p.to); ok {
		_, _ = p.r.ports[p.to][p.from][0].udp.WriteToUDPAddrPort(b, netip.AddrPortFrom(at.Addr().Unmap(), at.Port()))
	}
}
