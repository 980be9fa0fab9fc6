package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/lni/vfs"
)

// fileMax bounds identity.json and peers.json.
const fileMax = 64 << 10

// readFile reads a file, and a byte beyond fileMax of one that is too long.
func readFile(fsys vfs.FS, path string) ([]byte, error) {
	f, err := fsys.Open(path)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, fileMax+1))
	return data, errors.Join(err, f.Close())
}

// checksum is that of the compact encoding of a record.
func checksum(record any) (string, error) {
	data, err := json.Marshal(record)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%08x", crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))), nil
}

// replace replaces a file: after nil the new one survives a power cut, after an error the old or the
// new one is complete.
func replace(fsys vfs.FS, path, name string, data []byte) error {
	return replaceBy(fsys, fsys.Create, path, name, data)
}

// replaceBy is replace with a way to make the new file.
func replaceBy(fsys vfs.FS, create func(name string) (vfs.File, error), path, name string, data []byte) error {
	name = fsys.PathJoin(path, name)
	temp := name + ".tmp"
	_ = fsys.Remove(temp) // of a process that died in replace
	f, err := create(temp)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := fsys.Rename(temp, name); err != nil {
		return err
	}
	return syncDir(fsys, path)
}

func syncDir(fsys vfs.FS, path string) error {
	d, err := fsys.OpenDir(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
