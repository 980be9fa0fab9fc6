package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/lni/vfs"
)

// Bounds of the saved peers.
const (
	PeersMax     = 64
	peersFileMax = 64 << 10
)

const peersName = "peers.json"

// Peer is another node of the fleet, and where it was last. It is a hint: whoever is there now
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
	f, err := d.fs.Open(d.fs.PathJoin(d.path, peersName))
	if err != nil {
		return nil
	}
	data, err := io.ReadAll(io.LimitReader(f, peersFileMax))
	var r peersRecord
	if errors.Join(err, f.Close()) != nil || json.Unmarshal(data, &r) != nil || len(r.Peers) > PeersMax || r.Sum != sumOf(r.Peers) {
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
	data, err := json.MarshalIndent(peersRecord{peers, sumOf(peers)}, "", "  ")
	if err != nil {
		return err
	}
	return replace(d.fs, d.path, peersName, append(data, '\n'))
}

func sumOf(peers []Peer) string {
	data, err := json.Marshal(peers)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%08x", crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)))
}

// replace replaces a file: after nil the new one survives a power cut, after an error the old or the
// new one is complete.
func replace(fsys vfs.FS, path, name string, data []byte) error {
	name = fsys.PathJoin(path, name)
	temp := name + ".tmp"
	_ = fsys.Remove(temp) // of a process that died in replace
	f, err := fsys.Create(temp)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := fsys.Rename(temp, name); err != nil {
		return err
	}
	return syncDir(fsys, path)
}
