package datadir

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/lni/vfs"
)

// Format is the version of identity.json that this package writes, and the newest that it reads. It
// rises with every new field: an older version would drop the field. A later version writes it, and
// the field, only in a group of its own feature level: before that the node may go back.
const Format = 1

// Identity is the durable identity and memory of a node.
type Identity struct {
	Format      int       `json:"format"`
	Cluster     string    `json:"cluster"`              // the fleet's name
	NodeID      string    `json:"node_id"`              // UUID, lower case; a new directory is a new node
	ClusterID   string    `json:"cluster_id,omitempty"` // UUID of the group; "" before the node belongs to one
	Life        uint64    `json:"life,omitempty"`       // the node's present life as a replica; see next
	Asks        bool      `json:"asks,omitempty"`       // the group may not have added the replica of this life yet
	Removed     bool      `json:"removed,omitempty"`    // the group has ended this life: Drop removes its data, and the next begins
	Incarnation uint64    `json:"incarnation"`          // count of Opens of the directory
	Vote        Vote      `json:"vote"`                 // the last vote for a founder
	Started     bool      `json:"started"`              // the replica was started: it never starts as new again
	Bootstrap   uint32    `json:"bootstrap,omitempty"`  // votes that the founder of the group needed; 0: the node joined
	Birth       uint64    `json:"birth,omitempty"`      // first token of the group that it founds
	Shared      bool      `json:"shared,omitempty"`     // the group that it founded has, or may have, other replicas
	Dropped     bool      `json:"dropped,omitempty"`    // it has given up the group that it founded: Drop removes the data
	Level       uint64    `json:"level,omitempty"`      // highest feature level of the group that was seen: a version that does not know it must not run
	Retired     bool      `json:"retired,omitempty"`    // it has left its group for good: the next Open makes a new node
	Created     time.Time `json:"created"`
}

// Vote is a durable vote for the node that may bootstrap the group. The zero Vote is none.
type Vote struct {
	Candidate string `json:"candidate,omitempty"` // node id
	Ballot    uint64 `json:"ballot,omitempty"`
}

// record is identity.json: the identity and the checksum of its compact encoding.
type record struct {
	Identity
	Sum string `json:"crc32c"`
}

// mint makes the identity of a new node before its first Open.
func mint(cluster, node string) Identity {
	return Identity{Format: Format, Cluster: cluster, NodeID: node, Created: time.Now().UTC().Truncate(time.Second)}
}

// succeeds returns an error unless next may follow id.
func (id Identity) succeeds(next Identity) error {
	switch {
	case next.Cluster != id.Cluster, next.NodeID != id.NodeID, next.Incarnation != id.Incarnation,
		!next.Created.Equal(id.Created):
		return errors.New("holdfast: identity: cluster, node id, incarnation and creation time never change")
	case id.ClusterID != "" && next.ClusterID != id.ClusterID:
		return fmt.Errorf("holdfast: identity: the node belongs to cluster %s, not %s", id.ClusterID, next.ClusterID)
	case next.ClusterID != "" && !isUUID(next.ClusterID):
		return fmt.Errorf("holdfast: identity: cluster id %q is not a UUID", next.ClusterID)
	case id.Shared && !next.Shared, id.Dropped && !next.Dropped, id.Removed && !next.Removed:
		return errors.New("holdfast: identity: Shared, Dropped and Removed are never reset")
	case next.Life != id.Life, next.Asks && !id.Asks && id.ClusterID != "":
		return errors.New("holdfast: identity: only Drop begins a life")
	case next.Dropped && !(id.Alone() && next.Alone()):
		return errors.New("holdfast: identity: only a founder that no other node ever joined can give its group up")
	}
	return nil
}

// Alone reports whether the node founded its group, and no other node ever joined that, or was
// about to.
func (id Identity) Alone() bool { return id.ClusterID != "" && id.Bootstrap > 0 && !id.Shared }

// over reports whether Drop is to remove the data of the replica.
func (id Identity) over() bool { return id.Dropped || id.Removed }

// after is the identity after Drop.
func (id Identity) after() Identity {
	if id.Dropped { // the node belongs to no group
		id.ClusterID, id.Started, id.Bootstrap, id.Birth, id.Level, id.Dropped = "", false, 0, 0, 0, false
		return id
	}
	return id.next()
}

// The lowest lifeRandomBits of a life are random, the others count: of two copies of a directory
// with a removed replica, each begins a different life (internal/consensus relies on that).
const lifeRandomBits = 24

// next is the identity after the group has removed the replica: the same node in its next life,
// which asks the same group to add it.
func (id Identity) next() Identity {
	var random [8]byte
	rand.Read(random[:lifeRandomBits/8]) // never fails
	id.Life = (id.Life>>lifeRandomBits+1)<<lifeRandomBits | binary.LittleEndian.Uint64(random[:])
	id.Started, id.Bootstrap, id.Birth, id.Shared, id.Removed = false, 0, 0, false, false
	id.Asks = id.ClusterID != ""
	return id
}

// remedy is the way out of a directory without a whole identity. Deleted on a majority, it would be the end
// of the group.
const remedy = "restore the file, or delete the whole directory to start as a new node; " +
	"unless a majority of the voters is told this: then delete none, and recover the group from the newest"

// load reads and checks an identity; fs.ErrNotExist if there is none.
func load(fsys vfs.FS, path string) (Identity, error) {
	data, err := readFile(fsys, path)
	if err != nil {
		return Identity{}, fmt.Errorf("holdfast: data directory: cannot read %s: %w", path, err)
	}
	id, err := decode(data)
	switch {
	case errors.Is(err, ErrIncompatible):
		return Identity{}, fmt.Errorf("%w: %s: run that version, or use another data directory", err, path)
	case err != nil:
		return Identity{}, fmt.Errorf("%w: %s: %w: %s", ErrDamaged, path, err, remedy)
	}
	return id, nil
}

func decode(data []byte) (Identity, error) {
	switch {
	case len(data) == 0:
		return Identity{}, errors.New("the file is empty")
	case len(data) > fileMax:
		return Identity{}, errors.New("the file is too long")
	}
	var version struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(data, &version); err != nil {
		return Identity{}, err
	}
	if version.Format > Format {
		return Identity{}, fmt.Errorf("%w: written by a newer version of Holdfast (format %d, this one knows %d)",
			ErrIncompatible, version.Format, Format)
	}
	var r record
	strict := json.NewDecoder(bytes.NewReader(data))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&r); err != nil {
		return Identity{}, err
	}
	sum, err := checksum(r.Identity)
	switch {
	case err != nil:
		return Identity{}, err
	case r.Sum != sum:
		return Identity{}, errors.New("the checksum is wrong")
	case r.Format < 1, !isUUID(r.NodeID), r.ClusterID != "" && !isUUID(r.ClusterID), r.Incarnation == 0:
		return Identity{}, errors.New("a field is missing or invalid")
	}
	return r.Identity, nil
}

func encode(id Identity) ([]byte, error) {
	sum, err := checksum(id)
	if err != nil {
		return nil, err
	}
	data, err := json.MarshalIndent(record{id, sum}, "", "  ")
	return append(data, '\n'), err
}

// store replaces identity.json: after nil the new one survives a power cut, after an error the old
// or the new one is complete.
func store(fsys vfs.FS, path string, id Identity) error {
	data, err := encode(id)
	if err != nil {
		return err
	}
	return replace(fsys, path, identityName, data)
}

// isUUID reports whether s is a UUID in mint's form: uuid.Parse accepts other forms and upper case.
func isUUID(s string) bool {
	u, err := uuid.Parse(s)
	return err == nil && u.String() == s
}
