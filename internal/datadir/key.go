package datadir

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/lni/vfs"

	"github.com/holdfast-go/holdfast/fsm"
)

// mint makes the identity of a new node, whose id is made of a key. The key is on disk before: a node
// that lost it could never be a client.
func (d *dir) mint(cluster string) (Identity, error) {
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return Identity{}, fmt.Errorf("holdfast: drawing the key of a node: %w", err)
	}
	if err := replaceBy(d.fs, private(d.fs), d.path, keyName, []byte(hex.EncodeToString(key.Seed())+"\n")); err != nil {
		return Identity{}, unwritable(d.fs.PathJoin(d.path, keyName), err)
	}
	return mint(cluster, fsm.KeyNode(public).String()), nil
}

// keyMode is the mode of the key's file. It does not lean on that of the directory, which may have been there
// before, as a mount is, and open to all.
const keyMode = 0o600

// private makes files that nobody else ever could open. A file system other than the system's belongs to its
// caller alone.
func private(fsys vfs.FS) func(name string) (vfs.File, error) {
	if fsys != vfs.Default {
		return fsys.Create
	}
	return func(name string) (vfs.File, error) {
		return os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, keyMode)
	}
}

// narrow takes the key from those that an earlier version let read it. That may fail where the file is
// another user's: the node can use it as it is. Windows has no such modes.
func narrow(fsys vfs.FS, name string) {
	if fsys != vfs.Default || runtime.GOOS == "windows" {
		return
	}
	if info, err := os.Lstat(name); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&^keyMode != 0 {
		_ = os.Chmod(name, info.Mode().Perm()&keyMode)
	}
}

// loadKey reads the key of a node, nil unless the id is made of it.
func loadKey(fsys vfs.FS, path, node string) ed25519.PrivateKey {
	name := fsys.PathJoin(path, keyName)
	narrow(fsys, name)
	text, err := readFile(fsys, name)
	if err != nil {
		return nil
	}
	seed, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(seed) != ed25519.SeedSize {
		return nil
	}
	key := ed25519.NewKeyFromSeed(seed)
	if public := key.Public().(ed25519.PublicKey); fsm.KeyNode(public).String() != node {
		return nil
	}
	return key
}
