package relay

import "slices"

const (
	streamKept  = 64 << 10 // of what is sent over a connection, from its beginning
	packetsKept = 200      // for each process, the first ones
)

type record struct {
	streams []*stream
	packets [][]byte
}

// Record keeps from here on what is sent to each process, as far as Sent returns it.
func (r *Relay) Record() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.records == nil {
		r.records = make([]record, len(r.ports))
	}
}

// Sent returns what was sent to a process since Record: the beginning of each connection, and the
// first packets.
func (r *Relay) Sent(process int) (streams, packets [][]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.records == nil {
		return nil, nil
	}
	for _, s := range r.records[process].streams {
		streams = append(streams, slices.Clone(s.sent))
	}
	return streams, slices.Clone(r.records[process].packets)
}

func (r *Relay) keep(s *stream, b []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.records == nil {
		return
	}
	if s.sent == nil {
		of := &r.records[s.p.to]
		of.streams = append(of.streams, s)
	}
	s.sent = append(s.sent, b[:min(len(b), streamKept-len(s.sent))]...)
}

func (r *Relay) keepPacket(to int, b []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.records != nil && len(r.records[to].packets) < packetsKept {
		r.records[to].packets = append(r.records[to].packets, b)
	}
}
