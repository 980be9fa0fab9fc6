// Package datadir owns a node's data directory: it lets one node at a time in, and keeps who the
// node is.
//
// The directory holds lock (the file lock), identity.json, and raft/ and files whose names begin so
// (the consensus package's). Opening it raises the node's incarnation on disk before anything else
// happens there, so that whatever an earlier process of this node still has under way can be told
// from this one's.
//
// What keeps a group safe here: an identity is never made up for a directory that had one. A node
// that lost its Raft log but kept its replica's id would forget votes and acknowledged entries.
// Where the log may go, as the group has removed the replica, it goes before the identity has the
// next one.
package datadir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"

	"github.com/lni/vfs"

	"github.com/holdfast-go/holdfast/fsm"
)

// ErrInUse is in the error of Open when another node, in this or another process, has the
// directory.
var ErrInUse = errors.New("holdfast: data directory in use")

// ErrDamaged is in the error of Open when what the directory holds cannot be trusted.
var ErrDamaged = errors.New("holdfast: data directory damaged")

// ErrIncompatible is in the error of Open when the directory was written by a newer version of
// Holdfast, or for a cluster of another name.
var ErrIncompatible = errors.New("holdfast: data directory incompatible")

// ErrClosed answers Save after Close.
var ErrClosed = errors.New("holdfast: data directory closed")

// Dir is an open data directory. Its methods are safe for concurrent use.
type Dir interface {
	// Identity is what was last saved.
	Identity() Identity
	// Save makes id the identity. After nil it survives a power cut; after an error the old or the
	// new one is on disk, Identity answers the old one and Save may be tried again. Cluster,
	// NodeID, Incarnation and Created can't be changed, nor ClusterID once it is set, nor Life, but
	// by Drop. Whoever changes what Identity answered and saves it must be the only one to do so at
	// the time.
	Save(id Identity) error
	// Drop removes what the directory holds of a replica that is over. If the Identity says
	// Dropped, so does the group go from it; if it says Removed, the node's next life begins. Raft
	// must have been stopped before. After an error it is tried again, by Open at the latest.
	Drop() error
	// RaftDir is the directory of the Raft log and snapshots, on FS; it exists.
	RaftDir() string
	// Place is where the process runs that has the directory open: the lock file that it has
	// locked, in the boot of the kernel that keeps the lock. Whoever opens the directory there
	// later proves that this process is dead. Zero where the system does not tell.
	Place() fsm.Place
	// FS is the file system that the directory is on.
	FS() vfs.FS
	// Close lets the next one in. Idempotent. Raft must have been stopped before.
	Close() error
}

// Open opens the data directory at path for a node of the named cluster, makes it if need be, and
// raises the node's incarnation. It never waits: ErrInUse, ErrDamaged and ErrIncompatible say what
// is wrong, as do errors of the file system; each names the file and what to do. The lock ends with
// Close or with the process, however that dies.
func Open(path, cluster string) (Dir, error) {
	if path == "" {
		return nil, errors.New("holdfast: data directory: the path is empty")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("holdfast: data directory: %w", err)
	}
	if err := makeDir(vfs.Default, path); err != nil {
		return nil, err
	}
	lock, err := lockFile(filepath.Join(path, lockName))
	if err != nil {
		return nil, err
	}
	d, err := open(vfs.Default, path, cluster, lock, placeOf(lock.info))
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return d, nil
}

// OpenFS is Open on a file system that belongs to the caller alone, as a simulated disk does: it
// takes no lock, and the caller vouches for the place.
func OpenFS(fsys vfs.FS, path, cluster string, place fsm.Place) (Dir, error) {
	if err := makeDir(fsys, path); err != nil {
		return nil, err
	}
	return open(fsys, path, cluster, nil, place)
}

// Memory returns a directory in memory with a fresh identity of no particular cluster: what a node
// without a data directory has.
func Memory() Dir {
	d, err := OpenFS(vfs.NewMem(), "/holdfast", "", fsm.Place{})
	if err != nil {
		panic(fmt.Sprintf("holdfast: invariant: memory is writable: %v", err))
	}
	return d
}

const (
	lockName     = "lock"
	identityName = "identity.json"
	raftName     = "raft"
)

type dir struct {
	fs    vfs.FS
	path  string
	place fsm.Place

	mu     sync.Mutex
	id     Identity
	lock   io.Closer // nil: none
	closed bool
}

