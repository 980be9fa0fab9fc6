//go:build !linux

package consensus

import "github.com/lni/vfs"

// syncData brings a file's bytes to the disk.
func syncData(f vfs.File) error { return f.Sync() }
