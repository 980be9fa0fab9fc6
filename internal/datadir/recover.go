package datadir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/lni/vfs"

	"github.com/holdfast-go/holdfast/fsm"
)

// A recovery replaces the replica in a directory, and its node, by the only replica of a new group.
// It is built beside the former one, in a directory of its own. One rename makes that valid, and from
// then on Open and OpenOffline complete the replacement. The former data stays in formerName until
// the recovery of a directory that was opened in between.
const (
	buildName    = "recovery.new"
	recoveryName = "recovery"
	formerName   = "before-recovery"
)

// Offline is a data directory that is open without a node: its lock is held, and its identity stays as
// it is.
type Offline struct {
	fs   vfs.FS
	path string
	lock io.Closer // nil with OfflineFS
	id   *Identity // nil: there is none
}

// OpenOffline opens the data directory at path, which must exist. Errors are those of Open.
func OpenOffline(path string) (*Offline, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("holdfast: data directory: %w", err)
	}
	if _, err := vfs.Default.Stat(path); err != nil {
		return nil, fmt.Errorf("holdfast: data directory: %w", err)
	}
	lock, err := lockFile(filepath.Join(path, lockName))
	if err != nil {
		return nil, err
	}
	o, err := OfflineFS(vfs.Default, path)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	o.lock = lock
	return o, nil
}

// CreateOffline is OpenOffline, and makes a directory that is missing, and its parents. A power cut after
// that does not lose it.
func CreateOffline(path string) (*Offline, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("holdfast: data directory: %w", err)
	}
	if err := makeDir(vfs.Default, path); err != nil {
		return nil, err
	}
	return OpenOffline(path)
}

// CreateOfflineFS is CreateOffline on a file system that belongs to the caller alone.
func CreateOfflineFS(fsys vfs.FS, path string) (*Offline, error) {
	if err := makeDir(fsys, path); err != nil {
		return nil, err
	}
	return OfflineFS(fsys, path)
}

