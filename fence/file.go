package fence

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"
)

// File is a Guard with its marks in a file. A token that raises a mark is admitted after the mark
// is on disk: a killed process or a power cut loses no mark. Several File values of one path, in
// one process or in many on one machine, are one guard. The file must be on a local disk, and only
// guards may write it. Every rise of a mark writes the whole file: a File is for some thousands of
// resources, an SQL for more. Use OpenFile.
//
// The holder of the lock (flock) of the file with the name may read and replace it. It writes the
// replacement beside the file, syncs it, and renames it over the file; then it syncs the directory
// before it admits the token. Every other user syncs the directory before it relies on the new
// file.
//
// A File touches only its own directory, whatever links appear there later. While that directory is moved
// away or replaced, checks fail: a guard that opens the path then has other marks.
type File struct {
	observer
	path string
	dir  *os.Root
	home fs.FileInfo   // of dir
	name string        // in dir
	turn chan struct{} // has a value while a caller uses the fields below

	file     *os.File // the last seen file of that path, or nil
	marks    map[string]Token
	loaded   bool // marks are the content of file, which is durable
	doubtful bool // the sync of the directory failed: the file must be written again
	closed   bool
}

var _ Guard = (*File)(nil)

var errNotOpened = fmt.Errorf("%w: this File is not of OpenFile", ErrInvalid)

// openTime bounds OpenFile.
const openTime = 10 * time.Second

// OpenFile opens the guard at path, or makes it without marks if the file is missing; its directory
// must exist. It waits for other users of the file for 10 s at most: then context.DeadlineExceeded is
// in the error, as where a process is stopped in its Do. ErrDamaged is in the error if the file cannot
// be trusted, errors.ErrUnsupported if the system has no flock. Opening one path several times is safe.
// A file that a newer version of Holdfast has written is refused by a text that says so, and is no damaged one.
func OpenFile(path string) (*File, error) {
	path, err := resolve(path)
	if err != nil {
		return nil, fmt.Errorf("holdfast: fence file: %w", err)
	}
	dir, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("holdfast: fence file: %w", err)
	}
	f := &File{path: path, dir: dir, name: filepath.Base(path), turn: make(chan struct{}, 1)}
	if f.home, err = dir.Stat("."); err == nil {
		err = f.open()
	}
	if errors.Is(err, fs.ErrNotExist) {
		if err = f.create(); err == nil {
			err = f.open()
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("holdfast: fence file %s: %w", path, err), f.Close())
	}
	ctx, cancel := context.WithTimeout(context.Background(), openTime)
	defer cancel()
	if err := f.lock(ctx); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	f.unlock()
	return f, nil
}

