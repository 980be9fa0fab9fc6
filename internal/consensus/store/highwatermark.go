package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"

	"github.com/lni/vfs"
)

// highWaterMark is the position of the log, noted a second time after each write, in a small file
// beside the directory. The log store cannot tell a log that lost its end, or whose damaged end it
// has skipped, from a shorter one; so a start compares the two. The mark is written in place and
// not synced: it costs no time, survives the end of the process, and is at most some seconds old
// after a power cut. It is never ahead of the log: before a write that shortens the log, which is
// rare, the mark is lowered and synced.
type highWaterMark struct {
	fs      vfs.FS
	name    string
	replica uint64
	file    vfs.File
	at      Position
	buffer  [markBytes]byte
}

const (
	markSuffix  = ".mark" // behind the name of the directory
	markVersion = "HFMK\x00\x00\x00\x01"
	markBytes   = len(markVersion) + 4*8 + 4
)

// MarkOf is the path of the mark of a Raft directory.
func MarkOf(dir string) string { return dir + markSuffix }

// read returns the mark of this replica; false if there is none that is whole.
func (m *highWaterMark) read() (Position, bool, error) {
	f, err := m.fs.Open(m.name)
	if errors.Is(err, os.ErrNotExist) {
		return Position{}, false, nil
	}
	if err != nil {
		return Position{}, false, fmt.Errorf("holdfast: reading %s: %w", m.name, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, int64(markBytes)))
	if err != nil {
		return Position{}, false, fmt.Errorf("holdfast: reading %s: %w", m.name, err)
	}
	at, replica, ok := decodeMark(b)
	return at, ok && replica == m.replica, nil
}

func decodeMark(b []byte) (at Position, replica uint64, ok bool) {
	if len(b) != markBytes || string(b[:len(markVersion)]) != markVersion ||
		binary.LittleEndian.Uint32(b[markBytes-4:]) != crc32c(b[:markBytes-4]) {
		return Position{}, 0, false
	}
	number := func(i int) uint64 { return binary.LittleEndian.Uint64(b[len(markVersion)+8*i:]) }
	return Position{number(1), number(2), number(3)}, number(0), true
}

func (m *highWaterMark) encode() []byte {
	b := append(m.buffer[:0], markVersion...)
	for _, v := range []uint64{m.replica, m.at.Term, m.at.Vote, m.at.Index} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return binary.LittleEndian.AppendUint32(b, crc32c(b))
}

// open writes the mark anew at a position that is on the disk, and keeps it open. The old file
// stays until the new one is whole, which is closed while it is renamed: Windows renames no open
// file.
func (m *highWaterMark) open(at Position) error {
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

// lower prepares a write after which the log may be shorter.
func (m *highWaterMark) lower(to Position) error {
	if m.file == nil || !to.Forgets(m.at) {
		return nil
	}
	if err := m.note(to); err != nil {
		return err
	}
	return m.file.Sync()
}

// note writes a position that is on the disk.
func (m *highWaterMark) note(at Position) error {
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

func crc32c(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }
