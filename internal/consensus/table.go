package consensus

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// The log store's tables have a checksum on each block, but when it compacts a table in the background and
// finds a block damaged, it tries again for ever, at once and on all of a core, and tells nobody but the standard
// logger. And what the footer says, which has no checksum, it allocates. So both are checked as they are
// read: a damaged table is a failed read.

const (
	tableSuffix  = ".sst"
	tableTrailer = 5  // behind each block: its compression, and the checksum of both
	tableFooter  = 53 // checksum type, two block handles in 40 bytes, version, magic
	tableHandles = 40
	tableVersion = 2
	tableMagic   = "\xf7\xcf\xf4\x85\xb7\x41\xe2\x88"
	tableCRC32C  = 1
)

func isTable(name string) bool { return strings.HasSuffix(name, tableSuffix) }

// checkTable checks what was read at an offset of a table of so many bytes: a block or the footer.
func checkTable(b []byte, offset, size int64) error {
	if len(b) == tableFooter && offset == size-tableFooter {
		return checkFooter(b, size)
	}
	if len(b) < tableTrailer {
		return fmt.Errorf("%w: block of %d bytes", ErrDamaged, len(b))
	}
	content := b[:len(b)-4]
	sum := checksum(content)
	if binary.LittleEndian.Uint32(b[len(b)-4:]) != (sum>>15|sum<<17)+0xa282ead8 { // as its format wants it masked
		return fmt.Errorf("%w: checksum of the block at %d", ErrDamaged, offset)
	}
	return nil
}

func checkFooter(b []byte, size int64) error {
	handles, end := b[1:1+tableHandles], b[1+tableHandles:]
	if b[0] != tableCRC32C || binary.LittleEndian.Uint32(end) != tableVersion || string(end[4:]) != tableMagic {
		return fmt.Errorf("%w: footer", ErrDamaged)
	}
	for range 2 {
		offset, n := binary.Uvarint(handles)
		length, m := binary.Uvarint(handles[max(n, 0):])
		if n <= 0 || m <= 0 || offset > uint64(size) || length > uint64(size) || offset+length+tableTrailer > uint64(size-tableFooter) {
			return fmt.Errorf("%w: footer", ErrDamaged)
		}
		handles = handles[n+m:]
	}
	return nil
}
