package store

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// The log store retries the compaction of a table with a damaged block forever, at once and on a
// whole core, and reports it only to the standard logger. It also allocates what a footer says,
// which has no checksum. So both are checked as they are read: a damaged table is a failed read.

const (
	sstableSuffix  = ".sst"
	sstableTrailer = 5  // behind each block: its compression, and the checksum of both
	sstableFooter  = 53 // checksum type, two block handles in 40 bytes, version, magic
	sstableHandles = 40
	sstableVersion = 2
	sstableMagic   = "\xf7\xcf\xf4\x85\xb7\x41\xe2\x88"
	sstableCRC32C  = 1
)

func isSSTable(name string) bool { return strings.HasSuffix(name, sstableSuffix) }

// checkSSTable checks a block or the footer, read at an offset of a table of so many bytes.
func checkSSTable(b []byte, offset, size int64) error {
	if len(b) == sstableFooter && offset == size-sstableFooter {
		return checkFooter(b, size)
	}
	if len(b) < sstableTrailer {
		return fmt.Errorf("%w: block of %d bytes", ErrDamaged, len(b))
	}
	content := b[:len(b)-4]
	sum := crc32c(content)
	if binary.LittleEndian.Uint32(b[len(b)-4:]) != (sum>>15|sum<<17)+0xa282ead8 { // masked, as the format has it
		return fmt.Errorf("%w: checksum of the block at %d", ErrDamaged, offset)
	}
	return nil
}

func checkFooter(b []byte, size int64) error {
	handles, end := b[1:1+sstableHandles], b[1+sstableHandles:]
	if b[0] != sstableCRC32C || binary.LittleEndian.Uint32(end) != sstableVersion || string(end[4:]) != sstableMagic {
		return fmt.Errorf("%w: footer", ErrDamaged)
	}
	for range 2 {
		offset, n := binary.Uvarint(handles)
		length, m := binary.Uvarint(handles[max(n, 0):])
		if n <= 0 || m <= 0 || offset > uint64(size) || length > uint64(size) || offset+length+sstableTrailer > uint64(size-sstableFooter) {
			return fmt.Errorf("%w: footer", ErrDamaged)
		}
		handles = handles[n+m:]
	}
	return nil
}
