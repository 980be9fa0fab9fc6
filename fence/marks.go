package fence

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// The file of a File is text, so that people can read it:
//
//	holdfast-fence 1 5c8b7a10
//	4711 "invoices/2026"
//
// The version, the CRC-32C of all that follows the first line, and a line for each mark: its token
// and its resource, quoted as in Go.
const marksMagic, marksVersion = "holdfast-fence", "1"

// encode writes marks in the order of their resources.
func encode(marks map[string]Token) []byte {
	var body []byte
	for _, resource := range slices.Sorted(maps.Keys(marks)) {
		body = strconv.AppendUint(body, uint64(marks[resource]), 10)
		body = append(body, ' ')
		body = strconv.AppendQuote(body, resource)
		body = append(body, '\n')
	}
	head := fmt.Appendf(nil, "%s %s %08x\n", marksMagic, marksVersion, sum(body))
	return append(head, body...)
}

// decode reads what encode wrote and refuses everything else.
func decode(data []byte) (map[string]Token, error) {
	head, body, ok := bytes.Cut(data, []byte{'\n'})
	fields := strings.Fields(string(head[:min(len(head), 64)]))
	switch {
	case len(data) == 0:
		return nil, errors.New("the file is empty")
	case !ok || len(fields) != 3 || fields[0] != marksMagic:
		return nil, errors.New("the first line is not that of a fence file")
	case fields[1] != marksVersion:
		return nil, fmt.Errorf("version %q is unknown: a newer version of Holdfast wrote it", fields[1])
	case fields[2] != fmt.Sprintf("%08x", sum(body)):
		return nil, errors.New("the checksum is wrong")
	}
	marks := make(map[string]Token)
	for line := range strings.Lines(string(body)) {
		number, quoted, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		var t Token
		if err := t.UnmarshalText([]byte(number)); err != nil {
			return nil, err
		}
		resource, err := strconv.Unquote(quoted)
		if err != nil {
			return nil, fmt.Errorf("resource %.80q: %w", quoted, err)
		}
		marks[resource] = t
	}
	return marks, nil
}

func sum(body []byte) uint32 { return crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)) }
