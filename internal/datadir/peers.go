package datadir

import "encoding/json"

// PeersMax bounds the saved peers.
const PeersMax = 64

const peersName = "peers.json"

// Peer is another node of the fleet, and where it was last. It is a hint: the node that is there now
// proves its identity.
type Peer struct {
	Node string `json:"node"`
	Name string `json:"name,omitempty"`
	Addr string `json:"addr"`
}

// peersRecord is peers.json.
type peersRecord struct {
	Peers []Peer `json:"peers"`
	Sum   string `json:"crc32c"` // of the compact encoding of Peers
}

func (d *dir) Peers() []Peer {
	data, err := readFile(d.fs, d.fs.PathJoin(d.path, peersName))
	var r peersRecord
	if err != nil || len(data) > fileMax || json.Unmarshal(data, &r) != nil || len(r.Peers) > PeersMax {
		return nil
	}
	if sum, err := checksum(r.Peers); err != nil || r.Sum != sum {
		return nil
	}
	return r.Peers
}

// SavePeers does not hold the mutex while it writes: a disk that hangs must not keep the node from
// its Identity.
func (d *dir) SavePeers(peers []Peer) error {
	d.mu.Lock()
	closed := d.closed
	d.mu.Unlock()
	if closed {
		return ErrClosed
	}
	peers = peers[:min(len(peers), PeersMax)]
	sum, err := checksum(peers)
	if err != nil {
		return err
	}
	data, err := json.MarshalIndent(peersRecord{peers, sum}, "", "  ")
	if err != nil {
		return err
	}
	return replace(d.fs, d.path, peersName, append(data, '\n'))
}