// resolve returns the file behind path, so that two names of one file share a lock. It refuses a
// link to a missing file.
func resolve(path string) (string, error) {
	if path == "" {
		return "", fmt.Errorf("%w: path is empty", ErrInvalid)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if _, err := os.Lstat(path); err == nil {
		return filepath.EvalSymlinks(path)
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	return filepath.Join(dir, filepath.Base(path)), err
}

// Check admits t unless a higher token was seen. It waits for other users of the file until ctx
// ends.
func (f *File) Check(ctx context.Context, resource string, t Token) error {
	return f.check(ctx, resource, t, false)
}

// CheckOnce admits t only if neither it nor a higher token was seen. It waits for other users of
// the file until ctx ends.
func (f *File) CheckOnce(ctx context.Context, resource string, t Token) error {
	return f.check(ctx, resource, t, true)
}

// Do runs fn if Check admits t. No other check of the file passes before fn has returned, so that
// check and write are one step among all users of the file. It returns fn's error; the mark has
// risen all the same. fn may not use this guard.
func (f *File) Do(ctx context.Context, resource string, t Token, fn func() error) (err error) {
	admitted := false
	defer func() { // after the unlock
		if admitted {
			_ = f.note(ctx, resource, t, nil)
		} else {
			_ = f.note(ctx, resource, t, err)
		}
	}()
	if err := validate(ctx, resource, t); err != nil {
		return err
	}
	if fn == nil {
		return fmt.Errorf("%w: fn is nil", ErrInvalid)
	}
	return f.locked(ctx, func() error {
		if err := f.raise(resource, t, false); err != nil {
			return err
		}
		admitted = true
		return fn()
	})
}

// Close closes the file; later checks return an error (errors.Is fs.ErrClosed). It waits for a
// running check. Idempotent.
func (f *File) Close() error {
	if f.turn == nil {
		return errNotOpened
	}
	f.turn <- struct{}{}
	defer func() { <-f.turn }()
	if f.closed {
		return nil
	}
	f.closed = true
	return errors.Join(f.forget(), f.dir.Close())
}

// Highest is the mark of a resource, zero if it has none. It waits for other users of the file
// until ctx ends.
func (f *File) Highest(ctx context.Context, resource string) (highest Token, err error) {
	if err := validate(ctx, resource, TokenMax); err != nil {
		return 0, err
	}
	err = f.locked(ctx, func() error {
		highest = f.marks[resource]
		return nil
	})
	return highest, err
}

// Floor is the highest mark of all resources, zero if there are none: for Config.TokenFloor. It
// waits for other users of the file until ctx ends.
func (f *File) Floor(ctx context.Context) (highest Token, err error) {
	if ctx == nil {
		return 0, fmt.Errorf("%w: ctx is nil", ErrInvalid)
	}
	err = f.locked(ctx, func() error {
		highest = top(f.marks)
		return nil
	})
	return highest, err
}

func (f *File) check(ctx context.Context, resource string, t Token, once bool) error {
	err := validate(ctx, resource, t)
	if err == nil {
		err = f.locked(ctx, func() error { return f.raise(resource, t, once) })
	}
	return f.note(ctx, resource, t, err)
}

// raise judges t and writes its mark. The caller has the lock.
func (f *File) raise(resource string, t Token, once bool) error {
	highest := f.marks[resource]
	if err := judge(resource, t, highest, once); err != nil {
		return err
	}
	if t == highest && !f.doubtful {
		return nil
	}
	next := maps.Clone(f.marks)
	next[resource] = t
	if err := f.replace(next); err != nil {
		return fmt.Errorf("holdfast: fence file %s: %w", f.path, err)
	}
	return nil
}

// locked runs fn with the lock and the present marks.
func (f *File) locked(ctx context.Context, fn func() error) error {
	if f.turn == nil {
		return errNotOpened
	}
	select {
	case f.turn <- struct{}{}:
		defer func() { <-f.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if f.closed {
		return fmt.Errorf("holdfast: fence file %s: %w", f.path, fs.ErrClosed)
	}
	if err := f.lock(ctx); err != nil {
		return err
	}
	defer f.unlock()
	return fn()
}

// lock takes the lock of the present file of the path, and loads its marks. Random pauses between
// tries let every process have its turn.
func (f *File) lock(ctx context.Context) error {
	const pauseMax = 2 * time.Millisecond
	for {
		ok, err := f.tryLock()
		if ok {
			return nil
		}
		if err != nil {
			return fmt.Errorf("holdfast: fence file %s: %w", f.path, err)
		}
		select {
		case <-time.After(rand.N(pauseMax) + time.Microsecond):
		case <-ctx.Done():
			return fmt.Errorf("holdfast: fence file %s: another user has its lock: %w", f.path, ctx.Err())
		}
	}
}

// tryLock is lock without waiting; false and nil: another user has the lock.
func (f *File) tryLock() (bool, error) {
	for {
		if f.file == nil {
			if err := f.open(); err != nil {
				return false, err
			}
		}
		if ok, err := flock(f.file); !ok {
			return false, err
		}
		mine, err := f.file.Stat()
		if err != nil {
			return false, errors.Join(err, f.forget())
		}
		named, err := f.dir.Stat(f.name)
		if err == nil && os.SameFile(mine, named) {
			break
		}
		if err := errors.Join(f.forget(), err); err != nil {
			return false, err
		}
	}
	err := f.atHome()
	if err == nil && !f.loaded {
		err = f.load()
	}
	if err != nil {
		return false, errors.Join(err, f.forget())
	}
	return true, nil
}

// atHome fails if the directory is no longer that of the path. An os.Root follows a directory that is moved.
func (f *File) atHome() error {
	now, err := os.Stat(filepath.Dir(f.path))
	if err == nil && !os.SameFile(f.home, now) {
		err = errors.New("its directory was moved away, and another one is in its place")
	}
	return err
}

// unlock gives the lock up. The file stays open, so that no other file receives its identity.
func (f *File) unlock() {
	if f.file != nil && funlock(f.file) != nil {
		_ = f.forget() // a close gives the lock up too
	}
}

func (f *File) open() error {
	file, err := f.dir.OpenFile(f.name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	f.file, f.loaded = file, false
	return nil
}

// forget closes the file; the next use opens it again.
func (f *File) forget() error {
	if f.file == nil {
		return nil
	}
	file := f.file
	f.file, f.loaded = nil, false
	return file.Close()
}
