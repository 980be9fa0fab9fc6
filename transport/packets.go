package transport

// readPackets moves packets from the wire to whoever reads Packets, and drops them when that is
// slow.
func (e *endpoint) readPackets() {
	var retry backoff
	for {
		p, err := e.wire.ReadPacket()
		if e.ctx.Err() != nil {
			return
		}
		if err != nil {
			if retry.first() {
				e.log.Warn("receiving packets fails: retrying", "addr", e.Addr(), "error", err)
			}
			retry.wait(e.ctx.Done())
			continue
		}
		retry.reset()
		select {
		case e.packets <- p:
		default:
		}
	}
}
