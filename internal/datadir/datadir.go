// Package datadir owns a node's data directory: it admits one process at a time, and keeps the
// node's identity.
//
// The directory holds lock (the file lock), identity.json, node.key (the key that the node's id is
// made of), peers.json (where other nodes were last), and raft/ and files with that prefix (of internal/consensus); after a recovery also
// before-recovery/, with what was there before. Open raises the node's incarnation on disk before
// anything else, so that the group can distinguish this process from earlier ones of the node.
//
// A directory that had an identity never receives a new one. A node that lost its Raft log but kept
// its replica's id would forget votes and acknowledged entries: when the group has removed the
// replica, its log is deleted before the identity has the next replica's life.
package datadir

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"

	"github.com/lni/vfs"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/seam"
)

// Errors of Open, which a caller of the API branches on.
var ErrInUse, ErrDamaged, ErrIncompatible = seam.ErrDirInUse, seam.ErrDirDamaged, seam.ErrDirIncompatible

// ErrClosed answers Save after Close.
var ErrClosed = errors.New("holdfast: data directory closed")

// Dir is an open data directory. Its methods are safe for concurrent use.
type Dir interface {
	// Identity is the last saved identity.
	Identity() Identity
	// Key is the key that the node's id is made of (fsm.KeyNode), by which the node proves its id as a
	// client. nil where there is none: an earlier version made the node, or a recovery.
	Key() ed25519.PrivateKey
	// Save makes id the identity. After nil it survives a power cut; after an error the old or the
	// new one is on disk, Identity returns the old one and Save may be repeated. Cluster, NodeID,
	// Incarnation and Created never change, nor a ClusterID, nor Life except by Drop. A caller that
	// changes and saves the result of Identity must be the only one at the time.
	Save(id Identity) error
	// Drop removes the data of a replica that is over. If the Identity is Dropped, the node leaves
	// the group; if it is Removed, the node's next life begins. Raft must have been stopped before.
	// After an error Drop may be repeated; Open completes it.
	Drop() error
	// Peers is what SavePeers last saved, nil if there is nothing that can be read.
	Peers() []Peer
	// SavePeers saves where other nodes are, at most PeersMax of them. After an error the former ones
	// or the new ones are on disk.
	SavePeers(peers []Peer) error
	// RaftDir is the directory of the Raft log and snapshots, on FS; it exists.
	RaftDir() string
	// Place is the place of this process: its lock file and the boot of the kernel that keeps the
	// lock. A process that opens the directory there later proves that this one is dead. Zero on
	// systems without it.
	Place() fsm.Place
	// FS is the file system that the directory is on.
	FS() vfs.FS
	// Close gives the lock up, after a Save or Drop under way. Idempotent. Raft must have been stopped
	// before.
	Close() error
}

// Open opens the data directory at path for a node of the named cluster, creates it if it is
// missing, and raises the node's incarnation. It never waits. Its errors are ErrInUse, ErrDamaged,
// ErrIncompatible and those of the file system; each names the file and the remedy. The lock ends
// with Close or with the process.
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

// OpenFS is Open on a file system that belongs to the caller alone, like a simulated disk: it takes
// no lock, and the caller vouches for the place.
func OpenFS(fsys vfs.FS, path, cluster string, place fsm.Place) (Dir, error) {
	if err := makeDir(fsys, path); err != nil {
		return nil, err
	}
	return open(fsys, path, cluster, nil, place)
}

// Memory returns a directory in memory with a fresh identity and no cluster name, for a node
// without a data directory.
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
	keyName      = "node.key"
	raftName     = "raft"
)

type dir struct {
	fs    vfs.FS
	path  string
	place fsm.Place
	key   ed25519.PrivateKey

	writes sync.Mutex // held while the identity is written, for as long as a disk hangs
	mu     sync.Mutex // is not
	id     Identity
	lock   io.Closer // nil with OpenFS
	closed bool
}

func open(fsys vfs.FS, path, cluster string, lock io.Closer, place fsm.Place) (*dir, error) {
	if err := completeRecovery(fsys, path); err != nil {
		return nil, err
	}
	d := &dir{fs: fsys, path: path, lock: lock, place: place}
	raft := d.RaftDir()
	id, err := load(fsys, d.identityPath())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if left, err := fsys.List(raft); err == nil && len(left) > 0 {
			return nil, fmt.Errorf("%w: %s is missing but %s holds Raft data of its node: %s", ErrDamaged, d.identityPath(), raft, remedy)
		}
		if id, err = d.mint(cluster); err != nil {
			return nil, err
		}
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
		if id, err = d.mint(cluster); err != nil {
			return nil, err
		}
	case id.over(): // the process died during Drop
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
	d.key = loadKey(fsys, path, id.NodeID)
	return d, nil
}

func (d *dir) Key() ed25519.PrivateKey { return d.key }

func (d *dir) Identity() Identity {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.id
}

func (d *dir) Save(id Identity) error {
	d.writes.Lock()
	defer d.writes.Unlock()
	present, err := d.present()
	if err != nil {
		return err
	}
	id.Format = present.Format
	if err := present.succeeds(id); err != nil {
		return err
	}
	return d.become(id)
}

// present is the identity of a directory that is open.
func (d *dir) present() (Identity, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return Identity{}, ErrClosed
	}
	return d.id, nil
}

// become writes the identity. The caller holds d.writes.
func (d *dir) become(id Identity) error {
	if err := store(d.fs, d.path, id); err != nil {
		return unwritable(d.identityPath(), err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.id = id
	return nil
}

// Drop removes the data first: until the new identity is written, the old one still marks the data.
// The sync of the identity's directory also makes the removal durable.
func (d *dir) Drop() error {
	d.writes.Lock()
	defer d.writes.Unlock()
	present, err := d.present()
	if err != nil {
		return err
	}
	if !present.over() {
		return errors.New("holdfast: data directory: its replica is still running")
	}
	if err := d.clear(); err != nil {
		return err
	}
	if err := d.become(present.after()); err != nil {
		return err
	}
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
	d.writes.Lock() // the next process that opens the directory must not meet a write of this one
	defer d.writes.Unlock()
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

// makeDir makes a directory and its missing parents, durably.
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
	// A directory that may be written but not read cannot be synced.
	if err := syncDir(fsys, parent); err != nil && !errors.Is(err, fs.ErrPermission) {
		return unwritable(parent, err)
	}
	return nil
}

func unwritable(path string, err error) error {
	return fmt.Errorf("holdfast: data directory: cannot write %s: it must be writable by this process "+
		"and its disk must work: %w", path, err)
}
