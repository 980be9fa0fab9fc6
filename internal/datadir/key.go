package datadir

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"fmt"
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
	if err := replace(d.fs, d.path, keyName, []byte(hex.EncodeToString(key.Seed())+"\n")); err != nil {
		return Identity{}, unwritable(d.fs.PathJoin(d.path, keyName), err)
	}
	return mint(cluster, fsm.KeyNode(public).String()), nil
}

// loadKey reads the key of a node, nil unless the id is made of it.
func loadKey(fsys vfs.FS, path, node string) ed25519.PrivateKey {
	text, err := readFile(fsys, fsys.PathJoin(path, keyName))
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
