package membership

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// Bounds of a Meta's strings in bytes. With all of them at their bound an
// encoded Meta still fits MetaMax.
const (
	NodeMax      = 64
	ClusterIDMax = 64
	NameMax      = 128
	ZoneMax      = 64
	VersionMax   = 32
	MetaMax      = 512
)

// Phase says how far a node has come in its life with the group.
type Phase uint8

// The phases of a node. Their numbers are on the wire.
const (
	PhaseFresh    Phase = iota // has never belonged to a group
	PhaseJoining               // sees the group and waits to be added to it
	PhaseRunning               // its replica has caught up
	PhaseLeaving               // goes away on purpose
	PhaseStarting              // has been added and its replica catches up; comes before PhaseRunning
)

// Meta is what a node tells the others about itself with its gossip. It is a
// hint for finding peers: nothing in it can take or give a lock.
type Meta struct {
	Node        string // the node's UUID, the same for all its processes and replicas
	Incarnation uint64 // which process of the node this is
	ClusterID   string // UUID of the group it belongs to, or would join; empty while it has none
	Name        string // the name people know it by
	Zone        string // failure domain
	Version     string // of the library
	Replica     uint64 // its replica's id in the group, or that of the replica that it asks for
	Phase       Phase
	Voter       bool
	Level       uint64 // highest feature level it understands
	Applied     uint64 // index its replica has applied, as of the last SetMeta
	Alone       bool   // it founded its group, and nobody else ever joined that
	Birth       uint64 // where the token counter of that group began
}

var errMeta = errors.New("holdfast: gossip meta is malformed")

// Field numbers of an encoded Meta. A number is never used again for another
// meaning; unknown ones are skipped, so that versions can live side by side.
const (
	fieldNode protowire.Number = iota + 1
	fieldIncarnation
	fieldClusterID
	fieldName
	fieldZone
	fieldVersion
	fieldReplica
	fieldPhase
	fieldVoter
	fieldLevel
	fieldApplied
	fieldAlone
	fieldBirth
)

// texts lists the string fields with their bounds, for every walk over them.
func (m *Meta) texts() []metaText {
	return []metaText{
		{fieldNode, "Node", &m.Node, NodeMax},
		{fieldClusterID, "ClusterID", &m.ClusterID, ClusterIDMax},
		{fieldName, "Name", &m.Name, NameMax},
		{fieldZone, "Zone", &m.Zone, ZoneMax},
		{fieldVersion, "Version", &m.Version, VersionMax},
	}
}

type metaText struct {
	field protowire.Number
	name  string
	value *string
	limit int
}

// validate names the first field that others would refuse.
func (m Meta) validate() error {
	for _, t := range m.texts() {
		if len(*t.value) > t.limit {
			return fmt.Errorf("holdfast: gossip meta: %s is longer than %d bytes", t.name, t.limit)
		}
		if !printable(*t.value) {
			return fmt.Errorf("holdfast: gossip meta: %s has bytes that cannot be printed", t.name)
		}
	}
	if m.Node == "" || strings.ContainsAny(m.Node, "~/") {
		return fmt.Errorf("holdfast: gossip meta: Node %q is no node id", m.Node)
	}
	return nil
}

// printable keeps what strangers send out of logs and terminals.
func printable(s string) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s, unicode.IsControl) < 0
}

// encode returns the wire form; the result of a valid Meta fits MetaMax.
func (m Meta) encode() []byte {
	var b []byte
	for _, t := range m.texts() {
		if *t.value != "" {
			b = protowire.AppendTag(b, t.field, protowire.BytesType)
			b = protowire.AppendString(b, *t.value)
		}
	}
	number := func(field protowire.Number, v uint64) {
		if v != 0 {
			b = protowire.AppendTag(b, field, protowire.VarintType)
			b = protowire.AppendVarint(b, v)
		}
	}
	number(fieldIncarnation, m.Incarnation)
	number(fieldReplica, m.Replica)
	number(fieldPhase, uint64(m.Phase))
	number(fieldVoter, protowire.EncodeBool(m.Voter))
	number(fieldLevel, m.Level)
	number(fieldApplied, m.Applied)
	number(fieldAlone, protowire.EncodeBool(m.Alone))
	number(fieldBirth, m.Birth)
	return b
}

// decodeMeta reads what encode wrote, and refuses everything that validate
// would: it comes from the network.
func decodeMeta(b []byte) (Meta, error) {
	var m Meta
	if len(b) > MetaMax {
		return m, errMeta
	}
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return Meta{}, errMeta
		}
		b = b[n:]
		switch kind {
		case protowire.BytesType:
			v, size := protowire.ConsumeBytes(b)
			if n = size; n >= 0 {
				m.setText(field, v)
			}
		case protowire.VarintType:
			v, size := protowire.ConsumeVarint(b)
			if n = size; n >= 0 {
				m.setNumber(field, v)
			}
		default:
			n = protowire.ConsumeFieldValue(field, kind, b)
		}
		if n < 0 {
			return Meta{}, errMeta
		}
		b = b[n:]
	}
	if err := m.validate(); err != nil {
		return Meta{}, err
	}
	return m, nil
}

func (m *Meta) setText(field protowire.Number, v []byte) {
	for _, t := range m.texts() {
		if t.field == field {
			*t.value = string(v)
		}
	}
}

func (m *Meta) setNumber(field protowire.Number, v uint64) {
	switch field {
	case fieldIncarnation:
		m.Incarnation = v
	case fieldReplica:
		m.Replica = v
	case fieldPhase:
		m.Phase = Phase(min(v, 255)) // a later version may know more phases
	case fieldVoter:
		m.Voter = protowire.DecodeBool(v)
	case fieldLevel:
		m.Level = v
	case fieldApplied:
		m.Applied = v
	case fieldAlone:
		m.Alone = protowire.DecodeBool(v)
	case fieldBirth:
		m.Birth = v
	}
}

// listName is the name under which memberlist knows this life of the node.
// Every life has its own, because memberlist refuses a known name at another
// address until its old bearer has been dead for a while.
func (m Meta) listName() string {
	return m.Node + "~" + strconv.FormatUint(m.Incarnation, 10)
}

// splitName takes a listName apart.
func splitName(name string) (node string, incarnation uint64, ok bool) {
	node, digits, ok := strings.Cut(name, "~")
	if !ok {
		return "", 0, false
	}
	incarnation, err := strconv.ParseUint(digits, 10, 64)
	return node, incarnation, err == nil
}
