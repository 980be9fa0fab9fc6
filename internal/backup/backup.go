// Package backup is the format of a backup: the state of a group at one command, whole and checked.
//
// A backup is "HFBK", the version (1 byte), the length of the header (4 bytes, little endian), the
// header in JSON, a snapshot (fsm.proto), and the SHA-256 of all of that. Readers skip fields of the
// header that they do not know. It is a stream: neither side holds more than the state itself.
package backup

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
)

const (
	magic     = "HFBK"
	version   = 1
	headerMax = 64 << 10
)

var (
	// ErrDamaged is in the error of Read for a backup that is truncated or altered, or that is none.
	ErrDamaged = errors.New("holdfast: backup damaged")
	// ErrNewer is in the error of Read for a backup that a newer version of Holdfast has written.
	ErrNewer = errors.New("holdfast: backup of a newer version")
)

// Header says what a backup is of.
type Header struct {
	Cluster   string    `json:"cluster"`    // the fleet's name
	ClusterID string    `json:"cluster_id"` // of the group
	Level     uint64    `json:"level"`      // feature level of the group: an older version refuses the backup
	Commands  uint64    `json:"commands"`   // number of the last command in the state
	Written   time.Time `json:"written"`    // by the wall clock of the node
	Node      string    `json:"node"`       // id of the node that wrote it
	Voters    []string  `json:"voters"`     // nodes of the group then
	Standbys  []string  `json:"standbys,omitempty"`
	// Unconfirmed: no majority answered, so the state may lack commands that the group has answered.
	Unconfirmed bool `json:"unconfirmed,omitempty"`
}

// Write writes the backup of a state that does not change meanwhile. Errors are those of w, and
// fsm.ErrStopped soon after stop is closed.
func Write(w io.Writer, h Header, state *fsm.Machine, stop <-chan struct{}) error {
	info := state.Info()
	h.ClusterID, h.Level, h.Commands = fsm.Node(info.Cluster).String(), info.Level, info.Commands
	header, err := json.Marshal(h)
	if err != nil {
		return err
	}
	if len(header) > headerMax {
		return fmt.Errorf("holdfast: the header of the backup has %d bytes", len(header))
	}
	sum := sha256.New()
	both := io.MultiWriter(w, sum)
	head := binary.LittleEndian.AppendUint32(append([]byte(magic), version), uint32(len(header)))
	if _, err := both.Write(append(head, header...)); err != nil {
		return fmt.Errorf("holdfast: writing a backup: %w", err)
	}
	if err := state.WriteSnapshot(&unhurried{both, time.Now()}, stop); err != nil {
		return err
	}
	if _, err := w.Write(sum.Sum(nil)); err != nil {
		return fmt.Errorf("holdfast: writing a backup: %w", err)
	}
	return nil
}

// unhurried writes for an eighth of the time at most, and rests for the others: calls of the node
// wait for a processor otherwise, until the whole state is written.
type unhurried struct {
	w     io.Writer
	began time.Time // to make what is written next
}

func (u *unhurried) Write(b []byte) (int, error) {
	n, err := u.w.Write(b)
	time.Sleep(min(7*time.Since(u.began), restMax))
	u.began = time.Now()
	return n, err
}

const restMax = 20 * time.Millisecond // also after a slow w

// Read reads a backup to its end and checks it, the invariants of its state included. It never panics,
// and allocates no more than what it has read justifies. Errors are ErrDamaged, ErrNewer and those of
// r.
func Read(r io.Reader) (Header, *fsm.Machine, error) {
	sum := sha256.New()
	both := io.TeeReader(r, sum)
	h, err := readHeader(both)
	if err != nil {
		return Header{}, nil, explain(err)
	}
	state, err := fsm.ReadSnapshot(both)
	if err != nil {
		return Header{}, nil, explain(err)
	}
	want, got := sum.Sum(nil), make([]byte, sha256.Size)
	if _, err := io.ReadFull(r, got); err != nil {
		return Header{}, nil, explain(err)
	}
	info := state.Info()
	switch n, err := io.ReadFull(r, make([]byte, 1)); {
	case !bytes.Equal(want, got):
		return Header{}, nil, fmt.Errorf("%w: its checksum is wrong", ErrDamaged)
	case n > 0:
		return Header{}, nil, fmt.Errorf("%w: something comes after its end", ErrDamaged)
	case !errors.Is(err, io.EOF):
		return Header{}, nil, err
	case !info.Born || h.ClusterID != fsm.Node(info.Cluster).String() || max(h.Level, 1) != info.Level || h.Commands != info.Commands:
		return Header{}, nil, fmt.Errorf("%w: its header is that of another state", ErrDamaged)
	}
	return h, state, nil
}

func readHeader(r io.Reader) (h Header, err error) {
	var head [len(magic) + 1 + 4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return h, err
	}
	if string(head[:len(magic)]) != magic {
		return h, fmt.Errorf("%w: it does not begin as a backup", ErrDamaged)
	}
	if v := head[len(magic)]; v != version {
		return h, fmt.Errorf("%w: its format is %d, this version reads %d: use the version that wrote it, or a later one", ErrNewer, v, version)
	}
	size := binary.LittleEndian.Uint32(head[len(magic)+1:])
	if size > headerMax {
		return h, fmt.Errorf("%w: its header has %d bytes", ErrDamaged, size)
	}
	text := make([]byte, size)
	if _, err := io.ReadFull(r, text); err != nil {
		return h, err
	}
	if err := json.Unmarshal(text, &h); err != nil {
		return h, fmt.Errorf("%w: its header: %w", ErrDamaged, err)
	}
	if h.Level > fsm.LevelKnown {
		return h, fmt.Errorf("%w: its group is at feature level %d, this version knows %d: use the version that wrote it, or a later one", ErrNewer, h.Level, fsm.LevelKnown)
	}
	return h, nil
}

// explain says of the error of a read what is wrong with the backup.
func explain(err error) error {
	switch {
	case errors.Is(err, ErrDamaged), errors.Is(err, ErrNewer):
		return err
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: it is truncated", ErrDamaged)
	case errors.Is(err, fsm.ErrUnsupported):
		return fmt.Errorf("%w: use the version that wrote it, or a later one: %w", ErrNewer, err)
	case errors.Is(err, fsm.ErrMalformed), errors.Is(err, fsm.ErrInvariant):
		return fmt.Errorf("%w: it is truncated or altered: %w", ErrDamaged, err)
	}
	return err
}
