package consensus

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
)

// The engine stamps its directory with the machine's host name, in a file and in the name of a
// subdirectory, and refuses to open it under any other name, for which it has no setting. Nodes
// move: a container gets a new host name at each start. So the subdirectory has a fixed name on the
// disk (disk.path), and the host name is taken out of the file before each start: the engine does
// not compare an empty one.
//
// It also writes its two stamp files in place: a crash in the middle of the first start leaves them
// damaged, which it answers with a panic ever after. Both say only what is passed in at every
// start, so a damaged one is removed, and the engine writes it anew.
const (
	stampFile = "dragonboat.ds" // settings that must not change
	nodeFile  = "NODEHOST.ID"   // the node id
	sumBytes  = 8               // a checksum comes before the content
	stampMax  = 1 << 20
)

var errDamaged = errors.New("holdfast: damaged")

// prepareDir makes the directory fit for a start on this machine, if it is the replica's.
func prepareDir(fs vfs.FS, cfg Config) error {
	dir := cfg.Dir
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
	return clearHost(fs, cfg)
}

// clearHost takes the host name out of the stamp, durably and atomically.
func clearHost(fs vfs.FS, cfg Config) error {
	dir := cfg.Dir
	name := fs.PathJoin(dir, stampFile)
	content, err := readStamp(fs, name)
	if err != nil && !errors.Is(err, errDamaged) || content == nil && err == nil {
		return err
	}
	var stamp raftpb.RaftDataStatus
	if err == nil {
		err = guard(func() error { return stamp.Unmarshal(content) })
	}
	if err != nil {
		if err := fs.Remove(name); err != nil {
			return fmt.Errorf("holdfast: raft directory: %w", err)
		}
		return nil
	}
	if err := cfg.owns(&stamp); err != nil {
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

// owns refuses the stamp of another replica's directory, or of one that another version of the
// engine wrote.
func (c Config) owns(stamp *raftpb.RaftDataStatus) error {
	switch {
	case stamp.Address != c.Node:
		return fmt.Errorf("%w: it belongs to node %.64q", ErrForeign, stamp.Address)
	case stamp.DeploymentId != deployment(c.Cluster):
		return fmt.Errorf("%w: it belongs to another group", ErrForeign)
	case stamp.LogdbType != c.store.name, stamp.BinVer != raftio.PlainLogDBBinVersion && c.store.name == pebbleStore().name:
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
