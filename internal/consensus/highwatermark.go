package consensus

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/lni/vfs"
)

// The log store cannot tell a log whose end was cut off, or whose damaged end it has skipped, from
// one that never had more. So the position is noted a second time after each write of the log, in a
// small file beside the directory, and a start compares the two. The note is written in place and
// not synced: it costs no time, survives the end of the process, and is at most some seconds old
// after a power cut. It is never ahead of the log, except that a log that gets shorter, which is
// rare, has its note written first, and synced.
type highWaterMark struct {
	fs      vfs.FS
	name    string
	replica uint64
	file    vfs.File
	at      position
	buffer  [markBytes]byte
}

const (
	markSuffix  = ".mark" // behind the name of the directory
	markVersion = "HFMK\x00\x00\x00\x01"
	markBytes   = len(markVersion) + 4*8 + 4
)

// newHighWaterMark is not open yet.
func newHighWaterMark(fs vfs.FS, dir string, replica uint64) *highWaterMark {
	return &highWaterMark{fs: fs, name: dir + markSuffix, replica: replica}
}

// read returns what was noted of this replica; false if there is nothing that can be relied on.
func (m *highWaterMark) read() (position, bool, error) {
	f, err := m.fs.Open(m.name)
	if errors.Is(err, os.ErrNotExist) {
		return position{}, false, nil
	}
	if err != nil {
		return position{}, false, fmt.Errorf("holdfast: reading %s: %w", m.name, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, int64(markBytes)))
	if err != nil {
		return position{}, false, fmt.Errorf("holdfast: reading %s: %w", m.name, err)
	}
	at, replica, ok := decodeMark(b)
	return at, ok && replica == m.replica, nil
}

func decodeMark(b []byte) (at position, replica uint64, ok bool) {
	if len(b) != markBytes || string(b[:len(markVersion)]) != markVersion ||
		binary.LittleEndian.Uint32(b[markBytes-4:]) != checksum(b[:markBytes-4]) {
		return position{}, 0, false
	}
	number := func(i int) uint64 { return binary.LittleEndian.Uint64(b[len(markVersion)+8*i:]) }
	return position{number(1), number(2), number(3)}, number(0), true
}

func (m *highWaterMark) encode() []byte {
	b := append(m.buffer[:0], markVersion...)
	for _, v := range []uint64{m.replica, m.at.term, m.at.vote, m.at.index} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return binary.LittleEndian.AppendUint32(b, checksum(b))
}

// open begins to note, at a position that is on the disk. The old file is there until the new one
// is, which is closed while it is renamed: Windows renames no open file.
func (m *highWaterMark) open(at position) error {
	m.at = at
	f, err := m.fs.Create(m.name + ".new")
	if err != nil {
		return err
	}
	if _, err = f.Write(m.encode()); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		m.file, err = m.fs.ReuseForWrite(m.name+".new", m.name)
	}
	if err != nil {
		return fmt.Errorf("holdfast: writing %s: %w", m.name, err)
	}
	return syncDir(m.fs, m.fs.PathDir(m.name))
}

// lower prepares for a write after which the log will be at a position that may be shorter.
func (m *highWaterMark) lower(to position) error {
	if m.file == nil || !to.forgets(m.at) {
		return nil
	}
	if err := m.note(to); err != nil {
		return err
	}
	return m.file.Sync()
}

// note notes a position that is on the disk.
func (m *highWaterMark) note(at position) error {
	if m.file == nil || m.at == at {
		return nil
	}
	m.at = at
	_, err := m.file.WriteAt(m.encode(), 0)
	return err
}

func (m *highWaterMark) close() error {
	if m.file == nil {
		return nil
	}
	return m.file.Close()
}
