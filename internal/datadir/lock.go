package datadir

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
)

// opened lists the directories that nodes of this process have open. On local disks flock alone
// would refuse the second one, but on some network file systems the locks of one process never
// exclude each other.
var opened registry

type registry struct {
	mu    sync.Mutex
	files []os.FileInfo
}

// has reports whether the file is listed, under any name.
func (r *registry) has(file os.FileInfo) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.index(file) >= 0
}

// add lists the file; false if it was listed already.
func (r *registry) add(file os.FileInfo) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.index(file) >= 0 {
		return false
	}
	r.files = append(r.files, file)
	return true
}

func (r *registry) remove(file os.FileInfo) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := r.index(file); i >= 0 {
		r.files = slices.Delete(r.files, i, i+1)
	}
}

func (r *registry) index(file os.FileInfo) int {
	return slices.IndexFunc(r.files, func(other os.FileInfo) bool { return os.SameFile(file, other) })
}

// lockFile takes the lock at path, without waiting. The file is never deleted: two processes could
// lock different files of that name.
func lockFile(path string) (*held, error) {
	// The registry comes before the open: if locks belong to processes, closing a second descriptor
	// of the file would drop the first one's lock.
	if info, err := os.Stat(path); err == nil && opened.has(info) {
		return nil, lockedHere(path)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, unwritable(path, err)
	}
	info, err := lockOpen(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	// The process id is for people; the lock does not depend on it.
	if f.Truncate(0) == nil {
		_, _ = fmt.Fprintf(f, "%d\n", os.Getpid())
	}
	return &held{file: f, info: info}, nil
}

func lockOpen(f *os.File) (os.FileInfo, error) {
	path := f.Name()
	if err := flock(f); err != nil {
		if !errors.Is(err, errWouldBlock) {
			return nil, fmt.Errorf("holdfast: data directory: cannot lock %s: its file system must support flock: %w", path, err)
		}
		who, _ := io.ReadAll(io.LimitReader(f, 20))
		return nil, fmt.Errorf("%w: %s is locked by process %s: stop it, or use another data directory",
			ErrInUse, path, strings.TrimSpace(string(who)))
	}
	info, err := f.Stat()
	if err != nil {
		return nil, unwritable(path, err)
	}
	if now, err := os.Stat(path); err != nil || !os.SameFile(info, now) {
		return nil, fmt.Errorf("%w: %s was replaced meanwhile: try again", ErrInUse, path)
	}
	if !opened.add(info) {
		return nil, lockedHere(path)
	}
	return info, nil
}

func lockedHere(path string) error {
	return fmt.Errorf("%w: %s is locked by another node of this process: use another data directory; or by the "+
		"remains of one that failed: restart the process", ErrInUse, path)
}

// held is a taken lock.
type held struct {
	file *os.File
	info os.FileInfo
}

// Close gives the lock up. Closing the file alone would not, while a starting child process has a
// copy of it.
func (h *held) Close() error {
	defer opened.remove(h.info)
	if err := errors.Join(funlock(h.file), h.file.Close()); err != nil {
		return fmt.Errorf("holdfast: data directory: %w", err)
	}
	return nil
}
