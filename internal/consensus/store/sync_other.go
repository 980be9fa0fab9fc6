//go:build !linux

package store

import "github.com/lni/vfs"

// syncData brings a file's bytes to the disk.
func syncData(f vfs.File) error { return f.Sync() }
