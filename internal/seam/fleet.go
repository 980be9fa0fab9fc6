package seam

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/member"
)

// Fleet is what a node with a replica knows of its fleet: of its group the zero value while it has
// none. A client has that of its replica. The encoding is JSON, part of the wire format: a reader
// skips the fields of a later version.
type Fleet struct {
	Members    []Member  `json:"members,omitempty"` // that gossip sees, by node; this node included
	Voters     []Replica `json:"voters,omitempty"`  // by node
	Standbys   []Replica `json:"standbys,omitempty"`
	RaftLeader string    `json:"raft_leader,omitempty"` // the node that is, "" for none
	Term       uint64    `json:"term,omitempty"`
	Applied    uint64    `json:"applied,omitempty"` // an index of the log
	Level      uint64    `json:"level,omitempty"`   // feature level of the group, 0 before there is one
	Plan       string    `json:"plan,omitempty"`    // on the raft leader: the next change of the membership, or what it waits for
	Rise       string    `json:"rise,omitempty"`    // on the raft leader: what the next level waits for
	Drift      string    `json:"drift,omitempty"`   // which nodes are configured otherwise than the one that tells, and in what
}

// Member is a node as gossip sees it.
type Member struct {
	Node    string       `json:"node"`
	Name    string       `json:"name,omitempty"`
	Addr    string       `json:"addr,omitempty"`
	Zone    string       `json:"zone,omitempty"`
	Version string       `json:"version,omitempty"`
	Level   uint64       `json:"level,omitempty"` // highest feature level that it knows
	State   member.State `json:"state"`
	Local   bool         `json:"-"` // the node that tells
}

// Replica is what a node knows of one of its group.
type Replica struct {
	Node   string        `json:"node"`
	Name   string        `json:"name,omitempty"`
	Addr   string        `json:"addr,omitempty"`
	Heard  time.Duration `json:"heard"`            // ns since Raft heard it here; 0 for the own one, -1: it was not heard in this term
	Behind uint64        `json:"behind,omitempty"` // on the raft leader: entries that it lacks
	Ill    string        `json:"ill,omitempty"`    // why it does not work, as far as this node knows; "": it does
}

// Append appends the encoding.
func (f Fleet) Append(b []byte) ([]byte, error) {
	encoded, err := json.Marshal(f)
	return append(b, encoded...), err
}

// ParseFleet reads it.
func ParseFleet(b []byte) (f Fleet, err error) {
	if err := json.Unmarshal(b, &f); err != nil {
		return Fleet{}, fmt.Errorf("holdfast: malformed answer about the fleet: %w", err)
	}
	return f, nil
}