func open(fsys vfs.FS, path, cluster string, lock io.Closer, place fsm.Place) (*dir, error) {
	d := &dir{fs: fsys, path: path, lock: lock, place: place}
	raft := d.RaftDir()
	id, err := load(fsys, d.identityPath())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if left, err := fsys.List(raft); err == nil && len(left) > 0 {
			return nil, fmt.Errorf("%w: %s is missing but %s holds Raft data of its node: restore the file, "+
				"or delete the whole directory to start as a new node", ErrDamaged, d.identityPath(), raft)
		}
		id = mint(cluster)
	case err != nil:
		return nil, err
	case id.Cluster != cluster:
		return nil, fmt.Errorf("%w: %s belongs to cluster %q, not %q: correct Config.Cluster or Config.DataDir",
			ErrIncompatible, d.identityPath(), id.Cluster, cluster)
	case id.Retired:
		// Its replica can never serve again. The data goes first: until the new identity is
		// written, the directory still says that it is retired.
		if err := d.clear(); err != nil {
			return nil, err
		}
		id = mint(cluster)
	case id.over(): // the process died before Drop was done
		if err := d.clear(); err != nil {
			return nil, err
		}
		id = id.after()
	}
	id.Incarnation++
	if err := store(fsys, path, id); err != nil {
		return nil, unwritable(d.identityPath(), err)
	}
	if err := makeDir(fsys, raft); err != nil {
		return nil, err
	}
	d.id = id
	return d, nil
}

func (d *dir) Identity() Identity {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.id
}

func (d *dir) Save(id Identity) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return ErrClosed
	}
	id.Format = d.id.Format
	if err := d.id.succeeds(id); err != nil {
		return err
	}
	if err := store(d.fs, d.path, id); err != nil {
		return unwritable(d.identityPath(), err)
	}
	d.id = id
	return nil
}

// Drop takes the data first: until the new identity is written, the directory still says what is to
// go. What makes the identity durable also does so for the removal, which is in the same directory.
func (d *dir) Drop() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return ErrClosed
	}
	if !d.id.over() {
		return errors.New("holdfast: data directory: its replica is not over")
	}
	if err := d.clear(); err != nil {
		return err
	}
	id := d.id.after()
	if err := store(d.fs, d.path, id); err != nil {
		return unwritable(d.identityPath(), err)
	}
	d.id = id
	return makeDir(d.fs, d.RaftDir())
}

// clear removes the data of the replica.
func (d *dir) clear() error {
	names, err := d.fs.List(d.path)
	if err != nil {
		return unwritable(d.path, err)
	}
	for _, name := range names {
		if !strings.HasPrefix(name, raftName) {
			continue
		}
		if err := d.fs.RemoveAll(d.fs.PathJoin(d.path, name)); err != nil {
			return unwritable(d.fs.PathJoin(d.path, name), err)
		}
	}
	return nil
}

func (d *dir) RaftDir() string      { return d.fs.PathJoin(d.path, raftName) }
func (d *dir) Place() fsm.Place     { return d.place }
func (d *dir) FS() vfs.FS           { return d.fs }
func (d *dir) identityPath() string { return d.fs.PathJoin(d.path, identityName) }

func (d *dir) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	if d.lock == nil {
		return nil
	}
	return d.lock.Close()
}

// makeDir makes a directory and what is missing above it, durably.
func makeDir(fsys vfs.FS, path string) error {
	if info, err := fsys.Stat(path); err == nil {
		if !info.IsDir() {
			return fmt.Errorf("holdfast: data directory: %s is not a directory", path)
		}
		return nil
	}
	parent := fsys.PathDir(path)
	if parent != path {
		if err := makeDir(fsys, parent); err != nil {
			return err
		}
	}
	if err := fsys.MkdirAll(path, 0o700); err != nil {
		return unwritable(path, err)
	}
	// A directory that may be written but not read can't be synced.
	if err := syncDir(fsys, parent); err != nil && !errors.Is(err, fs.ErrPermission) {
		return unwritable(parent, err)
	}
	return nil
}

func unwritable(path string, err error) error {
	return fmt.Errorf("holdfast: data directory: cannot write %s: it must be writable by this process "+
		"and its disk must work: %w", path, err)
}