// OfflineFS is OpenOffline on a file system that belongs to the caller alone: it takes no lock.
func OfflineFS(fsys vfs.FS, path string) (*Offline, error) {
	if err := completeRecovery(fsys, path); err != nil {
		return nil, err
	}
	o := &Offline{fs: fsys, path: path}
	switch id, err := load(fsys, fsys.PathJoin(path, identityName)); {
	case err == nil:
		o.id = &id
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	return o, nil
}

// Identity is that of the directory; false if it has none.
func (o *Offline) Identity() (Identity, bool) {
	if o.id == nil {
		return Identity{}, false
	}
	return *o.id, true
}

// Recovered reports whether the directory is as a recovery left it: no node has opened it since.
func (o *Offline) Recovered() bool { return o.id != nil && o.id.recovered() }

// Restored reports whether it is as a recovery from a backup left it, and holds nothing else: no node has
// opened it, and no data of a node is in formerName.
func (o *Offline) Restored() bool {
	former, err := load(o.fs, o.fs.PathJoin(o.path, formerName, identityName))
	return o.Recovered() && (errors.Is(err, fs.ErrNotExist) || err == nil && former.recovered())
}

// Replica is what a directory holds of a replica that was started.
type Replica struct {
	Identity
	Raft    string    // directory of its log and snapshots, which may be missing
	Written time.Time // when a file of the node's was last written, by the clock of that time
	Former  bool      // of formerName
}

// Replica is what a recovery of the directory begins with; false if there is none. Where the directory is as
// a recovery left it, that is what it was made of: no grant was made since, and the report says the same again.
func (o *Offline) Replica() (Replica, bool) {
	if former := o.fs.PathJoin(o.path, formerName); o.Recovered() {
		if id, err := load(o.fs, o.fs.PathJoin(former, identityName)); err == nil && id.replicates() {
			return Replica{id, o.fs.PathJoin(former, raftName), o.written(former), true}, true
		}
	}
	if o.id == nil || !o.id.replicates() {
		return Replica{}, false
	}
	return Replica{*o.id, o.fs.PathJoin(o.path, raftName), o.written(o.path), false}, true
}

// replicates reports whether a replica of a group was started.
func (id Identity) replicates() bool { return id.ClusterID != "" && id.Started && !id.Dropped }

// Path is the absolute path of the directory.
func (o *Offline) Path() string { return o.path }

// FS is the file system that the directory is on.
func (o *Offline) FS() vfs.FS { return o.fs }

// written is when a file of the node's was last written in a directory.
func (o *Offline) written(path string) (last time.Time) {
	names, _ := o.fs.List(path)
	for _, name := range names {
		if name != identityName && !strings.HasPrefix(name, raftName) {
			continue
		}
		if info, err := o.fs.Stat(o.fs.PathJoin(path, name)); err == nil && info.ModTime().After(last) {
			last = info.ModTime()
		}
	}
	return last
}

// Build makes an empty directory for the Raft data of the replacement.
func (o *Offline) Build() (raft string, err error) {
	build := o.fs.PathJoin(o.path, buildName)
	if err := o.fs.RemoveAll(build); err != nil {
		return "", unwritable(build, err)
	}
	raft = o.fs.PathJoin(build, raftName)
	return raft, makeDir(o.fs, raft)
}

// Discard removes what is in the directory of Build.
func (o *Offline) Discard() error { return remove(o.fs, o.fs.PathJoin(o.path, buildName)) }

// Replace makes a new node and its replica, which the caller has put into the directory of Build, the
// content of this directory. After nil that survives a power cut; after an error the directory is
// as it was before, or Open completes the replacement.
func (o *Offline) Replace(node, clusterID, cluster string) error {
	id := mint(cluster, node)
	id.ClusterID, id.Incarnation, id.Started = clusterID, 1, true
	build := o.fs.PathJoin(o.path, buildName)
	if err := store(o.fs, build, id); err != nil {
		return errors.Join(unwritable(build, err), o.Discard())
	}
	valid := o.fs.PathJoin(o.path, recoveryName)
	if err := errors.Join(o.fs.Rename(build, valid), syncDir(o.fs, o.path)); err != nil {
		return errors.Join(unwritable(valid, err), o.Discard())
	}
	if err := completeRecovery(o.fs, o.path); err != nil {
		return err
	}
	o.id = &id
	return nil
}

// NewID is an id for a node or a group.
func NewID() string { return uuid.NewString() }

// Close gives the lock up.
func (o *Offline) Close() error {
	if o.lock == nil {
		return nil
	}
	lock := o.lock
	o.lock = nil
	return lock.Close()
}

// completeRecovery moves what a recovery has made valid to its place: the Raft data first, and the
// identity last. Each rename may be the last one before the process dies.
func completeRecovery(fsys vfs.FS, path string) error {
	valid := fsys.PathJoin(path, recoveryName)
	if !exists(fsys, fsys.PathJoin(valid, identityName)) {
		return errors.Join(remove(fsys, valid), remove(fsys, fsys.PathJoin(path, buildName)))
	}
	former := fsys.PathJoin(path, formerName)
	moved := !exists(fsys, fsys.PathJoin(former, identityName)) // what is there now is of this recovery
	if id, err := load(fsys, fsys.PathJoin(path, identityName)); err == nil && id.recovered() && !moved {
		former = "" // what is there was recovered, and never opened: the data from before that stays
	} else if !moved && exists(fsys, fsys.PathJoin(valid, raftName)) && exists(fsys, fsys.PathJoin(path, raftName)) {
		if err := fsys.RemoveAll(former); err != nil { // of an earlier recovery
			return unwritable(former, err)
		}
	}
	names, err := fsys.List(valid)
	if err != nil {
		return unwritable(valid, err)
	}
	slices.Sort(names) // the Raft directory comes before its mark
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, raftName) })
	for _, name := range append(names, identityName) {
		keep := former
		if moved && exists(fsys, fsys.PathJoin(former, name)) {
			keep = "" // a power cut may leave the new data at both ends of its rename
		}
		if err := swap(fsys, valid, path, keep, name); err != nil {
			return unwritable(fsys.PathJoin(path, name), err)
		}
	}
	return remove(fsys, valid)
}

// recovered reports whether a recovery made the identity, and nothing opened it since. One that was minted, as
// after a Leave, has the same incarnation when it was opened once: its id is made of a key.
func (id Identity) recovered() bool {
	node, err := fsm.ParseNode(id.NodeID)
	return err == nil && id.Incarnation == 1 && !node.Bound()
}

// remove removes what is left of a recovery.
func remove(fsys vfs.FS, path string) error {
	if !exists(fsys, path) {
		return nil
	}
	if err := fsys.RemoveAll(path); err != nil {
		return unwritable(path, err)
	}
	return nil
}

// swap moves a file to its place, durably, and what was there to former, or nowhere if that is "".
func swap(fsys vfs.FS, from, path, former, name string) error {
	to := fsys.PathJoin(path, name)
	if former == "" {
		if err := fsys.RemoveAll(to); err != nil {
			return err
		}
	} else if exists(fsys, to) {
		if err := makeDir(fsys, former); err != nil {
			return err
		}
		if err := errors.Join(fsys.Rename(to, fsys.PathJoin(former, name)), syncDir(fsys, former)); err != nil {
			return err
		}
	}
	return errors.Join(fsys.Rename(fsys.PathJoin(from, name), to), syncDir(fsys, path), syncDir(fsys, from))
}

func exists(fsys vfs.FS, path string) bool {
	_, err := fsys.Stat(path)
	return err == nil
}
