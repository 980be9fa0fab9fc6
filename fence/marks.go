package fence

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
)

// The file of a File is text, for people to read:
//
//	holdfast-fence 1 5c8b7a10
//	4711 "invoices/2026"
//
// The first line has the version and the CRC-32C of the rest; each further line is a mark: its
// token and its resource, quoted as in Go. The first line of a later version begins likewise, with its own
// number, and nothing else of such a file is known here.
const marksMagic, marksVersion = "holdfast-fence", 1

// encode writes marks in the order of their resources.
func encode(marks map[string]Token) []byte {
	var body []byte
	for _, resource := range slices.Sorted(maps.Keys(marks)) {
		body = strconv.AppendUint(body, uint64(marks[resource]), 10)
		body = append(body, ' ')
		body = strconv.AppendQuote(body, resource)
		body = append(body, '\n')
	}
	head := fmt.Appendf(nil, "%s %d %08x\n", marksMagic, marksVersion, sum(body))
	return append(head, body...)
}

// decode reads the result of encode and refuses everything else.
func decode(data []byte) (map[string]Token, error) {
	head, body, ok := bytes.Cut(data, []byte{'\n'})
	fields := strings.Fields(string(head[:min(len(head), 64)]))
	switch {
	case len(data) == 0:
		return nil, errors.New("the file is empty")
	case newer(fields):
		return nil, fmt.Errorf("%w (format %s, this one knows %d): run that version on it, and keep the file, since without it late "+
			"writers with old tokens pass", errNewer, fields[1], marksVersion)
	case !ok || len(fields) != 3 || fields[0] != marksMagic || fields[1] != strconv.Itoa(marksVersion):
		return nil, errors.New("the first line is not that of a fence file")
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

// errNewer is in the error for a file that is not damaged, as far as this version can tell.
var errNewer = errors.New("a newer version of Holdfast wrote it")

// newer reports whether the first line is of a later version, which may have other fields after its number.
func newer(fields []string) bool {
	if len(fields) < 2 || fields[0] != marksMagic {
		return false
	}
	version, err := strconv.ParseUint(fields[1], 10, 32)
	return err == nil && version > marksVersion
}

func sum(body []byte) uint32 { return crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)) }

// load reads the marks. Their writer may have died before it synced the directory.
func (f *File) load() error {
	if _, err := f.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	data, err := io.ReadAll(f.file)
	if err != nil {
		return err
	}
	marks, err := decode(data)
	switch {
	case errors.Is(err, errNewer):
		return err
	case err != nil:
		return fmt.Errorf("%w: %w: restore it from a backup, or delete it if no token that it has seen is in use",
			ErrDamaged, err)
	}
	if err := f.syncDir(); err != nil {
		return err
	}
	f.marks, f.loaded = marks, true
	return nil
}

// replace writes marks and makes them f's. The caller has the lock before and after.
func (f *File) replace(marks map[string]Token) error {
	temp := f.name + ".tmp"
	if err := f.dir.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a process that died here
		return err
	}
	old, err := f.file.Stat()
	if err != nil {
		return err
	}
	file, err := f.write(temp, old.Mode().Perm(), marks)
	if err != nil {
		return err
	}
	// The lock passes to the new file: without it, other checks would pass before Do's fn has run.
	if ok, err := flock(file); !ok {
		return errors.Join(errors.New("the new file is locked"), err, file.Close())
	}
	if err := f.dir.Rename(temp, f.name); err != nil {
		return errors.Join(err, file.Close())
	}
	_ = f.file.Close() // read only
	f.file, f.marks, f.loaded, f.doubtful = file, marks, true, true
	if err := f.syncDir(); err != nil {
		return err
	}
	f.doubtful = false
	return nil
}

// create makes a file without marks, unless another process makes it first.
func (f *File) create() error {
	temp := fmt.Sprintf("%s.%016x.tmp", f.name, rand.Uint64())
	file, err := f.write(temp, 0o600, nil)
	if err != nil {
		return err
	}
	err = f.dir.Link(temp, f.name)
	if errors.Is(err, fs.ErrExist) {
		err = nil
	}
	return errors.Join(err, f.dir.Remove(temp), file.Close())
}

// write makes a new file with marks and syncs it; after an error it removes the file.
func (f *File) write(name string, mode fs.FileMode, marks map[string]Token) (*os.File, error) {
	file, err := f.dir.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	_, err = file.Write(encode(marks))
	if err == nil {
		err = file.Chmod(mode) // the user's: a group may share the file
	}
	if err == nil {
		err = file.Sync()
	}
	if err != nil {
		return nil, errors.Join(err, file.Close(), f.dir.Remove(name))
	}
	return file, nil
}

func (f *File) syncDir() error {
	dir, err := f.dir.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
