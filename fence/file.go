package fence

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"
)

// File is a Guard whose marks are in a file. Before a token that raises a mark is admitted, the
// mark is on disk; a process killed or a machine cut off at any instant loses no mark. Several File
// values of one path, in one process or in many on one machine, are one guard. The file must lie on
// a local disk, and nothing else may write it. It is written whole whenever a mark rises: it is
// meant for some thousands of resources, and NewSQL for more. Use OpenFile.
//
// How: whoever holds the lock (flock) of the file that has the name may read and replace it. The
// replacement is written beside it, synced, and renamed over it; then the directory is synced, by
// the writer before it admits the token, and by everybody else before relying on the new file.
//
// Nothing outside the file's directory is touched, whatever links somebody puts there later; if the
// directory itself is replaced, checks fail.
type File struct {
	observer
	path string
	dir  *os.Root
	name string        // in dir
	turn chan struct{} // taken by the caller that uses what follows

	file     *os.File // the last seen file of that path; nil if there is none at hand
	marks    map[string]Token
	loaded   bool // marks are those of file, which is durable
	doubtful bool // the directory could not be synced: the file must be written again
	closed   bool
}

var _ Guard = (*File)(nil)

// OpenFile opens the guard at path, or makes it without marks if there is no such file; its
// directory must exist. ErrDamaged is in the error when the file can't be trusted,
// errors.ErrUnsupported where the system has no flock. Opening one path several times is safe.
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
	err = f.open()
	if errors.Is(err, fs.ErrNotExist) {
		if err = f.create(); err == nil {
			err = f.open()
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("holdfast: fence file %s: %w", path, err), f.Close())
	}
	if err := f.lock(context.Background()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	f.unlock()
	return f, nil
}

// resolve finds the file that path stands for, so that two names of one file share a lock. A link
// that leads nowhere yet is refused.
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

// Do runs fn if Check admits t, and lets nobody else pass a check of the file before fn has
// returned, so that check and write are one step among all who use the file. It returns fn's error;
// the mark has risen then all the same. fn may not use this guard.
func (f *File) Do(ctx context.Context, resource string, t Token, fn func() error) (err error) {
	admitted := false
	defer func() { // without the lock
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

// Close closes the file; later checks answer an error (errors.Is fs.ErrClosed). It waits for a
// check under way. Idempotent.
func (f *File) Close() error {
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

// raise judges t and writes its mark. The lock is held before.
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

// locked runs fn while nobody else uses the file and its marks are loaded.
func (f *File) locked(ctx context.Context, fn func() error) error {
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

// lock takes the lock of the file that has the path now, and has its marks loaded. The pause
// between tries is random, so that every process has its turn.
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
		pause := time.NewTimer(rand.N(pauseMax) + time.Microsecond)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return ctx.Err()
		}
	}
}

// tryLock is lock without waiting; false and nil: somebody else has it.
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
	if f.loaded {
		return true, nil
	}
	if err := f.load(); err != nil {
		return false, errors.Join(err, f.forget())
	}
	return true, nil
}

// unlock lets others in. The file stays open: as long as it is, no other file gets its identity.
func (f *File) unlock() {
	if f.file != nil && funlock(f.file) != nil {
		_ = f.forget() // closing it gives the lock up too
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

// load reads the marks. Whoever wrote them may have died before the directory was synced.
func (f *File) load() error {
	if _, err := f.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	data, err := io.ReadAll(f.file)
	if err != nil {
		return err
	}
	marks, err := decode(data)
	if err != nil {
		return fmt.Errorf("%w: %w: restore it from a backup, or delete it if no token that it has seen is in use",
			ErrDamaged, err)
	}
	if err := f.syncDir(); err != nil {
		return err
	}
	f.marks, f.loaded = marks, true
	return nil
}

// replace writes marks and makes them f's. The lock is held before and after.
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
	// The lock goes with the name: without it on the new file, others would come in before Do's fn
	// has run.
	if ok, err := flock(file); !ok {
		return errors.Join(errors.New("the new file is locked"), err, file.Close())
	}
	if err := f.dir.Rename(temp, f.name); err != nil {
		return errors.Join(err, file.Close())
	}
	_ = f.file.Close() // was only read
	f.file, f.marks, f.loaded, f.doubtful = file, marks, true, true
	if err := f.syncDir(); err != nil {
		return err
	}
	f.doubtful = false
	return nil
}

// create makes a file without marks, unless somebody else makes it first.
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

// write makes a new file with marks and syncs it; after an error it is gone.
func (f *File) write(name string, mode fs.FileMode, marks map[string]Token) (*os.File, error) {
	file, err := f.dir.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	_, err = file.Write(encode(marks))
	if err == nil {
		err = file.Chmod(mode) // the user's, who may share the file with a group
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
