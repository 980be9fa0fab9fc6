package store

import (
	"bytes"
	"crypto/md5"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/lni/dragonboat/v4/raftio"
	"github.com/lni/dragonboat/v4/raftpb"
	"github.com/lni/vfs"

	"github.com/holdfast-go/holdfast/internal/consensus/engine"
)

// The engine stamps its directory with the machine's host name, in a file and as a subdirectory,
// and refuses to open it under another name. But a container has a new host name at each start. So
// the subdirectory has a fixed name on the disk (disk.path), and the host name is removed from the
// file before each start: the engine does not compare an empty one.
//
// The engine also writes its two stamp files in place: a crash during the first start damages them,
// and each later start panics. Both have only what each start passes in, so a damaged one is
// removed.
const (
	stampFile = "dragonboat.ds" // settings that must not change
	nodeFile  = "NODEHOST.ID"   // the node id
	sumBytes  = 8               // a checksum comes before the content
	stampMax  = 1 << 20
)

var errDamaged = errors.New("holdfast: damaged")

// Prepare prepares a directory for a start on this machine, if it is that of a replica of this node
// and group.
func Prepare(fs vfs.FS, dir, node string, deployment uint64) error {
	if err := fs.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("holdfast: raft directory: %w", err)
	}
	if _, err := readStamp(fs, fs.PathJoin(dir, nodeFile)); errors.Is(err, errDamaged) {
		if err := fs.Remove(fs.PathJoin(dir, nodeFile)); err != nil {
			return fmt.Errorf("holdfast: raft directory: %w", err)
		}
	} else if err != nil {
		return err
	}
	return clearHost(fs, dir, node, deployment)
}

// clearHost removes the host name from the stamp, durably and atomically.
func clearHost(fs vfs.FS, dir, node string, deployment uint64) error {
	name := fs.PathJoin(dir, stampFile)
	content, err := readStamp(fs, name)
	if err != nil && !errors.Is(err, errDamaged) || content == nil && err == nil {
		return err
	}
	var stamp raftpb.RaftDataStatus
	if err == nil {
		err = engine.Guard(func() error { return stamp.Unmarshal(content) })
	}
	if err != nil {
		if err := fs.Remove(name); err != nil {
			return fmt.Errorf("holdfast: raft directory: %w", err)
		}
		return nil
	}
	if err := owns(&stamp, node, deployment); err != nil {
		return fmt.Errorf("%w: %s", err, name)
	}
	if stamp.Hostname == "" {
		return nil
	}
	stamp.Hostname = ""
	if content, err = stamp.Marshal(); err != nil {
		return fmt.Errorf("holdfast: raft directory: %w", err)
	}
	return replaceStamp(fs, dir, name, content)
}

// owns refuses the stamp of another replica, or of another version of the engine.
func owns(stamp *raftpb.RaftDataStatus, node string, deployment uint64) error {
	switch {
	case stamp.Address != node:
		return fmt.Errorf("%w: it belongs to node %.64q", ErrForeign, stamp.Address)
	case stamp.DeploymentId != deployment:
		return fmt.Errorf("%w: it belongs to another group", ErrForeign)
	case stamp.LogdbType != kind, stamp.BinVer != raftio.PlainLogDBBinVersion:
		return fmt.Errorf("%w: its log is of kind %.32q, version %d, which this version does not read",
			ErrForeign, stamp.LogdbType, stamp.BinVer)
	}
	return nil
}

// readStamp returns a stamp's content; nil if there is no such file.
func readStamp(fs vfs.FS, name string) ([]byte, error) {
	f, err := fs.Open(name)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil, nil
		}
		return nil, fmt.Errorf("holdfast: raft directory: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, stampMax))
	if err != nil {
		return nil, fmt.Errorf("holdfast: reading %s: %w", name, err)
	}
	if len(b) < sumBytes || !bytes.Equal(b[:sumBytes], stampSum(b[sumBytes:])) {
		return nil, fmt.Errorf("%w: %s", errDamaged, name)
	}
	return b[sumBytes:], nil
}

// stampSum is the engine's checksum of a stamp: the second half of an MD5.
func stampSum(content []byte) []byte {
	sum := md5.Sum(content)
	return sum[sumBytes:]
}

func replaceStamp(fs vfs.FS, dir, name string, content []byte) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("holdfast: writing %s: %w", name, err)
		}
	}()
	f, err := fs.Create(name + ".new")
	if err != nil {
		return err
	}
	_, err = f.Write(append(stampSum(content), content...))
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := fs.Rename(name+".new", name); err != nil {
		return err
	}
	return syncDir(fs, dir)
}

func syncDir(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
